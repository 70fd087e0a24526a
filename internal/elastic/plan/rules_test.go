package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// rule is one question to the planner about a job of two slices of four VMs
// that runs on pool-0 and pool-1; pool-2 and following are idle.
type rule struct {
	change func(o *Observation)
	// want are the slices that are not plainly Ready, the actions, and a
	// whole restart that is wanted.
	want []string
}

var askedAt = epoch.Add(time.Hour + time.Minute)

func ask(r rule) []string {
	o, now := steadyState(2, 4)
	o.Job.ElasticSlices, o.Job.MaxSliceRestarts = 1, 1
	if r.change != nil {
		r.change(&o)
	}
	return gist(Next(o, now))
}

// gist says in short what was decided.
func gist(d Decision) []string {
	var lines []string
	for _, s := range d.Slices {
		if s.State == v1.SliceReady && s.Reason == "" {
			continue
		}
		line := fmt.Sprintf("slice %d %s %s", *s.Index, s.State, s.Reason)
		if s.HoldUntil != nil {
			line += fmt.Sprintf(", held for %s", s.HoldUntil.Sub(askedAt))
		}
		lines = append(lines, line)
	}
	if r := d.Repair.Restart; r != nil {
		lines = append(lines, fmt.Sprintf("whole restart %s, charged: %t", r.Reason, *r.Charged))
	}
	for _, a := range d.Actions {
		lines = append(lines, actionWords(a))
	}
	for _, a := range d.Suppressed {
		lines = append(lines, "would "+actionWords(a))
	}
	return lines
}

func check(t *testing.T, rules map[string]rule) {
	t.Helper()
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(r.want, ask(r)); diff != "" {
				t.Errorf("decision differs (-want +got):\n%s", diff)
			}
		})
	}
}

func node(o *Observation, slice, vm int) *Node { return o.Slices[slice].Pods[vm].Node }

// notReadyFor makes a host of slice 0 NotReady, and its pod with it.
func notReadyFor(o *Observation, ready NodeReady, d time.Duration) {
	n := node(o, 0, 1)
	n.Ready, n.ReadySince = ready, askedAt.Add(-d)
	o.Slices[0].Pods[1].Ready = false
}

// busyPools leaves no idle pool; the others' pods have that priority.
func busyPools(o *Observation, priority int32) {
	for i := 2; i < len(o.Pools); i++ {
		for _, n := range o.Pools[i].Nodes {
			n.TPUPods, n.TopPriority = 1, priority
		}
	}
}

var (
	replaced = []string{
		"slice 0 Replacing HostFailed", "FencePool pool-0", "DeleteChildJob childjob-0",
		"ShortenGrace pod-0-0", "ShortenGrace pod-0-2", "ShortenGrace pod-0-3", "ForceDeletePod pod-0-1",
	}
	waits = []string{"slice 0 Suspended HostFailed"}
)

func TestHostFailed(t *testing.T) {
	check(t, map[string]rule{
		"nothing": {},
		"gone":    {change: func(o *Observation) { node(o, 0, 1).Gone = true }, want: replaced},
		"gone, no idle pool": {
			change: func(o *Observation) { node(o, 0, 1).Gone = true; busyPools(o, 1000) }, want: replaced,
		},
		"out of service":    {change: func(o *Observation) { node(o, 0, 1).OutOfService = true }, want: replaced},
		"shut down":         {change: func(o *Observation) { node(o, 0, 1).Shutdown = true }, want: replaced},
		"Unknown":           {change: func(o *Observation) { notReadyFor(o, NodeReadyUnknown, 0) }, want: replaced},
		"NotReady for 29 s": {change: func(o *Observation) { notReadyFor(o, NodeReadyFalse, 29*time.Second) }, want: waits},
		"NotReady for 30 s": {
			// Its kubelet may live, so its pod is not force-deleted.
			change: func(o *Observation) { notReadyFor(o, NodeReadyFalse, 30*time.Second) },
			want: []string{
				"slice 0 Replacing HostFailed", "FencePool pool-0", "DeleteChildJob childjob-0",
				"ShortenGrace pod-0-0", "ShortenGrace pod-0-1", "ShortenGrace pod-0-2", "ShortenGrace pod-0-3",
			},
		},
		"Unknown, no idle pool": {
			change: func(o *Observation) { notReadyFor(o, NodeReadyUnknown, time.Minute); busyPools(o, 0) }, want: waits,
		},
		"Unknown, a lower priority could be taken": {
			change: func(o *Observation) { notReadyFor(o, NodeReadyUnknown, time.Minute); busyPools(o, -1) }, want: replaced,
		},
		"Unknown for 5 min, no idle pool": {
			change: func(o *Observation) { notReadyFor(o, NodeReadyUnknown, 5*time.Minute); busyPools(o, 0) }, want: replaced,
		},
		"Unknown, a mass failure is over for 29 s": {change: func(o *Observation) {
			notReadyFor(o, NodeReadyUnknown, time.Minute)
			o.Job.Status.Repair = &v1.RepairStatus{Resumed: ptr.To(metav1.NewTime(askedAt.Add(-29 * time.Second)))}
		}, want: waits},
		"Unknown, a mass failure is over for 30 s": {change: func(o *Observation) {
			notReadyFor(o, NodeReadyUnknown, time.Minute)
			o.Job.Status.Repair = &v1.RepairStatus{Resumed: ptr.To(metav1.NewTime(askedAt.Add(-30 * time.Second)))}
		}, want: replaced},
		"Unknown, the API server answers again for 29 s": {change: func(o *Observation) {
			notReadyFor(o, NodeReadyUnknown, time.Minute)
			o.Answering = askedAt.Add(-29 * time.Second)
		}, want: waits},
		"Unknown, the API server answers again for 30 s": {change: func(o *Observation) {
			notReadyFor(o, NodeReadyUnknown, time.Minute)
			o.Answering = askedAt.Add(-30 * time.Second)
		}, want: replaced},
		"gone, a mass failure is just over": {change: func(o *Observation) {
			node(o, 0, 1).Gone = true
			o.Job.Status.Repair = &v1.RepairStatus{Resumed: ptr.To(metav1.NewTime(askedAt))}
		}, want: replaced},
		"the pod has ended": {change: func(o *Observation) {
			notReadyFor(o, NodeReadyUnknown, 0)
			o.Slices[0].Pods[1].Phase, o.Slices[0].Pods[1].Disrupted = PodFailed, "TerminationByKubelet"
		}, want: []string{"slice 0 Suspending Preempted", "FencePool pool-0", "DeleteChildJob childjob-0"}},
		"cordoned": {change: func(o *Observation) { node(o, 0, 1).Unschedulable = true }},
		"Kueue places the job": {
			change: func(o *Observation) { o.Job.KueueTopology = true; node(o, 0, 1).Gone = true }, want: waits,
		},
		"fences off": {
			change: func(o *Observation) { o.Policy.FencePools = false; node(o, 0, 1).Gone = true }, want: waits,
		},
		"fences off, nothing there takes pods": {change: func(o *Observation) {
			o.Policy.FencePools = false
			for _, n := range o.Pools[0].Nodes {
				n.Unschedulable = true
			}
			node(o, 0, 1).Gone = true
		}, want: append([]string{replaced[0]}, replaced[2:]...)},
		"DryRun": {
			change: func(o *Observation) { o.Policy.Mode = DryRun; node(o, 0, 1).Gone = true },
			want: []string{
				waits[0], "would FencePool pool-0", "would DeleteChildJob childjob-0",
				"would ShortenGrace pod-0-0", "would ShortenGrace pod-0-2", "would ShortenGrace pod-0-3",
			},
		},
	})
}

// TestPending: a slice that starts says what it waits for, and no longer why
// it went down before a whole restart.
func TestPending(t *testing.T) {
	starts := func(reason string, change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			st := &o.Job.Status.Slices[0]
			st.State, st.Reason, st.ReadyJobUID = v1.SlicePending, reason, ""
			for i := range o.Slices[0].Pods {
				p := &o.Slices[0].Pods[i]
				p.Node, p.Phase, p.Ready = nil, PodPending, false
			}
			change(o)
		}
	}
	unplaced := func(o *Observation) {
		o.Slices[0].Pods[0].Unschedulable = askedAt.Add(-time.Second)
		busyPools(o, 0)
		for _, n := range o.Pools[0].Nodes {
			n.TPUPods = 1
		}
	}
	check(t, map[string]rule{
		"a pool is free": {change: starts("", func(*Observation) {}), want: []string{"slice 0 Pending "}},
		"none is":        {change: starts("", unplaced), want: []string{"slice 0 Pending NoSlicePool"}},
		"none is, but the scheduler has not said": {change: starts("", func(o *Observation) { unplaced(o); o.Slices[0].Pods[0].Unschedulable = time.Time{} }), want: []string{"slice 0 Pending "}},
		"one is again":          {change: starts(v1.ReasonNoSlicePool, func(*Observation) {}), want: []string{"slice 0 Pending "}},
		"after a whole restart": {change: starts(ReasonJobEnding, func(*Observation) {}), want: []string{"slice 0 Pending "}},
	})
}

func TestMassFailure(t *testing.T) {
	fail := func(o *Observation, pools int) {
		for i := range pools {
			o.Pools[i].Nodes[1].Ready, o.Pools[i].Nodes[1].ReadySince = NodeReadyUnknown, askedAt.Add(-time.Minute)
		}
	}
	both := []string{"slice 0 Suspended HostFailed", "slice 1 Suspended HostFailed"}
	check(t, map[string]rule{
		"4 of 10 pools": {change: func(o *Observation) { fail(o, 4) }, want: append(
			[]string{"slice 0 Replacing HostFailed", "slice 1 Replacing HostFailed"}, append(replaced[1:],
				"FencePool pool-1", "DeleteChildJob childjob-1", "ShortenGrace pod-1-0", "ShortenGrace pod-1-2",
				"ShortenGrace pod-1-3", "ForceDeletePod pod-1-1")...)},
		"5 of 10 pools": {change: func(o *Observation) { fail(o, 5) }, want: both},
		"5 of 10 pools, one node is gone": {change: func(o *Observation) {
			fail(o, 5)
			node(o, 0, 2).Gone = true
		}, want: []string{
			"slice 0 Replacing HostFailed", both[1], "FencePool pool-0", "DeleteChildJob childjob-0",
			"ShortenGrace pod-0-0", "ShortenGrace pod-0-3", "ForceDeletePod pod-0-2",
		}},
		"2 of 3 pools": {change: func(o *Observation) {
			o.Pools = o.Pools[:3]
			fail(o, 1)
			o.Pools[2].Nodes[0].Ready = NodeReadyUnknown
		}, want: waits},
	})
}

func TestNotices(t *testing.T) {
	suspended := func(reason string) []string {
		return []string{"slice 1 Suspending " + reason, "FencePool pool-1", "DeleteChildJob childjob-1"}
	}
	unfenced := func(reason string) []string {
		return []string{"slice 1 Suspending " + reason, "DeleteChildJob childjob-1"}
	}
	check(t, map[string]rule{
		"taint":        {change: func(o *Observation) { node(o, 1, 3).Terminating = true }, want: suspended("NodeTerminating")},
		"node deleted": {change: func(o *Observation) { node(o, 1, 3).Deleting = true }, want: suspended("NodeTerminating")},
		"kubelet shuts down": {change: func(o *Observation) {
			n := node(o, 1, 3)
			n.Ready, n.ShuttingDown = NodeReadyFalse, true
		}, want: suspended("NodeTerminating")},
		"maintenance": {change: func(o *Observation) { node(o, 1, 0).MaintenanceOngoing = true }, want: suspended("Maintenance")},
		"evicted":     {change: func(o *Observation) { o.Slices[1].Pods[2].Disrupted = "EvictionByEvictionAPI" }, want: unfenced("Preempted")},
		"preempted": {change: func(o *Observation) { o.Slices[1].Pods[2].Disrupted = "PreemptionByScheduler" }, want: []string{
			"slice 1 Suspending Preempted, held for 1m0s", "DeleteChildJob childjob-1, held",
		}},
		"pod deleted": {change: func(o *Observation) {
			o.Slices[1].Pods[2].Deleting, o.Slices[1].Pods[2].DeletionTime = true, askedAt.Add(30*time.Second)
		}, want: unfenced("PodDeleted")},
		"pod deleted while nobody looked": {
			change: func(o *Observation) { o.Slices[1].Pods = o.Slices[1].Pods[:3] }, want: unfenced("PodDeleted"),
		},
		"Job deleted": {
			change: func(o *Observation) { o.Slices[1].Child.Deleting = true }, want: []string{"slice 1 Suspending PodDeleted"},
		},
		"requested": {change: func(o *Observation) { o.Job.ReplaceSlice = "1" }, want: []string{
			"slice 1 Suspending Requested", "ClearReplaceSlice", "FencePool pool-1", "DeleteChildJob childjob-1",
		}},
		"requested, no idle pool": {change: func(o *Observation) { o.Job.ReplaceSlice = "1"; busyPools(o, 0) }, want: []string{
			"slice 1 Suspending Requested", "ClearReplaceSlice", "DeleteChildJob childjob-1",
		}},
		"requested, no such slice": {change: func(o *Observation) { o.Job.ReplaceSlice = "2" }, want: []string{"ClearReplaceSlice"}},
		"requested, DryRun":        {change: func(o *Observation) { o.Job.ReplaceSlice, o.Policy.Mode = "1", DryRun }},
		"fences off": {change: func(o *Observation) { o.Policy.FencePools = false; node(o, 1, 3).Terminating = true }, want: []string{
			"slice 1 Suspending NodeTerminating, held for 10s", "DeleteChildJob childjob-1, held",
		}},
		"annotation": {change: func(o *Observation) { o.Job.RepairDisabled = true; node(o, 1, 3).Terminating = true }, want: []string{
			"slice 1 Ready NodeTerminating", "would FencePool pool-1", "would DeleteChildJob childjob-1",
		}},
	})
}

func TestVoluntaryMoves(t *testing.T) {
	plan := func(o *Observation, in time.Duration) { node(o, 0, 1).MaintenanceAt = askedAt.Add(in) }
	moves := []string{"slice 0 Suspending Maintenance", "FencePool pool-0", "DeleteChildJob childjob-0"}
	check(t, map[string]rule{
		"in 9 min":          {change: func(o *Observation) { plan(o, 9*time.Minute) }, want: moves},
		"in 10 min":         {change: func(o *Observation) { plan(o, 10*time.Minute) }},
		"in the past":       {change: func(o *Observation) { plan(o, -time.Minute) }},
		"switched off":      {change: func(o *Observation) { plan(o, 9*time.Minute); o.Policy.MaintenanceLeadTime = 0 }},
		"no idle pool":      {change: func(o *Observation) { plan(o, 9*time.Minute); busyPools(o, -1) }},
		"not resumable":     {change: func(o *Observation) { plan(o, 9*time.Minute); o.Job.Resumable = false }},
		"another job moves": {change: func(o *Observation) { plan(o, 9*time.Minute); o.OtherVoluntaryMoves = true }},
		"another slice is down": {change: func(o *Observation) {
			plan(o, 9*time.Minute)
			o.Slices[1].Pods[0].Ready = false
		}, want: []string{"slice 1 Restarting WorkerNotReady"}},
		"another slice is down, and two may be": {change: func(o *Observation) {
			plan(o, 9*time.Minute)
			o.Job.ElasticSlices = 2
			o.Slices[1].Pods[0].Ready = false
		}, want: []string{moves[0], "slice 1 Restarting WorkerNotReady", moves[1], moves[2]}},
		"a slice moved a minute ago": {change: func(o *Observation) {
			plan(o, 9*time.Minute)
			ago := ptr.To(metav1.NewTime(askedAt.Add(-time.Minute)))
			o.Job.Status.Repair.LastVoluntaryMove = ago
			o.Job.Status.Slices[1].LastReplacementTime, o.Job.Status.Slices[1].LastTransitionTime = ago, ago
		}},
		"the idle pool is due as well": {change: func(o *Observation) {
			plan(o, 9*time.Minute)
			for _, n := range o.Pools[2].Nodes[:1] {
				n.MaintenanceAt = askedAt.Add(5 * time.Minute)
			}
			o.Pools = o.Pools[:3]
		}},
	})
}

func TestPartiallyScheduled(t *testing.T) {
	half := func(o *Observation, since time.Duration) {
		for k := 2; k < 4; k++ {
			pod := &o.Slices[0].Pods[k]
			pod.Node, pod.Phase, pod.Ready, pod.Unschedulable = nil, PodPending, false, askedAt.Add(-since)
		}
		o.Job.Status.Slices[0].ReadyJobUID, o.Job.Status.Slices[0].State = "", v1.SlicePending
	}
	pending := []string{"slice 0 Pending "}
	moved := []string{"slice 0 Replacing PartiallyScheduled", "FencePool pool-0", "DeleteChildJob childjob-0"}
	stuck := []string{"slice 0 Pending PartiallyScheduled"}
	check(t, map[string]rule{
		"for 29 s":     {change: func(o *Observation) { half(o, 29*time.Second) }, want: pending},
		"for 30 s":     {change: func(o *Observation) { half(o, 30*time.Second) }, want: moved},
		"no idle pool": {change: func(o *Observation) { half(o, time.Minute); busyPools(o, 0) }, want: stuck},
		"nominated": {change: func(o *Observation) {
			half(o, time.Minute)
			o.Slices[0].Pods[3].Nominated = true
		}, want: pending},
		"fences off": {change: func(o *Observation) { half(o, time.Minute); o.Policy.FencePools = false }, want: stuck},
		"a Failed leader": {change: func(o *Observation) {
			o.Slices[0].Pods = o.Slices[0].Pods[:2]
			o.Slices[0].Pods[0].Phase, o.Slices[0].Pods[0].Ready = PodFailed, false
		}, want: append(append([]string{}, moved...), "DeleteFailedLeaderPod pod-0-0")},
	})
}

func TestSpacing(t *testing.T) {
	again := func(row int32, last, ready time.Duration) func(*Observation) {
		return func(o *Observation) {
			st := &o.Job.Status.Slices[0]
			st.ReplacementsInRow, st.LastReplacementTime = ptr.To(row), ptr.To(metav1.NewTime(askedAt.Add(-last)))
			st.LastTransitionTime = ptr.To(metav1.NewTime(askedAt.Add(-ready)))
			o.Slices[0].Pods[0].Disrupted = "EvictionByEvictionAPI"
		}
	}
	held := func(d string) []string {
		return []string{"slice 0 Suspending Preempted, held for " + d, "DeleteChildJob childjob-0, held"}
	}
	free := []string{"slice 0 Suspending Preempted", "DeleteChildJob childjob-0"}
	check(t, map[string]rule{
		"first":                     {change: again(0, 0, time.Second), want: free},
		"second":                    {change: again(1, 4*time.Second, time.Second), want: held("6s")},
		"second, 10 s later":        {change: again(1, 10*time.Second, time.Second), want: free},
		"third":                     {change: again(2, 4*time.Second, time.Second), want: held("16s")},
		"fourth":                    {change: again(3, 4*time.Second, time.Second), want: held("36s")},
		"tenth":                     {change: again(9, 4*time.Second, time.Second), want: held("56s")},
		"after 10 min Ready":        {change: again(9, 4*time.Second, 10*time.Minute), want: free},
		"after nearly 10 min Ready": {change: again(9, 4*time.Second, 599*time.Second), want: held("56s")},
	})
}

// TestPreemptedHold: the hold of a preempted slice ends early where it can
// start elsewhere and takes no node from its preemptor.
func TestPreemptedHold(t *testing.T) {
	held := func(change func(o *Observation, st *v1.SliceStatus)) func(*Observation) {
		return func(o *Observation) {
			st := &o.Job.Status.Slices[1]
			st.State, st.Reason, st.NodePool = v1.SliceSuspended, v1.ReasonPreempted, "pool-1"
			st.LeavingJobUID, st.HoldUntil = "childjob-1", ptr.To(metav1.NewTime(askedAt.Add(50*time.Second)))
			st.LastReplacementTime = ptr.To(metav1.NewTime(askedAt.Add(-10 * time.Second)))
			o.Slices[1].Child.Deleting, o.Slices[1].Child.Held, o.Slices[1].Pods = true, true, nil
			for _, n := range o.Pools[1].Nodes {
				n.TPUPods, n.TopPriority = 1, 1000
			}
			change(o, st)
		}
	}
	stays := []string{"slice 1 Suspended Preempted, held for 50s"}
	check(t, map[string]rule{
		"the preemptor has its nodes, a pool is idle": {
			change: held(func(*Observation, *v1.SliceStatus) {}), want: []string{"slice 1 Suspended Preempted", "ReleaseHold childjob-1"},
		},
		"its pool is gone, a pool is idle": {
			change: held(func(o *Observation, _ *v1.SliceStatus) { o.Pools = slices.Delete(o.Pools, 1, 2) }),
			want:   []string{"slice 1 Suspended Preempted", "ReleaseHold childjob-1"},
		},
		"the preemptor still starts": {
			change: held(func(o *Observation, _ *v1.SliceStatus) { o.Pools[1].Nodes[3].TPUPods = 0 }), want: stays,
		},
		"no pool is idle": {change: held(func(o *Observation, _ *v1.SliceStatus) { busyPools(o, 0) }), want: stays},
		"replacements are spaced": {
			change: held(func(_ *Observation, st *v1.SliceStatus) {
				st.LastReplacementTime = ptr.To(metav1.NewTime(askedAt.Add(5 * time.Second)))
			}), want: stays,
		},
		"held for another reason": {
			change: held(func(_ *Observation, st *v1.SliceStatus) { st.Reason = v1.ReasonHostFailed }),
			want:   []string{"slice 1 Suspended HostFailed, held for 50s"},
		},
	})
}
