package elastic

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/statuspatch"
)

func TestInterval(t *testing.T) {
	slices := func(states ...v1.SliceState) []v1.SliceStatus {
		var list []v1.SliceStatus
		for i, s := range states {
			list = append(list, v1.SliceStatus{Index: ptr.To(int32(i)), State: s})
		}
		return list
	}
	starting := slices(v1.SlicePending, v1.SlicePending)
	waiting := []v1.SliceStatus{{State: v1.SlicePending, Reason: v1.ReasonNoSlicePool}}
	for name, tc := range map[string]struct {
		previous v1.PathwaysJobStatus
		decision plan.Decision
		// obstructed: something stands in the job's way.
		obstructed bool
		want       time.Duration
	}{
		"how a start goes on can wait": {
			previous: v1.PathwaysJobStatus{Slices: starting}, decision: plan.Decision{Slices: starting}, want: calm,
		},
		"a slice that gets Ready cannot": {
			previous: v1.PathwaysJobStatus{Slices: starting}, decision: plan.Decision{Slices: slices(v1.SlicePending, v1.SliceReady)},
			want: statuspatch.MinInterval,
		},
		"nor one that does not start for a reason": {
			previous: v1.PathwaysJobStatus{Slices: starting},
			decision: plan.Decision{Slices: []v1.SliceStatus{{State: v1.SlicePending, Reason: v1.ReasonPartiallyScheduled}}},
			want:     statuspatch.MinInterval,
		},
		"nor one that begins to wait for a pool": {
			previous: v1.PathwaysJobStatus{Slices: slices(v1.SlicePending)}, decision: plan.Decision{Slices: waiting}, want: statuspatch.MinInterval,
		},
		"but how many pools are in use can": {
			previous: v1.PathwaysJobStatus{Slices: waiting}, decision: plan.Decision{Slices: waiting}, want: calm,
		},
		"less long where something stands in the job's way": {
			previous: v1.PathwaysJobStatus{Slices: starting}, decision: plan.Decision{Slices: starting}, obstructed: true, want: calmObstructed,
		},
		"what actions follow cannot": {
			previous: v1.PathwaysJobStatus{Slices: starting}, decision: plan.Decision{Slices: starting, Actions: []plan.Action{{}}},
			want: statuspatch.MinInterval,
		},
		"nor a whole restart": {
			previous: v1.PathwaysJobStatus{Slices: starting},
			decision: plan.Decision{Slices: starting, Repair: &v1.RepairStatus{Restart: &v1.WholeRestart{}}},
			want:     statuspatch.MinInterval,
		},
		"nor the first status of all": {decision: plan.Decision{Slices: starting}, want: statuspatch.MinInterval},
	} {
		t.Run(name, func(t *testing.T) {
			if got := interval(tc.previous, tc.decision, tc.obstructed); got != tc.want {
				t.Errorf("interval: %s, want %s", got, tc.want)
			}
		})
	}
}
