package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

func TestJobEnding(t *testing.T) {
	// Everything is wrong with slice 0, and nothing of it matters.
	wrong := func(change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			restarted(o, 0, 1, 7, 0)
			o.Slices[0].Pods[2].Disrupted = "EvictionByEvictionAPI"
			o.Slices[0].Pods[3].Down = true
			o.Slices[0].Child.Held, o.Slices[0].Child.Deleting = true, true
			o.Job.Status.Slices[0].LeavingJobUID = "childjob-0"
			o.Job.Status.Slices[0].HoldUntil = ptr.To(metav1.NewTime(askedAt.Add(time.Minute)))
			used(o, 1, 9)
			change(o)
		}
	}
	ending := []string{"slice 0 Suspending JobEnding", "ReleaseHold childjob-0"}
	resting := func(reason string) []string {
		return []string{"slice 0 Suspended " + reason, "slice 1 Suspended " + reason, "ReleaseHold childjob-0"}
	}
	check(t, map[string]rule{
		"main container has ended": {change: wrong(func(o *Observation) { o.Head.MainExited = true }), want: ending},
		"head has succeeded":       {change: wrong(func(o *Observation) { o.Head.Phase = PodSucceeded }), want: ending},
		"head has failed":          {change: wrong(func(o *Observation) { o.Head.Phase = PodFailed }), want: ending},
		"head is being stopped":    {change: wrong(func(o *Observation) { o.Head.Deleting, o.Head.Disrupted = true, "EvictionByEvictionAPI" }), want: ending},
		"head Job has ended":       {change: wrong(func(o *Observation) { o.Head.JobEnded = true }), want: ending},
		"JobSet restarts":          {change: wrong(func(o *Observation) { o.JobSet.Restarting = true }), want: ending},
		"JobSet is being deleted":  {change: wrong(func(o *Observation) { o.JobSet.Deleting = true }), want: ending},
		"a slice's Job has failed": {change: wrong(func(o *Observation) { o.Slices[1].Child.Failed = true }), want: ending},
		"JobSet has ended":         {change: wrong(func(o *Observation) { o.JobSet.Ended = true }), want: resting("JobEnded")},
		"job has ended":            {change: wrong(func(o *Observation) { o.Job.Ended = true }), want: resting("JobEnded")},
		"job is being deleted":     {change: wrong(func(o *Observation) { o.Job.Deleting = true }), want: resting("JobDeleted")},
		"suspended":                {change: wrong(func(o *Observation) { o.JobSet.Suspended = true }), want: resting("JobSuspended")},
		"suspended, a slice is Lost": {change: func(o *Observation) {
			o.JobSet.Suspended = true
			used(o, 0, 9)
			o.Slices[0].Child.Parallelism = 0
		}, want: append(resting("JobSuspended")[:2], "ReleaseLost childjob-0")},
		"workers of the last start": {
			change: func(o *Observation) { o.JobSet.Restarts = 1; o.Slices[0].Child.Deleting = true },
			want:   []string{"slice 0 Pending JobEnding", "slice 1 Pending JobEnding"},
		},
		"workers of the last start on a dead host": {change: func(o *Observation) {
			o.JobSet.Restarts = 1
			o.Slices[0].Child.Deleting = true
			node(o, 0, 1).Gone = true
		}, want: []string{
			"slice 0 Pending JobEnding", "slice 1 Pending JobEnding", "FencePool pool-0", "ForceDeletePod pod-0-1",
		}},
	})
}

func TestStateLost(t *testing.T) {
	inelastic := func(change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Job.ElasticSlices = 0
			change(o)
		}
	}
	restarts := func(reason string, actions ...string) []string {
		return append([]string{"slice 0 Replacing " + reason, "whole restart " + reason + ", charged: false"}, actions...)
	}
	evict := func(o *Observation) { o.Slices[0].Pods[1].Disrupted = "EvictionByEvictionAPI" }
	moved := []string{"slice 0 Suspending Preempted", "DeleteChildJob childjob-0"}
	check(t, map[string]rule{
		"a host fails": {
			change: inelastic(func(o *Observation) { node(o, 0, 1).Gone = true }),
			want:   restarts("HostFailed", "FencePool pool-0", "EvictHead head"),
		},
		"a host fails before the slice was Ready": {change: inelastic(func(o *Observation) {
			o.Job.Status.Slices[0].ReadyJobUID = ""
			node(o, 0, 1).Gone = true
		}), want: replaced},
		"a host fails while the slice saves its state": {change: inelastic(func(o *Observation) {
			st := &o.Job.Status.Slices[0]
			st.LeavingJobUID, st.State, st.Reason = "childjob-0", v1.SliceSuspending, v1.ReasonNodeTerminating
			o.Slices[0].Child.Deleting = true
			node(o, 0, 1).Gone = true
		}), want: []string{
			"slice 0 Replacing HostFailed", "whole restart HostFailed, charged: false", "FencePool pool-0",
			"ShortenGrace pod-0-0", "ShortenGrace pod-0-2", "ShortenGrace pod-0-3", "ForceDeletePod pod-0-1", "EvictHead head",
		}},
		"an eviction": {change: inelastic(evict), want: moved},
		"an eviction, not resumable": {
			change: inelastic(func(o *Observation) {
				evict(o)
				o.Job.Resumable = false
				o.Slices[0].Pods[1].Ready = false
			}),
			want: restarts("Preempted", "EvictHead head"),
		},
		"elastic and not resumable":  {change: func(o *Observation) { evict(o); o.Job.Resumable = false }, want: moved},
		"headless and not resumable": {change: inelastic(func(o *Observation) { evict(o); o.Job.Resumable, o.Job.Headless = false, true }), want: moved},
		"a head without podFailurePolicy": {change: inelastic(func(o *Observation) {
			node(o, 0, 1).Gone = true
			o.Head.PodFailurePolicy = false
		}), want: restarts("HostFailed", "FencePool pool-0", "RecreateJobSet")},
		"a worker exits 0": {change: inelastic(func(o *Observation) { o.Slices[0].Pods[1].Phase = PodSucceeded }), want: []string{
			"slice 0 Replacing WorkerFailed", "DeleteChildJob childjob-0",
		}},
		"colocated head, slice 0": {change: func(o *Observation) {
			o.Job.Colocated = true
			node(o, 0, 1).Terminating = true
			o.Slices[0].Pods[1].Ready = false
		}, want: restarts("NodeTerminating", "FencePool pool-0", "EvictHead head")},
		"colocated head, slice 1": {change: func(o *Observation) {
			o.Job.Colocated = true
			node(o, 1, 1).Terminating = true
		}, want: []string{"slice 1 Suspending NodeTerminating", "FencePool pool-1", "DeleteChildJob childjob-1"}},
	})
}

func TestHeadLost(t *testing.T) {
	dead := func(change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Head.Node = &Node{Name: "cpu", Ready: NodeReadyUnknown, ReadySince: askedAt}
			change(o)
		}
	}
	restart := "whole restart HeadDisrupted, charged: false"
	lost := []string{restart, "MarkHeadPodFailed head", "ForceDeletePod head"}
	check(t, map[string]rule{
		"Unknown": {change: dead(func(*Observation) {}), want: lost},
		"gone":    {change: func(o *Observation) { o.Head.Node = &Node{Name: "cpu", Gone: true} }, want: lost},
		"NotReady for 29 s": {change: func(o *Observation) {
			o.Head.Node = &Node{Name: "cpu", Ready: NodeReadyFalse, ReadySince: askedAt.Add(-29 * time.Second)}
		}},
		"NotReady for 30 s": {change: func(o *Observation) {
			o.Head.Node = &Node{Name: "cpu", Ready: NodeReadyFalse, ReadySince: askedAt.Add(-30 * time.Second)}
		}, want: lost},
		"marked already":        {change: dead(func(o *Observation) { o.Head.Phase, o.Head.Disrupted = PodFailed, "DeletionByPodGC" }), want: []string{restart, "ForceDeletePod head"}},
		"no podFailurePolicy":   {change: dead(func(o *Observation) { o.Head.PodFailurePolicy = false }), want: []string{restart, "RecreateJobSet", "ForceDeletePod head"}},
		"its program has ended": {change: dead(func(o *Observation) { o.Head.MainExited = true })},
		"DryRun":                {change: dead(func(o *Observation) { o.Policy.Mode = DryRun }), want: []string{"would MarkHeadPodFailed head", "would ForceDeletePod head"}},
		"repair pauses": {change: dead(func(o *Observation) {
			for i := 3; i < 9; i++ {
				o.Pools[i].Nodes[0].Ready = NodeReadyUnknown
			}
		})},
		"its host came back before anybody acted": {change: func(o *Observation) {
			o.Job.Status.Repair.Restart = &v1.WholeRestart{Reason: v1.ReasonHeadDisrupted, Charged: ptr.To(false)}
		}},
	})
}

// TestHeadDeleted: a plain deletion of the head's pod is made a disruption,
// unless its end follows from something else.
func TestHeadDeleted(t *testing.T) {
	deleted := func(change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Head.Deleting = true
			change(o)
		}
	}
	check(t, map[string]rule{
		"by hand":               {change: deleted(func(*Observation) {}), want: []string{"MarkHeadDisrupted head"}},
		"evicted":               {change: deleted(func(o *Observation) { o.Head.Disrupted = "EvictionByEvictionAPI" })},
		"no podFailurePolicy":   {change: deleted(func(o *Observation) { o.Head.PodFailurePolicy = false })},
		"its program has ended": {change: deleted(func(o *Observation) { o.Head.MainExited = true })},
		"it has ended":          {change: deleted(func(o *Observation) { o.Head.Phase = PodFailed })},
		"its Job is ending":     {change: deleted(func(o *Observation) { o.Head.JobEnded, o.Head.JobDeleting = true, true })},
		"its JobSet restarts":   {change: deleted(func(o *Observation) { o.JobSet.Restarting = true })},
		"DryRun":                {change: deleted(func(o *Observation) { o.Policy.Mode = DryRun }), want: []string{"would MarkHeadDisrupted head"}},
	})
}

// TestOldHeads: a head whose Job was deleted does not keep the new one away.
func TestOldHeads(t *testing.T) {
	old := func(pod Pod) func(*Observation) {
		pod.Name, pod.UID = "old", "old"
		return func(o *Observation) { o.OldHeads = []Pod{pod} }
	}
	dead := &Node{Name: "cpu", Ready: NodeReadyUnknown, ReadySince: askedAt}
	check(t, map[string]rule{
		"stops":                           {change: old(Pod{JobUID: "job", Deleting: true, Node: &Node{Name: "cpu"}})},
		"cannot stop":                     {change: old(Pod{JobUID: "job", Deleting: true, Node: dead}), want: []string{"ForceDeletePod old"}},
		"is not stopped":                  {change: old(Pod{JobUID: "job", Node: dead})},
		"an orphan":                       {change: old(Pod{Node: &Node{Name: "cpu"}}), want: []string{"DeleteOrphanPod old"}},
		"an orphan that stops":            {change: old(Pod{Node: &Node{Name: "cpu"}, Deleting: true})},
		"an orphan that has ended":        {change: old(Pod{Node: &Node{Name: "cpu"}, Phase: PodSucceeded}), want: []string{"DeleteOrphanPod old"}},
		"an orphan on a host that failed": {change: old(Pod{Node: dead, Deleting: true}), want: []string{"ForceDeletePod old"}},
	})
}

// TestJobOfSliceDeleted: JobSet creates the Job of a slice again that someone
// deletes, and the slice tells so.
func TestJobOfSliceDeleted(t *testing.T) {
	gone := func(change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Slices[0].Child = nil
			o.Job.Status.Slices[0].JobUID = "childjob-0"
			for i := range o.Slices[0].Pods {
				o.Slices[0].Pods[i].Deleting, o.Slices[0].Pods[i].DeletionTime = true, askedAt.Add(20*time.Second)
			}
			change(o)
		}
	}
	again := func(o *Observation) {
		o.Slices[0].Child = &ChildJob{Name: "childjob-0", UID: "next", Parallelism: 4}
	}
	resumes := []string{"slice 0 Suspended PodDeleted"}
	check(t, map[string]rule{
		"gone":        {change: gone(func(*Observation) {}), want: resumes},
		"there again": {change: gone(again), want: resumes},
		"by us": {change: gone(func(o *Observation) {
			st := &o.Job.Status.Slices[0]
			st.State, st.Reason, st.LeavingJobUID = v1.SliceSuspending, v1.ReasonRequested, "childjob-0"
		}), want: []string{"slice 0 Suspended Requested"}},
		"the job restarts": {change: gone(func(o *Observation) { o.JobSet.Restarting = true }), want: []string{"slice 0 Suspending JobEnding"}},
		"not resumable and not elastic": {change: gone(func(o *Observation) {
			o.Job.Resumable, o.Job.ElasticSlices = false, 0
		}), want: []string{"slice 0 Replacing PodDeleted", "whole restart PodDeleted, charged: false", "EvictHead head"}},
		"without its pods": {change: gone(func(o *Observation) {
			again(o)
			o.Slices[0].Pods[1].Deleting, o.Slices[0].Pods[1].JobUID = false, ""
		}), want: append([]string{}, "slice 0 Suspended PodDeleted", "DeleteOrphanPod pod-0-1")},
	})
}

// TestHeadInHistory: a head that is being stopped is noted while its pod is
// there, and the entry is completed when another is Ready.
func TestHeadInHistory(t *testing.T) {
	o, now := steadyState(2, 4)
	o.Head.Deleting, o.Head.Disrupted = true, "EvictionByEvictionAPI"
	d := Next(o, now)
	want := []v1.Interruption{{Time: metav1.NewTime(now), Reason: v1.ReasonHeadDisrupted, FromPool: "cpu"}}
	if diff := cmp.Diff(want, d.History); diff != "" {
		t.Errorf("history differs (-want +got):\n%s", diff)
	}
	o.remember(d)
	now = now.Add(20 * time.Second)
	o.JobSet.Restarts = 1
	o.Head = Head{Name: "head", UID: "head-2", Node: &Node{Name: "cpu-2"}, Phase: PodRunning, Ready: true, Created: now.Add(-20 * time.Second)}
	want[0].ToPool, want[0].DownSeconds = "cpu-2", ptr.To[int64](20)
	if diff := cmp.Diff(want, Next(o, now).History); diff != "" {
		t.Errorf("history differs (-want +got):\n%s", diff)
	}
}

// TestHeadsInHistory: why a head is replaced, beside a disruption of its pod.
func TestHeadsInHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Observation)
		want   string
	}{
		"its program failed": {func(o *Observation) { o.Head.Phase, o.Head.Ready = PodFailed, false }, "HeadFailed"},
		"its Job failed, evicted": {func(o *Observation) {
			o.Head.JobEnded, o.Head.Deleting, o.Head.Disrupted = true, true, "EvictionByEvictionAPI"
		}, "HeadDisrupted"},
		"its Job failed":      {func(o *Observation) { o.Head.JobEnded, o.Head.Deleting = true, true }, ""},
		"its Job is deleted":  {func(o *Observation) { o.Head.JobEnded, o.Head.JobDeleting, o.Head.Deleting = true, true, true }, ""},
		"its Job was deleted": {func(o *Observation) { o.Head.JobCreated = askedAt; o.Head.Ready = false }, "HeadDisrupted"},
		"its Job was deleted, and that is noted": {func(o *Observation) {
			o.Head.JobCreated, o.Head.Ready = askedAt, false
			o.Job.Status.History = []v1.Interruption{{Time: metav1.NewTime(askedAt.Add(-time.Second)), Reason: "known"}}
		}, "known"},
		"its Job was deleted before": {func(o *Observation) { o.Head.JobCreated = askedAt.Add(-time.Minute) }, ""},
		"the restart was asked for": {func(o *Observation) {
			o.Head.Deleting, o.Head.Disrupted, o.Head.Requested = true, "EvictionByEvictionAPI", true
		}, "Requested"},
	} {
		t.Run(name, func(t *testing.T) {
			o, now := steadyState(2, 4)
			tc.change(&o)
			got := ""
			for _, e := range Next(o, now).History {
				got += e.Reason
			}
			if got != tc.want {
				t.Errorf("history: %q, want %q", got, tc.want)
			}
		})
	}
}

// TestHeadJobDeleted: the entry is completed however late it is noted.
func TestHeadJobDeleted(t *testing.T) {
	o, now := steadyState(2, 4)
	o.Head.JobCreated = now.Add(-4 * time.Second)
	o.Head.Created = o.Head.JobCreated
	o.OldHeads = []Pod{{JobUID: "old", Node: &Node{Name: "cpu-2"}}}
	want := []v1.Interruption{{
		Time: metav1.NewTime(o.Head.JobCreated), Reason: v1.ReasonHeadDisrupted, FromPool: "cpu-2", ToPool: "cpu", DownSeconds: ptr.To[int64](4),
	}}
	if diff := cmp.Diff(want, Next(o, now).History); diff != "" {
		t.Errorf("history differs (-want +got):\n%s", diff)
	}
}

// TestHeadJobDeletedOnce: an older entry that is open stands for it, and it is
// not told at each look.
func TestHeadJobDeletedOnce(t *testing.T) {
	o, now := steadyState(2, 4)
	o.Head.JobCreated, o.Head.Ready = now.Add(-4*time.Second), false
	o.Job.Status.History = []v1.Interruption{{Time: metav1.NewTime(now.Add(-2 * time.Minute)), Reason: v1.ReasonHeadFailed}}
	if events := Next(o, now).Events; len(events) > 0 {
		t.Errorf("told again: %+v", events)
	}
}

// TestRestingHistory: what was down when the job was suspended is down no more.
func TestRestingHistory(t *testing.T) {
	o, now := steadyState(2, 4)
	hostLost(&o, 0, time.Minute)
	o.JobSet.Suspended = true
	want := []v1.Interruption{o.Job.Status.History[0]}
	want[0].DownSeconds = ptr.To[int64](60)
	if diff := cmp.Diff(want, Next(o, now).History); diff != "" {
		t.Errorf("history differs (-want +got):\n%s", diff)
	}
}

// TestFirstReadyTime: it is written once, whatever happens to the slice.
func TestFirstReadyTime(t *testing.T) {
	o, now := steadyState(1, 4)
	o.Job.Status.Slices = nil
	d := Next(o, now)
	want := ptr.To(metav1.NewTime(now))
	if diff := cmp.Diff(want, d.Slices[0].FirstReadyTime); diff != "" {
		t.Fatalf("first Ready (-want +got):\n%s", diff)
	}
	o.remember(d)
	o.JobSet.Restarts = 1
	o.Slices[0].Child.Restarts = 1
	o.Slices[0].Child.UID = "childjob-next"
	for i := range o.Slices[0].Pods {
		o.Slices[0].Pods[i].JobUID = "childjob-next"
	}
	d = Next(o, now.Add(time.Minute))
	if diff := cmp.Diff(want, d.Slices[0].FirstReadyTime); diff != "" || d.Slices[0].State != v1.SliceReady {
		t.Errorf("after a whole restart %s (-want +got):\n%s", d.Slices[0].State, diff)
	}
}
