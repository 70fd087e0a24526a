package elastic

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
)

// relatedRecorder keeps what events are related to.
type relatedRecorder []string

func (r *relatedRecorder) Eventf(_, related runtime.Object, _, reason, _, _ string, _ ...any) {
	name := ""
	if ref, ok := related.(*corev1.ObjectReference); ok {
		name = " " + ref.Kind + " " + ref.Namespace + "/" + ref.Name
	}
	*r = append(*r, reason+name)
}

// Events of two slices must not be merged, so each names its own Job.
func TestTellRelated(t *testing.T) {
	var got relatedRecorder
	job := &v1.PathwaysJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "train"}}
	r := &Reconciler{recorder: &got}
	r.tell(job, job.Status, plan.Decision{Events: []plan.Event{
		{Slice: plan.JobLevel, Reason: plan.EventRepairPaused},
		{Slice: 0, Reason: plan.EventSliceHotSwapped},
		{Slice: 12, Reason: plan.EventSliceHotSwapped},
	}})
	want := relatedRecorder{"RepairPaused", "SliceHotSwapped Job ns/train-worker-0", "SliceHotSwapped Job ns/train-worker-12"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}
