package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// A worker of slice 0 was killed at the end of its grace period.
func TestKilledBeforeItHadSaved(t *testing.T) {
	const words = "Slice 0: Worker 2 was killed before it had saved the slice's state: its grace period of 5 s was too short."
	cases := map[string]struct {
		change func(o *Observation)
		// want are the new events; lost is what the history says.
		want    []string
		lost    bool
		restart bool
	}{
		"elastic": {want: []string{"SliceStateLost " + words}, lost: true},
		"headless": {
			change: func(o *Observation) { o.Job.ElasticSlices, o.Job.Headless = 0, true },
			want:   []string{"SliceStateLost " + words}, lost: true,
		},
		"not elastic": {
			change: func(o *Observation) { o.Job.ElasticSlices = 0 },
			want:   []string{"JobRestarting " + words + " The job is not elastic. The whole job restarts; this is not charged."},
			lost:   true, restart: true,
		},
		"its successor's Job is there already": {
			change: func(o *Observation) {
				o.Slices[0].Child.UID, o.Slices[0].Child.Deleting = "childjob-0b", false
				o.Slices[0].Pods = nil
			},
			want: []string{"SliceStateLost " + words}, lost: true,
		},
		"told already": {
			change: func(o *Observation) { o.Job.Status.History[0].StateLost = ptr.To(true) }, lost: true,
		},
		"of an earlier incarnation": {change: func(o *Observation) { o.Slices[0].Killed.JobUID = "other" }},
		"that was never Ready":      {change: func(o *Observation) { o.Job.Status.Slices[0].ReadyJobUID = "" }},
		"whose state was lost anyway": {change: func(o *Observation) {
			o.Job.Status.Slices[0].State, o.Job.Status.Slices[0].Reason = v1.SliceReplacing, v1.ReasonHostFailed
		}},
		"of a job that ends": {change: func(o *Observation) { o.Head.MainExited = true }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, now := steadyState(2, 4)
			st := &o.Job.Status.Slices[0]
			st.State, st.Reason, st.LeavingJobUID = v1.SliceSuspending, v1.ReasonNodeTerminating, "childjob-0"
			st.DownSince = ptr.To(metav1.NewTime(now.Add(-5 * time.Second)))
			o.Job.Status.History = []v1.Interruption{{Time: *st.DownSince, Slice: ptr.To[int32](0), Reason: st.Reason, FromPool: "pool-0"}}
			o.Slices[0].Child.Deleting = true
			for i := range o.Slices[0].Pods {
				pod := &o.Slices[0].Pods[i]
				pod.Deleting, pod.DeletionTime, pod.Ready, pod.Phase = true, now, false, PodFailed
			}
			o.Slices[0].Killed = &KilledWorker{JobUID: "childjob-0", Index: 2, GraceSeconds: 5}
			if c.change != nil {
				c.change(&o)
			}
			d := Next(o, now)
			var events []string
			for _, e := range d.Events {
				events = append(events, e.Reason+" "+e.Message)
			}
			if diff := cmp.Diff(c.want, events); diff != "" {
				t.Errorf("events differ (-want +got):\n%s", diff)
			}
			if got := ptr.Deref(d.History[0].StateLost, false); got != c.lost {
				t.Errorf("the history says that the state was lost: %t", got)
			}
			if got := d.Repair.Restart != nil; got != c.restart {
				t.Errorf("a whole restart is wanted: %t", got)
			}
		})
	}
}
