package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

func TestRunningStays(t *testing.T) {
	for name, tc := range map[string]struct {
		phase     corev1.PodPhase
		anotherIs bool // the head that ran was another one
		disrupted bool
		want      string
	}{
		"while the head runs":                               {phase: corev1.PodRunning, want: v1.ConditionRunning},
		"from the program's success until JobSet tells it":  {phase: corev1.PodSucceeded, want: v1.ConditionRunning},
		"not after the program's failure":                   {phase: corev1.PodFailed, want: v1.ConditionPending},
		"not for a program that a disruption made exit 0":   {phase: corev1.PodSucceeded, disrupted: true, want: v1.ConditionPending},
		"not for a new head without its containers started": {phase: corev1.PodRunning, anotherIs: true, want: v1.ConditionPending},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observation{
				job:    wrappers.MakePathwaysJob("job", "default").Obj(),
				jobSet: &jobsetv1alpha2.JobSet{},
				head:   &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "head"}, Status: corev1.PodStatus{Phase: tc.phase}},
				previous: v1.PathwaysJobStatus{
					Conditions: []metav1.Condition{{Type: v1.ConditionRunning, Status: metav1.ConditionTrue}},
					Head:       &v1.HeadStatus{PodUID: "head"},
				},
			}
			if tc.anotherIs {
				o.previous.Head.PodUID = "another"
			}
			if tc.disrupted {
				o.previous.HeadDisruption = &v1.HeadDisruption{PodUID: "head"}
			}
			if got := judge(o).condition; got != tc.want {
				t.Errorf("judge: %s, want %s", got, tc.want)
			}
		})
	}
}
