package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestWake: where nothing but time must pass, Next says when to look again.
func TestWake(t *testing.T) {
	cases := map[string]struct {
		change func(o *Observation)
		want   time.Duration // from now; 0 for never
	}{
		"all is well": {func(*Observation) {}, 0},
		"a restart in place that is over already": {func(o *Observation) { restarted(o, 0, 1, 1, 0) }, time.Second},
		"a charge":     {func(o *Observation) { pendingCharge(o, 0, 40*time.Second) }, 50 * time.Second},
		"NotReady":     {func(o *Observation) { notReadyFor(o, NodeReadyFalse, 10*time.Second) }, 20 * time.Second},
		"no idle pool": {func(o *Observation) { notReadyFor(o, NodeReadyUnknown, time.Minute); busyPools(o, 0) }, 4 * time.Minute},
		"maintenance":  {func(o *Observation) { node(o, 0, 0).MaintenanceAt = askedAt.Add(time.Hour) }, 50*time.Minute + time.Second},
		"head NotReady": {func(o *Observation) {
			o.Head.Node = &Node{Name: "cpu", Ready: NodeReadyFalse, ReadySince: askedAt.Add(-25 * time.Second)}
		}, 5 * time.Second},
		"held": {func(o *Observation) {
			st := &o.Job.Status.Slices[0]
			st.LeavingJobUID, st.HoldUntil = "childjob-0", ptr.To(metav1.NewTime(askedAt.Add(7*time.Second)))
			o.Slices[0].Child.Deleting, o.Slices[0].Child.Held = true, true
		}, 7 * time.Second},
		"a pod that stops": {func(o *Observation) {
			o.Slices[0].Pods[1].Deleting, o.Slices[0].Pods[1].DeletionTime = true, askedAt.Add(30*time.Second)
		}, 90 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, now := steadyState(2, 4)
			c.change(&o)
			got := time.Duration(0)
			if d := Next(o, now); !d.Wake.IsZero() {
				got = d.Wake.Sub(now)
			}
			if got != c.want {
				t.Errorf("looks again in %s, want %s", got, c.want)
			}
		})
	}
}
