package elastic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pathways.domain/pathways-job/internal/elastic/plan"
)

const (
	// foreignFor is how long an answer about a pool is used again.
	foreignFor = 5 * time.Second
	// mostForeign bounds the pools that one look asks about; the others count
	// as idle or not by the cache alone.
	mostForeign = 8
)

// foreignPods finds, by live reads, the TPU pods that the cache does not hold
// because they are of no JobSet like ours: a pool that they use is not idle.
type foreignPods struct {
	live client.Reader

	mu      sync.Mutex
	answers map[string]foreignAnswer
}

type foreignAnswer struct {
	at   time.Time
	used bool
}

func newForeignPods(live client.Reader) *foreignPods {
	return &foreignPods{live: live, answers: map[string]foreignAnswer{}}
}

// mark corrects the pools of an observation in which it matters whether a
// pool is idle.
func (f *foreignPods) mark(ctx context.Context, obs *plan.Observation, now time.Time) error {
	if !idleMatters(obs) {
		return nil
	}
	var unknown []*plan.Pool
	for i := range obs.Pools {
		pool := &obs.Pools[i]
		if _, known := f.answer(pool, now); !known && pool.Fits && pool.Idle() && len(unknown) < mostForeign {
			unknown = append(unknown, pool)
		}
	}
	if err := f.ask(ctx, unknown, now); err != nil {
		return err
	}
	for i := range obs.Pools {
		pool := &obs.Pools[i]
		if used, _ := f.answer(pool, now); used && pool.Fits && pool.Idle() {
			pool.Nodes = taken(pool.Nodes)
		}
	}
	return nil
}

// idleMatters says whether a decision may depend on an idle pool: a slice has
// a node that is not Ready or will be under maintenance, or is only partly
// scheduled, or is held.
func idleMatters(obs *plan.Observation) bool {
	for i := range obs.Job.Status.Slices {
		if obs.Job.Status.Slices[i].HoldUntil != nil {
			return true
		}
	}
	for i := range obs.Slices {
		bound, stuck := false, false
		for _, p := range obs.Slices[i].Pods {
			if n := p.Node; n != nil {
				bound = true
				if n.Ready != plan.NodeReadyTrue || n.MaintenanceOngoing || !n.MaintenanceAt.IsZero() {
					return true
				}
			}
			stuck = stuck || !p.Unschedulable.IsZero()
		}
		if bound && stuck {
			return true
		}
	}
	return false
}

// answer says whether pods hold TPUs of the pool, and whether that is known.
func (f *foreignPods) answer(pool *plan.Pool, now time.Time) (used, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, known := f.answers[answerKey(pool)]
	known = known && now.Sub(a.at) < foreignFor
	return known && a.used, known
}

func answerKey(pool *plan.Pool) string {
	if len(pool.Nodes) == 1 {
		return "node/" + pool.Nodes[0].Name // the names of single-host pools are not unique
	}
	return pool.Name
}

// ask looks for the pods on all nodes of the pools side by side: while a slice
// is down, each read's time counts.
func (f *foreignPods) ask(ctx context.Context, pools []*plan.Pool, now time.Time) error {
	used := make([]atomic.Bool, len(pools))
	var g errgroup.Group
	g.SetLimit(maxParallel)
	for i, pool := range pools {
		for _, n := range pool.Nodes {
			g.Go(func() error {
				var pods corev1.PodList
				if err := f.live.List(ctx, &pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
					return fmt.Errorf("listing the pods on node %s: %w", n.Name, err)
				}
				for j := range pods.Items {
					if holdsTPU(&pods.Items[j]) {
						used[i].Store(true)
					}
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.answers, func(_ string, a foreignAnswer) bool { return now.Sub(a.at) >= foreignFor })
	for i, pool := range pools {
		f.answers[answerKey(pool)] = foreignAnswer{at: now, used: used[i].Load()}
	}
	return nil
}

// taken is a copy of the nodes of a pool some of which pods of others use; it
// says so of the first, because a look does not note of which.
func taken(nodes []*plan.Node) []*plan.Node {
	out := slices.Clone(nodes)
	first := *nodes[0]
	first.TPUPods++
	out[0] = &first
	return out
}
