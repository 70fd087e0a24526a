package elastic

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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
	asked := 0
	for i := range obs.Pools {
		pool := &obs.Pools[i]
		if !pool.Fits || !pool.Idle() || asked == mostForeign {
			continue
		}
		used, fresh, err := f.used(ctx, pool, now)
		if err != nil {
			return err
		}
		if fresh {
			asked++
		}
		if used {
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

// used says whether a pod holds TPUs of the pool; fresh whether it was read.
func (f *foreignPods) used(ctx context.Context, pool *plan.Pool, now time.Time) (used, fresh bool, err error) {
	key := pool.Name
	if len(pool.Nodes) == 1 {
		key = "node/" + pool.Nodes[0].Name // the names of single-host pools are not unique
	}
	f.mu.Lock()
	answer, ok := f.answers[key]
	f.mu.Unlock()
	if ok && now.Sub(answer.at) < foreignFor {
		return answer.used, false, nil
	}
	for _, n := range pool.Nodes {
		var pods corev1.PodList
		if err := f.live.List(ctx, &pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
			return false, true, fmt.Errorf("listing the pods on node %s: %w", n.Name, err)
		}
		for i := range pods.Items {
			used = used || holdsTPU(&pods.Items[i])
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, a := range f.answers {
		if now.Sub(a.at) >= foreignFor {
			delete(f.answers, other)
		}
	}
	f.answers[key] = foreignAnswer{at: now, used: used}
	return used, true, nil
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
