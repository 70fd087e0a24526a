package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// charges says what slice 0 is charged, for good and provisionally.
func charges(d Decision) string {
	s, pending := d.Slices[0], int32(0)
	for _, c := range s.PendingCharges {
		pending += c.Count
	}
	return fmt.Sprintf("%d final, %d provisional", ptr.Deref(s.Restarts, 0), pending)
}

// restarted is a worker of a slice that has restarted n times.
func restarted(o *Observation, slice, vm int, n int32, ago time.Duration) {
	pod := &o.Slices[slice].Pods[vm]
	pod.Restarts, pod.Exited, pod.ExitCode, pod.ExitedAt = n, true, 1, askedAt.Add(-ago)
}

// pendingCharge is a fall that was seen before.
func pendingCharge(o *Observation, slice int, ago time.Duration) {
	st := &o.Job.Status.Slices[slice]
	st.PendingCharges = append(st.PendingCharges, v1.PendingCharge{Time: metav1.NewTime(askedAt.Add(-ago)), Count: 1})
	st.SeenRestarts = ptr.To[int32](1)
	restarted(o, slice, 0, 1, ago)
}

// hostLost: the slice is suspended since its host failed.
func hostLost(o *Observation, slice int, ago time.Duration) {
	begin := ptr.To(metav1.NewTime(askedAt.Add(-ago)))
	st := &o.Job.Status.Slices[slice]
	st.State, st.Reason, st.DownSince, st.LastTransitionTime = v1.SliceSuspended, v1.ReasonHostFailed, begin, begin
	o.Slices[slice].Pods[0].Ready = false
	o.Job.Status.History = []v1.Interruption{{Time: *begin, Slice: ptr.To(int32(slice)), Reason: v1.ReasonHostFailed}}
}

func TestCharges(t *testing.T) {
	const nothing = "0 final, 0 provisional"
	rules := map[string]struct {
		change func(o *Observation)
		want   string
	}{
		"a restart":                     {func(o *Observation) { restarted(o, 0, 2, 1, 0) }, "0 final, 1 provisional"},
		"its mates restart with it":     {func(o *Observation) { restarted(o, 0, 2, 1, 0); restarted(o, 0, 3, 1, 0) }, "0 final, 1 provisional"},
		"two restarts at once":          {func(o *Observation) { restarted(o, 0, 2, 2, 0) }, "0 final, 2 provisional"},
		"a restart that is waited with": {func(o *Observation) { o.Slices[0].Pods[1].Down, o.Slices[0].Pods[1].Ready = true, false }, "0 final, 1 provisional"},
		"a restart that was seen":       {func(o *Observation) { pendingCharge(o, 0, 89*time.Second) }, "0 final, 1 provisional"},
		"90 s later":                    {func(o *Observation) { pendingCharge(o, 0, 90*time.Second) }, "1 final, 0 provisional"},
		"another after it":              {func(o *Observation) { pendingCharge(o, 0, 89*time.Second); restarted(o, 0, 0, 2, 0) }, "0 final, 2 provisional"},
		"its Job was deleted since": {func(o *Observation) {
			pendingCharge(o, 0, 89*time.Second)
			o.Job.Status.Slices[0].JobUID, o.Slices[0].Child.UID = "childjob-0", "next"
		}, nothing},
		"exit 0":       {func(o *Observation) { o.Slices[0].Pods[1].Phase = PodSucceeded }, "0 final, 1 provisional"},
		"a Failed pod": {func(o *Observation) { restarted(o, 0, 1, 0, 0); o.Slices[0].Pods[1].Phase = PodFailed }, "0 final, 1 provisional"},
		"exit 0, and the slice is being replaced": {func(o *Observation) {
			pendingCharge(o, 0, time.Second)
			o.Slices[0].Pods[1].Phase, o.Slices[0].Pods[2].Deleting, o.Slices[0].Child.Deleting = PodSucceeded, true, true
			st := &o.Job.Status.Slices[0]
			st.LeavingJobUID, st.State, st.Reason = o.Slices[0].Child.UID, v1.SliceReplacing, v1.ReasonWorkerFailed
		}, "0 final, 1 provisional"},
		"exit 0, and a host fails while it is being replaced": {func(o *Observation) {
			pendingCharge(o, 0, time.Second)
			o.Slices[0].Pods[3].Phase, o.Slices[0].Child.Deleting = PodSucceeded, true
			st := &o.Job.Status.Slices[0]
			st.LeavingJobUID, st.State, st.Reason = o.Slices[0].Child.UID, v1.SliceReplacing, v1.ReasonWorkerFailed
			notReadyFor(o, NodeReadyUnknown, 0)
		}, nothing},
		"a Failed pod that was evicted": {func(o *Observation) {
			o.Slices[0].Pods[1].Phase, o.Slices[0].Pods[1].Disrupted = PodFailed, "TerminationByKubelet"
		}, nothing},
		"headless":           {func(o *Observation) { restarted(o, 0, 2, 1, 0); o.Job.Headless = true }, nothing},
		"before the job ran": {func(o *Observation) { restarted(o, 0, 2, 1, 0); o.Job.EverRunning = false }, nothing},
		"the proxy restarted 59 s ago": {func(o *Observation) {
			restarted(o, 0, 2, 1, 0)
			o.Head.ContainerRestarted = askedAt.Add(-59 * time.Second)
		}, nothing},
		"the proxy restarted 60 s ago": {func(o *Observation) { restarted(o, 0, 2, 1, 0); o.Head.ContainerRestarted = askedAt.Add(-time.Minute) }, "0 final, 1 provisional"},
		"the proxy is seen to restart": {func(o *Observation) {
			pendingCharge(o, 0, 5*time.Second)
			o.Head.ContainerRestarted = askedAt.Add(-4 * time.Second)
		}, nothing},
		"the head is another":    {func(o *Observation) { restarted(o, 0, 2, 1, 0); o.Head.Created = askedAt.Add(-30 * time.Second) }, nothing},
		"a host does not report": {func(o *Observation) { pendingCharge(o, 0, time.Minute); notReadyFor(o, NodeReadyUnknown, 0) }, nothing},
		"a host is not Ready":    {func(o *Observation) { pendingCharge(o, 0, time.Minute); notReadyFor(o, NodeReadyFalse, 0) }, nothing},
		"a host gives notice":    {func(o *Observation) { pendingCharge(o, 0, time.Minute); node(o, 0, 3).Terminating = true }, nothing},
		"a preemption": {func(o *Observation) {
			pendingCharge(o, 0, time.Minute)
			o.Slices[0].Pods[3].Disrupted = "PreemptionByScheduler"
		}, nothing},
		"restart and preemption at once": {func(o *Observation) {
			restarted(o, 0, 2, 1, 0)
			o.Slices[0].Pods[3].Disrupted = "PreemptionByScheduler"
		}, nothing},
		"a host fails too late": {func(o *Observation) {
			o.Job.Status.Slices[0].Restarts = ptr.To[int32](1)
			notReadyFor(o, NodeReadyUnknown, 0)
		}, "1 final, 0 provisional"},
		"the other slice too, 10 s ago": {func(o *Observation) {
			restarted(o, 0, 2, 1, 0)
			pendingCharge(o, 1, 10*time.Second)
			o.Job.Status.Slices[1].State = v1.SliceRestarting
		}, nothing},
		"the other slice too, 11 s ago": {func(o *Observation) {
			restarted(o, 0, 2, 1, 0)
			pendingCharge(o, 1, 11*time.Second)
			o.Job.Status.Slices[1].State = v1.SliceRestarting
		}, "0 final, 1 provisional"},
		"the only slice that was Ready": {func(o *Observation) {
			restarted(o, 0, 2, 1, 0)
			o.Slices[1].Pods[0].Ready, o.Job.Status.Slices[1].State = false, v1.SliceSuspended
		}, "0 final, 1 provisional"},
		"the other slice lost a host 10 s ago": {func(o *Observation) { restarted(o, 0, 2, 1, 0); hostLost(o, 1, 10*time.Second) }, nothing},
		"the other slice lost a host 11 s ago": {func(o *Observation) {
			restarted(o, 0, 2, 1, 0)
			hostLost(o, 1, 11*time.Second)
		}, "0 final, 1 provisional"},
		"the program has ended": {func(o *Observation) { restarted(o, 0, 2, 1, 0); o.Head.MainExited = true }, nothing},
	}
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			o, now := steadyState(2, 4)
			o.Job.Status.Slices[0].LastTransitionTime = ptr.To(metav1.NewTime(epoch))
			r.change(&o)
			if got := charges(Next(o, now)); got != r.want {
				t.Errorf("charged %s, want %s", got, r.want)
			}
		})
	}
}

// used makes a slice use up n restarts, the last of which becomes final now.
func used(o *Observation, slice int, n int32) {
	st := &o.Job.Status.Slices[slice]
	st.Restarts = ptr.To(n - 1)
	apart := 2 * together * time.Duration(slice)
	st.PendingCharges = []v1.PendingCharge{{Time: metav1.NewTime(askedAt.Add(-provisional - apart)), Count: 1}}
}

func TestBudgets(t *testing.T) {
	// fresh is a child Job of a Lost slice none of whose workers has run.
	fresh := func(o *Observation, slice int) {
		o.Slices[slice].Pods = nil
		st := &o.Job.Status.Slices[slice]
		st.State, st.Reason = v1.SliceLost, v1.ReasonWorkerFailed
		st.Restarts, st.PendingCharges = ptr.To(*st.Restarts+1), nil
	}
	check(t, map[string]rule{
		"within the budget": {change: func(o *Observation) { used(o, 0, 1) }},
		"beyond it": {change: func(o *Observation) { used(o, 0, 2) }, want: []string{
			"slice 0 Lost WorkerFailed", "DeleteChildJob childjob-0",
		}},
		"no restarts allowed": {change: func(o *Observation) { used(o, 0, 1); o.Job.MaxSliceRestarts = 0 }, want: []string{
			"slice 0 Lost WorkerFailed", "DeleteChildJob childjob-0",
		}},
		"lowered below what was used": {change: func(o *Observation) { o.Job.Status.Slices[0].Restarts = ptr.To[int32](3) }},
		"lowered, and it falls once more": {change: func(o *Observation) {
			used(o, 0, 3)
			o.Job.Status.Slices[0].Restarts = ptr.To[int32](7)
		}, want: []string{
			"slice 0 Lost WorkerFailed", "DeleteChildJob childjob-0",
		}},
		"its Job is fresh": {change: func(o *Observation) { used(o, 0, 2); fresh(o, 0) }, want: []string{
			"slice 0 Lost WorkerFailed", "HoldLost childjob-0",
		}},
		"it is held": {change: func(o *Observation) { used(o, 0, 2); fresh(o, 0); o.Slices[0].Child.Parallelism = 0 }, want: []string{
			"slice 0 Lost WorkerFailed",
		}},
		"the budget is raised": {change: func(o *Observation) {
			used(o, 0, 2)
			fresh(o, 0)
			o.Slices[0].Child.Parallelism, o.Job.MaxSliceRestarts = 0, 2
		}, want: []string{"slice 0 Replacing WorkerFailed", "ReleaseLost childjob-0"}},
		"it is asked for by name": {change: func(o *Observation) {
			used(o, 0, 2)
			fresh(o, 0)
			o.Slices[0].Child.Parallelism, o.Job.ReplaceSlice = 0, "0"
		}, want: []string{"slice 0 Replacing WorkerFailed", "ClearReplaceSlice", "ReleaseLost childjob-0"}},
		"one too many": {change: func(o *Observation) { used(o, 0, 2); used(o, 1, 2); fresh(o, 0) }, want: []string{
			"slice 0 Lost WorkerFailed", "slice 1 Replacing WorkerFailed",
			"whole restart WorkerFailed, charged: true", "FailChildJob childjob-0",
		}},
		"one too many, and the Job is told": {change: func(o *Observation) {
			used(o, 0, 2)
			used(o, 1, 2)
			o.Slices[1].Child.Deadline = true
		}, want: []string{
			"slice 0 Replacing WorkerFailed", "slice 1 Replacing WorkerFailed", "whole restart WorkerFailed, charged: true",
		}},
		"one too many, repair pauses": {change: func(o *Observation) {
			used(o, 0, 2)
			used(o, 1, 2)
			for i := 3; i < 9; i++ {
				o.Pools[i].Nodes[0].Ready = NodeReadyUnknown
			}
		}, want: []string{"slice 0 Lost WorkerFailed", "slice 1 Lost WorkerFailed"}},
		"not elastic, 4 restarts": {change: func(o *Observation) { used(o, 0, 4); o.Job.ElasticSlices = 0 }},
		"not elastic, 5 restarts": {change: func(o *Observation) { used(o, 0, 5); o.Job.ElasticSlices = 0 }, want: []string{
			"slice 0 Replacing WorkerFailed", "whole restart WorkerFailed, charged: true", "FailChildJob childjob-0",
		}},
		"not elastic, the program has ended": {change: func(o *Observation) {
			used(o, 0, 5)
			o.Job.ElasticSlices, o.Head.MainExited = 0, true
		}},
		"headless": {change: func(o *Observation) { used(o, 0, 50); o.Job.Headless = true }},
		"DryRun": {change: func(o *Observation) { used(o, 0, 5); o.Job.ElasticSlices, o.Policy.Mode = 0, DryRun }, want: []string{
			"would FailChildJob childjob-0",
		}},
	})
}

// TestVictim: the Job to fail is one without pods, else one on living nodes.
func TestVictim(t *testing.T) {
	o, now := steadyState(3, 4)
	o.Job.ElasticSlices = 0
	used(&o, 0, 5)
	node(&o, 0, 1).Gone = true
	want := []string{"EvictHead head", "FailChildJob childjob-1"}
	var got []string
	for _, charged := range []bool{false, true} {
		o.Job.Status.Repair.Restart = &v1.WholeRestart{Reason: v1.ReasonWorkerFailed, Charged: ptr.To(charged)}
		for _, a := range Next(o, now).Actions {
			if a.Kind == EvictHead || a.Kind == FailChildJob {
				got = append(got, actionWords(a))
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions differ (-want +got):\n%s", diff)
	}
}

// Two slices of three fell together, and all of them have gone down and come
// back since: it depends on the third whether they fell by themselves.
func TestFellTogether(t *testing.T) {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(askedAt.Add(-d)) }
	down := func(begin, length time.Duration) v1.Interruption {
		return v1.Interruption{
			Time: ago(begin), Slice: ptr.To[int32](2), Reason: v1.ReasonPodDeleted, DownSeconds: ptr.To(int64(length.Seconds())),
		}
	}
	for name, tc := range map[string]struct {
		history []v1.Interruption
		want    string
	}{
		"it went down 20 s later": {[]v1.Interruption{down(30*time.Second, 5*time.Second)}, "0 final, 1 provisional"},
		"it was down then":        {[]v1.Interruption{down(55*time.Second, 10*time.Second), down(30*time.Second, 5*time.Second)}, "0 final, 0 provisional"},
		"it came back long before, and went down later": {
			[]v1.Interruption{down(10*time.Minute, time.Minute), down(30*time.Second, 5*time.Second)}, "0 final, 1 provisional",
		},
		"nobody knows": {nil, "0 final, 0 provisional"},
	} {
		t.Run(name, func(t *testing.T) {
			o, now := steadyState(3, 4)
			o.Job.ElasticSlices, o.Job.MaxSliceRestarts = 1, 1
			pendingCharge(&o, 0, 50*time.Second)
			pendingCharge(&o, 1, 45*time.Second)
			for i := range o.Job.Status.Slices {
				o.Job.Status.Slices[i].LastTransitionTime = ptr.To(ago(25 * time.Second))
			}
			o.Job.Status.History = tc.history
			if diff := cmp.Diff(tc.want, charges(Next(o, now))); diff != "" {
				t.Errorf("charges differ (-want +got):\n%s", diff)
			}
		})
	}
}
