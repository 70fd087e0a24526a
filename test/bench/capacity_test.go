//go:build bench

package bench

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

// TestSeveral takes the pools of one slice, and then of four at once.
func TestSeveral(t *testing.T) {
	const vms, many = 16, 4
	b := newBench(t)
	s := &side{name: "several", vms: vms, slices: many + 1}
	b.start(t, b.observer, s, s.slices+many, false)
	one := b.losePools(t, s, []int{many})
	all := b.losePools(t, s, []int{0, 1, 2, 3})
	out := b.newTable("several", "Four slices of 16 VMs lose their pools at once")
	out.add(row{What: "one slice", Value: round(one), Unit: "s"})
	within(t, out, "four slices, until the last one is Ready", all, one*b.b.Recovery.SeveralRatio, "s")
	out.Note = "The budget is " + strconv.FormatFloat(b.b.Recovery.SeveralRatio, 'g', -1, 64) + " times the one."
	out.save(t)
}

// losePools deletes the pools of slices, returns how long the last of them
// takes to be ready again, and restores the pools.
func (b *bench) losePools(t *testing.T, s *side, which []int) float64 {
	t.Helper()
	ctx := t.Context()
	workers := b.workers(ctx, s)
	pools := make([]string, len(which))
	for i, slice := range which {
		pools[i] = b.poolOf(ctx, s, slice)
	}
	begun := time.Now()
	errs := make([]error, len(pools))
	var wg sync.WaitGroup
	for i, pool := range pools {
		wg.Go(func() { errs[i] = b.DeletePool(ctx, pool) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, slice := range which {
		before := incarnation(workers[slice])
		eventually(t, recoveryTimeout, "slice "+strconv.Itoa(slice)+" is ready again", func() bool {
			return b.recovered(ctx, s, slice, before)
		})
	}
	took := time.Since(begun).Seconds()
	for _, pool := range pools {
		b.restore(t, s, pool)
	}
	b.allReady(t, b.observer, s)
	return took
}

// TestNoPool takes the only pool of a slice, and gives it back.
func TestNoPool(t *testing.T) {
	b := newBench(t)
	out := b.newTable("no-pool", "A slice loses the only pool of its shape")
	for _, vms := range []int{4, 16} {
		s := &side{name: "no-pool-" + strconv.Itoa(vms), vms: vms, slices: 1}
		b.start(t, b.observer, s, 1, false)
		pool := b.poolOf(t.Context(), s, 0)
		if err := b.DeletePool(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		b.suspended(t, s.job())
		took := b.readyAfterRestore(t, s, pool)
		within(t, out, strconv.Itoa(vms)+" VMs, from its new nodes' Ready to the slice's", took, b.b.Recovery.SecondsByVMs[vms], "s")
		b.end(t, s.job())
	}
	out.save(t)
}

// suspended waits until slice 0 of a job says that it is Suspended, and has no
// pod on any node.
func (b *bench) suspended(t *testing.T, job *v1.PathwaysJob) {
	t.Helper()
	ctx := t.Context()
	eventually(t, recoveryTimeout, job.Name+" has its slice Suspended as a whole", func() bool {
		var live v1.PathwaysJob
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(job), &live); err != nil || len(live.Status.Slices) == 0 {
			return false
		}
		for _, pod := range b.workers(ctx, &side{name: job.Name})[0] {
			if pod.Spec.NodeName != "" {
				return false
			}
		}
		return live.Status.Slices[0].State == v1.SliceSuspended
	})
}

// readyAfterRestore makes a pool anew, and returns the time from its nodes'
// being Ready and schedulable until slice 0 is ready.
func (b *bench) readyAfterRestore(t *testing.T, s *side, pool string) float64 {
	t.Helper()
	b.restore(t, s, pool)
	at := time.Now()
	b.allReady(t, b.observer, s)
	return time.Since(at).Seconds()
}

// graceSeconds is how long the pods take to stop.
const graceSeconds = 1

// TestPriority lets a job of higher priority take the only pool of another.
func TestPriority(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for name, value := range map[string]int32{"low": 1000, "high": 100000} {
		if err := b.Client.Create(ctx, priorityClass(name, value)); err != nil {
			t.Fatal(err)
		}
	}
	out := b.newTable("priority", "A slice of higher priority takes a pool")
	for _, vms := range []int{4, 16} {
		low := &side{name: "low-" + strconv.Itoa(vms), vms: vms, slices: 1, priority: "low"}
		b.start(t, b.observer, low, 1, false)
		b.end(t, low.job())

		// The preemptor's own start, on a free pool of the victim's reservation.
		high := &side{name: "high-" + strconv.Itoa(vms), vms: vms, slices: 1, priority: "high", reservation: low.name}
		b.namespace(t, high.name)
		own := b.startTime(t, high)
		b.end(t, high.job())

		if err := b.Client.Create(ctx, low.job()); err != nil {
			t.Fatal(err)
		}
		b.allReady(t, b.observer, low)
		took := b.startTime(t, high)
		budget := own + graceSeconds + b.b.Recovery.PreemptionSeconds
		within(t, out, strconv.Itoa(vms)+" VMs: the preemptor's slice is Ready", took, budget, "s")
		out.add(row{What: strconv.Itoa(vms) + " VMs: its start on a free pool", Value: round(own), Unit: "s"})
		b.suspended(t, low.job())
		b.addPool(t, low)
		at := time.Now()
		b.allReady(t, b.observer, low)
		within(t, out, strconv.Itoa(vms)+" VMs: the victim is Ready on new pool", time.Since(at).Seconds(), b.b.Recovery.SecondsByVMs[vms], "s")
		b.end(t, low.job())
		b.end(t, high.job())
	}
	out.Note = "The budget of the preemptor is its own start, one grace period (1 s) and 4 s."
	out.save(t)
}

// startTime creates a side's job, and returns how long its slices take.
func (b *bench) startTime(t *testing.T, s *side) float64 {
	t.Helper()
	at := time.Now()
	if err := b.Client.Create(t.Context(), s.job()); err != nil {
		t.Fatal(err)
	}
	b.allReady(t, b.observer, s)
	return time.Since(at).Seconds()
}
