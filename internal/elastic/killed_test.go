package elastic

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"pathways.domain/pathways-job/internal/elastic/plan"
)

func TestKilledWorkers(t *testing.T) {
	stopped := func(change func(*corev1.Pod)) *corev1.Pod {
		p := workerPod("p", "False")
		p.DeletionTimestamp = &moment
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", UID: "job", Controller: ptr.To(true)}}
		p.Labels[completionIndexLabel] = "3"
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
		p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}
		change(p)
		return p
	}
	want := &plan.KilledWorker{JobUID: "job", Index: 3, GraceSeconds: 5}
	cases := map[string]struct {
		pod  *corev1.Pod
		want *plan.KilledWorker
	}{
		"killed":            {stopped(func(*corev1.Pod) {}), want},
		"suspended":         {stopped(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.ExitCode = 143 }), nil},
		"still saving":      {stopped(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated = nil }), nil},
		"out of memory":     {stopped(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled" }), nil},
		"not being deleted": {stopped(func(p *corev1.Pod) { p.DeletionTimestamp = nil }), nil},
		"nobody's":          {stopped(func(p *corev1.Pod) { p.OwnerReferences = nil }), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := newKilledWorkers()
			k.see(c.pod)
			if diff := cmp.Diff(c.want, k.of("job")); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("seen when its pod goes", func(t *testing.T) {
		c := cached()
		w := &watcher{cache: c, pools: newPoolView(c, testingclock.NewFakePassiveClock(moment.Time)), killed: newKilledWorkers()}
		w.podMatters(stopped(func(*corev1.Pod) {}), nil)
		if diff := cmp.Diff(want, w.killed.of("job")); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("forgotten in the end", func(t *testing.T) {
		k := newKilledWorkers()
		k.see(stopped(func(*corev1.Pod) {}))
		k.see(stopped(func(p *corev1.Pod) {
			p.OwnerReferences[0].UID = "later"
			p.DeletionTimestamp = ptr.To(metav1.NewTime(moment.Add(killedFor + time.Second)))
		}))
		if k.of("job") != nil || k.of("later") == nil {
			t.Errorf("remembered are %v", k.byJob)
		}
	})
}
