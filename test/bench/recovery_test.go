//go:build bench

package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

const (
	// recoveryTimeout is when a slice of ours is given up.
	recoveryTimeout = 2 * time.Minute
	// noticeTime is from the notice of a host's end to that end, as for spot VMs.
	noticeTime = 30 * time.Second
	// spacing lets the operator replace a slice for the second time at once.
	spacing = 15 * time.Second
)

// bench is a running operator with an observer beside it.
type bench struct {
	*env
	*observer
	b budgets
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := readBudgets(t)
	e := newEnv(t)
	o := newObserver(t, e)
	e.operator(t)
	if _, err := e.CreatePool(t.Context(), cluster.CPUPool("heads", 12)); err != nil {
		t.Fatal(err)
	}
	return &bench{env: e, observer: o, b: b}
}

// fault hurts one slice.
type fault struct {
	name, title string
	// strike returns when the signal came.
	strike func(ctx context.Context, b *bench, s *side, slice int) (time.Time, error)
}

var faults = []fault{
	{"host", "a host dies", func(ctx context.Context, b *bench, s *side, slice int) (time.Time, error) {
		node := b.lastWorker(ctx, s, slice).Spec.NodeName
		if err := b.KillHost(ctx, node); err != nil {
			return time.Time{}, err
		}
		err := until(ctx, 2*time.Minute, node+" is not Ready", func() bool { return !b.alive(ctx, node) })
		return time.Now(), err
	}},
	{"pool", "the pool's nodes are deleted", func(ctx context.Context, b *bench, s *side, slice int) (time.Time, error) {
		return time.Now(), b.DeletePool(ctx, b.poolOf(ctx, s, slice))
	}},
	{"notice", "a host is about to be terminated", func(ctx context.Context, b *bench, s *side, slice int) (time.Time, error) {
		node, at := b.lastWorker(ctx, s, slice).Spec.NodeName, time.Now()
		time.AfterFunc(noticeTime, func() { // unless it was repaired, or the cluster has ended
			var n corev1.Node
			if b.Client.Get(ctx, client.ObjectKey{Name: node}, &n) == nil &&
				slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cluster.TaintImpendingTermination.Key }) {
				_ = b.DeleteHost(ctx, node) // a plain JobSet then has no reason to recover, and says so
			}
		})
		return at, b.Notice(ctx, node)
	}},
	{"exit-0", "a worker exits with 0", func(ctx context.Context, b *bench, s *side, slice int) (time.Time, error) {
		pod := client.ObjectKeyFromObject(b.lastWorker(ctx, s, slice))
		if err := b.ExitContainer(ctx, pod, cluster.Exit{}); err != nil {
			return time.Time{}, err
		}
		err := until(ctx, time.Minute, pod.Name+" has ended", func() bool {
			var p corev1.Pod
			return b.Get(ctx, pod, &p) != nil || p.Status.Phase != corev1.PodRunning
		})
		return time.Now(), err
	}},
	{"pods", "all pods of the slice are deleted", func(ctx context.Context, b *bench, s *side, slice int) (time.Time, error) {
		return time.Now(), b.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.name), client.MatchingLabels{
			jobsetv1alpha2.ReplicatedJobNameKey: v1.WorkerReplicatedJob, jobsetv1alpha2.JobIndexKey: strconv.Itoa(slice),
		})
	}},
}

// lastWorker is the worker of a slice whose name comes last.
func (b *bench) lastWorker(ctx context.Context, s *side, slice int) *corev1.Pod {
	last := &corev1.Pod{}
	for _, pod := range b.workers(ctx, s)[slice] {
		if pod.Name > last.Name {
			last = pod
		}
	}
	return last
}

func TestRecovery(t *testing.T) {
	for _, vms := range []int{4, 16} {
		t.Run(strconv.Itoa(vms), func(t *testing.T) {
			b := newBench(t)
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) { b.recovery(t, f, vms) })
			}
		})
	}
}

// recovery strikes a PathwaysJob again and again, and a plain JobSet once at
// the time of the first.
func (b *bench) recovery(t *testing.T, f fault, vms int) {
	ctx := t.Context()
	ours := &side{name: fmt.Sprintf("ours-%s-%d", f.name, vms), vms: vms, slices: 3}
	plain := &side{name: fmt.Sprintf("plain-%s-%d", f.name, vms), vms: vms, slices: 3}
	b.start(t, b.observer, ours, 4, false)
	b.start(t, b.observer, plain, 4, true)
	ourLine, plainLine := b.record(ctx, ours), b.record(ctx, plain)

	cutoff := seconds(b.b.Recovery.BaselineCutoffSeconds)
	baseline := make(chan string, 1)
	go func() { baseline <- b.baseline(ctx, f, plain, cutoff) }()
	var took []float64
	var begun time.Time
	last := map[int]time.Time{}
	for round := range b.b.Recovery.Rounds {
		slice := round % ours.slices
		if at, again := last[slice]; again {
			eventually(t, time.Minute, "the slice may be replaced at once again", func() bool { return time.Since(at) > time.Duration(round)*spacing })
		}
		before := incarnation(b.workers(ctx, ours)[slice])
		pool := b.poolOf(ctx, ours, slice)
		at, err := f.strike(ctx, b, ours, slice)
		if err != nil {
			t.Fatal(err)
		}
		if begun.IsZero() {
			begun = at
		}
		eventually(t, recoveryTimeout, fmt.Sprintf("slice %d is ready again after: %s", slice, f.title), func() bool {
			return b.recovered(ctx, ours, slice, before)
		})
		last[slice] = time.Now()
		took = append(took, time.Since(at).Seconds())
		t.Logf("round %d: %.2f s", round, took[round])
		b.restore(t, ours, pool)
		b.allReady(t, b.observer, ours)
	}
	out := b.newTable(fmt.Sprintf("recovery-%d", vms), fmt.Sprintf("A slice of %d VMs is hurt", vms))
	r := row{What: f.title, Values: slices.Clone(took), Budget: b.b.Recovery.SecondsByVMs[vms], Unit: "s", Baseline: <-baseline}
	r.Value = round(median(took))
	r.Plot = fmt.Sprintf("%s-%d.svg", f.name, vms)
	out.add(r)
	savePlot(t, r.Plot, fmt.Sprintf("%s, slices of %d VMs", f.title, vms), begun, cutoff, ours.slices,
		line{"PathwaysJob, " + strconv.Itoa(len(took)) + " faults in a row", ourLine.stop()}, line{"plain JobSet, one fault", plainLine.stop()})
	out.save(t)
	t.Logf("median %.2f s of %g; plain JobSet: %s", r.Value, r.Budget, r.Baseline)
	if r.Value > r.Budget {
		t.Errorf("%s: %.2f s, the budget is %g", f.title, r.Value, r.Budget)
	}
	b.end(t, ours.job())
}

// baseline strikes a plain JobSet, and says in words when it recovered.
func (b *bench) baseline(ctx context.Context, f fault, s *side, cutoff time.Duration) string {
	before := incarnation(b.workers(ctx, s)[0])
	at, err := f.strike(ctx, b, s, 0)
	if err == nil {
		err = until(ctx, cutoff, "recovered", func() bool { return b.recovered(ctx, s, 0, before) })
	}
	switch {
	case wait.Interrupted(err):
		return fmt.Sprintf("not recovered in %.0f s", cutoff.Seconds())
	case err != nil:
		return "no result: " + err.Error()
	}
	return fmt.Sprintf("%.1f s", time.Since(at).Seconds())
}
