package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

func TestLift(t *testing.T) {
	now := epoch.Add(time.Hour)
	type answer struct {
		Lift  bool
		Again time.Duration
	}
	left := func(reason string, leaving types.UID, until time.Duration) []v1.SliceStatus {
		s := v1.SliceStatus{Reason: reason, LeavingJobUID: leaving, Fence: &v1.SliceFence{Pool: "p"}}
		if until != 0 {
			s.Fence.Until = ptr.To(metav1.NewTime(now.Add(until)))
		}
		return []v1.SliceStatus{{Fence: &v1.SliceFence{Pool: "other"}}, s}
	}
	stay := answer{}
	cases := map[string]struct {
		change func(pool *Pool, owner *FenceOwner, policy *Policy)
		want   answer
	}{
		"whole":                           {func(*Pool, *FenceOwner, *Policy) {}, answer{Lift: true}},
		"a node is missing":               {func(p *Pool, _ *FenceOwner, _ *Policy) { p.Nodes = p.Nodes[1:] }, stay},
		"a node is not Ready":             {func(p *Pool, _ *FenceOwner, _ *Policy) { p.Nodes[1].Ready = NodeReadyFalse }, stay},
		"a node is cordoned":              {func(p *Pool, _ *FenceOwner, _ *Policy) { p.Nodes[1].Unschedulable = true }, stay},
		"a node has notice":               {func(p *Pool, _ *FenceOwner, _ *Policy) { p.Nodes[1].Terminating = true }, stay},
		"a new node is not fenced":        {func(p *Pool, _ *FenceOwner, _ *Policy) { p.Nodes[0].Fence = "" }, answer{Lift: true}},
		"a pod of the job stops there":    {func(_ *Pool, o *FenceOwner, _ *Policy) { o.Terminating = true }, stay},
		"the job is gone":                 {func(p *Pool, o *FenceOwner, _ *Policy) { p.Nodes[1].Ready = NodeReadyFalse; o.Active = false }, answer{Lift: true}},
		"fencing is switched off":         {func(p *Pool, _ *FenceOwner, f *Policy) { p.Nodes[1].Ready = NodeReadyFalse; f.FencePools = false }, answer{Lift: true}},
		"whole, and a slice still leaves": {func(_ *Pool, o *FenceOwner, _ *Policy) { o.Slices = left(v1.ReasonHostFailed, "job", 0) }, stay},
		"whole, and the slice has left":   {func(_ *Pool, o *FenceOwner, _ *Policy) { o.Slices = left(v1.ReasonHostFailed, "", 0) }, answer{Lift: true}},
		"half placed: free":               {func(_ *Pool, o *FenceOwner, _ *Policy) { o.Slices = left(v1.ReasonPartiallyScheduled, "", time.Minute) }, answer{Lift: true}},
		"half placed: in use": {func(p *Pool, o *FenceOwner, _ *Policy) {
			p.Nodes[0].TPUPods = 1
			o.Slices = left(v1.ReasonPartiallyScheduled, "", time.Minute)
		}, answer{Again: time.Minute}},
		"half placed: not whole": {func(p *Pool, o *FenceOwner, _ *Policy) {
			p.Nodes[0].Ready = NodeReadyUnknown
			o.Slices = left(v1.ReasonPartiallyScheduled, "", time.Minute)
		}, answer{Again: time.Minute}},
		"half placed: for too long": {func(p *Pool, o *FenceOwner, _ *Policy) {
			p.Nodes[0].Ready = NodeReadyUnknown
			o.Slices = left(v1.ReasonPartiallyScheduled, "", -time.Second)
		}, answer{Lift: true}},
		"moves voluntarily": {func(p *Pool, o *FenceOwner, _ *Policy) {
			p.Nodes[0].MaintenanceAt = now.Add(time.Minute)
			o.Slices = left(v1.ReasonMaintenance, "", time.Second)
		}, answer{Again: time.Second}},
		"moves voluntarily, and found no pool": {func(p *Pool, o *FenceOwner, _ *Policy) {
			p.Nodes[0].MaintenanceAt = now.Add(time.Minute)
			o.Slices = left(v1.ReasonMaintenance, "", -time.Second)
		}, answer{Lift: true}},
		"was asked to move": {func(_ *Pool, o *FenceOwner, _ *Policy) { o.Slices = left(v1.ReasonRequested, "", time.Second) }, answer{Again: time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pool := Pool{Name: "p", Want: 2, Nodes: []*Node{{Name: "a", Fence: "job"}, {Name: "b", Fence: "job"}}}
			owner, policy := FenceOwner{Active: true}, DefaultPolicy()
			c.change(&pool, &owner, &policy)
			lift, why, again := Lift(&pool, owner, policy, now)
			got := answer{Lift: lift}
			if !again.IsZero() {
				got.Again = again.Sub(now)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("because %s (-want +got):\n%s", why, diff)
			}
		})
	}
}

func TestFences(t *testing.T) {
	gone := func(o *Observation) { node(o, 0, 1).Gone = true }
	unfenced := append([]string{replaced[0]}, replaced[2:]...)
	check(t, map[string]rule{
		"fenced already": {change: func(o *Observation) {
			gone(o)
			for _, n := range o.Pools[0].Nodes {
				n.Fence = "job"
			}
		}, want: unfenced},
		"a node was added": {change: func(o *Observation) {
			gone(o)
			for _, n := range o.Pools[0].Nodes[1:] {
				n.Fence = "job"
			}
		}, want: replaced},
		"no node is left": {change: func(o *Observation) {
			for _, n := range o.Pools[0].Nodes {
				n.Gone = true
			}
			o.Pools[0].Nodes = nil
		}, want: []string{
			"slice 0 Replacing HostFailed", "DeleteChildJob childjob-0",
			"ForceDeletePod pod-0-0", "ForceDeletePod pod-0-1", "ForceDeletePod pod-0-2", "ForceDeletePod pod-0-3",
		}},
		"nodes without a pool": {change: func(o *Observation) {
			gone(o)
			for _, n := range o.Pools[0].Nodes {
				n.Pool = ""
			}
		}, want: unfenced},
		"the other nodes are being deleted": {change: func(o *Observation) {
			gone(o)
			for _, n := range o.Pools[0].Nodes {
				n.Deleting = true
			}
		}, want: replaced},
	})
}

func TestForceDelete(t *testing.T) {
	// The slice is leaving, and the pod of worker 1 should have stopped.
	stuck := func(since time.Duration, change func(*Node)) func(*Observation) {
		return func(o *Observation) {
			st := &o.Job.Status.Slices[0]
			st.LeavingJobUID, st.State, st.Reason = "childjob-0", v1.SliceSuspending, v1.ReasonPodDeleted
			o.Slices[0].Child.Deleting = true
			o.Slices[0].Pods = o.Slices[0].Pods[1:2]
			pod := &o.Slices[0].Pods[0]
			pod.Deleting, pod.DeletionTime, pod.Ready = true, askedAt.Add(-since), false
			change(pod.Node)
		}
	}
	stays := []string{"slice 0 Suspending PodDeleted"}
	goes := []string{stays[0], "ForceDeletePod pod-0-1"}
	check(t, map[string]rule{
		"59 s after its grace":   {change: stuck(59*time.Second, func(*Node) {}), want: stays},
		"60 s after its grace":   {change: stuck(time.Minute, func(*Node) {}), want: goes},
		"a host with a notice":   {change: stuck(0, func(n *Node) { n.Terminating = true }), want: stays},
		"a host that shuts down": {change: stuck(0, func(n *Node) { n.Ready, n.ShuttingDown = NodeReadyFalse, true }), want: stays},
		"a host that is NotReady": {
			change: stuck(-time.Second, func(n *Node) { n.Ready, n.ReadySince = NodeReadyFalse, askedAt }), want: stays,
		},
		"a host that is gone": {
			change: stuck(-time.Second, func(n *Node) { n.Gone = true }),
			want:   []string{"slice 0 Replacing HostFailed", "FencePool pool-0", "ForceDeletePod pod-0-1"},
		},
		"DryRun": {change: func(o *Observation) { stuck(time.Hour, func(*Node) {})(o); o.Policy.Mode = DryRun }, want: stays},
	})
}
