//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

// uncharged: the JobSet has counted nothing towards maxRestarts, which is 0.
func (p *patient) uncharged(ctx context.Context) {
	GinkgoHelper()
	js, err := p.jobSet(ctx, p.name)
	Expect(err).NotTo(HaveOccurred())
	Expect(js.Status.RestartsCountTowardsMax).To(BeZero())
	for i := range p.current(ctx).Status.Slices {
		Expect(p.current(ctx)).To(haveRestarts(i, 0))
	}
	Expect(p.current(ctx)).To(And(
		haveCondition(v1.ConditionFailed, metav1.ConditionFalse, ""), haveCondition(v1.ConditionCompleted, metav1.ConditionFalse, "")))
}

var _ = Describe("A slice whose state is lost", func() {
	DescribeTable("restarts the whole job, uncharged, where its program cannot go on", func(ctx context.Context, reason, why string, change func(*wrappers.PathwaysJobWrapper) *wrappers.PathwaysJobWrapper, interrupt func(context.Context, *patient)) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, change(w.makeJob("train").Workers(machine, shape, 2)), 1)
		interrupt(ctx, p)
		job := w.restarted(ctx, p, recovery+time.Minute)
		p.uncharged(ctx)
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("JobRestarting: Slice 1: "), ContainSubstring(why))))
		Expect(job.Status.History).To(ContainElement(And(HaveField("Slice", BeNil()), HaveField("Reason", reason))))
		if reason == v1.ReasonHostFailed {
			for i := range 2 {
				Expect(sliceStatus(job, i).NodePool).NotTo(Equal(p.pool), "the broken pool was fenced first")
			}
			Expect(p.ReviveHost(ctx, p.node(1))).To(Succeed())
		}
		p.clean(ctx)
	},
		Entry("because it is not elastic", v1.ReasonHostFailed, "Its state is lost, and the job is not elastic",
			func(j *wrappers.PathwaysJobWrapper) *wrappers.PathwaysJobWrapper { return j },
			func(ctx context.Context, p *patient) {
				Expect(p.KillHost(ctx, p.node(1))).To(Succeed())
				Expect(p.WaitNodeReady(ctx, p.node(1), corev1.ConditionUnknown, 2*time.Minute)).To(Succeed())
			}),
		Entry("because it is not resumable", v1.ReasonPreempted, "Its state cannot be saved, and the job is not elastic",
			func(j *wrappers.PathwaysJobWrapper) *wrappers.PathwaysJobWrapper {
				return j.Change(func(job *v1.PathwaysJob) { job.Spec.PathwaysDir = "" })
			},
			func(ctx context.Context, p *patient) { p.evict(ctx, p.worker(ctx, 1)) }),
	)

	It("is only resumed where Pathways could save it, though the job is not elastic", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.makeJob("train").Workers(machine, shape, 2), 1)
		Expect(p.Notice(ctx, p.node(1))).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceSuspending, v1.ReasonNodeTerminating), haveCondition(v1.ConditionHealthy, metav1.ConditionFalse, "SlicesDown")))
		p.moves(ctx, v1.ReasonNodeTerminating)
		Expect(p.Untaint(ctx, p.node(1), cluster.TaintImpendingTermination.Key)).To(Succeed())
		p.unharmed(ctx)
	})
})

var _ = Describe("A head that is disrupted", func() {
	deleted := func(ctx context.Context, w *world, head *corev1.Pod) {
		Expect(w.Client.Delete(ctx, head)).To(Succeed())
	}
	evicted := func(ctx context.Context, w *world, head *corev1.Pod) { w.evict(ctx, head) }
	DescribeTable("restarts the whole job, uncharged", func(ctx context.Context, stop func(context.Context, *world, *corev1.Pod), exitCode, words string) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0).Template(func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{cluster.StopExitCode: exitCode}
		}), 0)
		head, err := w.head(ctx, p.name)
		Expect(err).NotTo(HaveOccurred())
		stop(ctx, w, head)
		w.restarted(ctx, p, recovery+time.Minute)
		p.uncharged(ctx)
		now, err := w.head(ctx, p.name)
		Expect(err).NotTo(HaveOccurred())
		Eventually(p.job(p.name)).WithContext(ctx).Should(haveInterruption(-1, v1.ReasonHeadDisrupted, head.Spec.NodeName, now.Spec.NodeName))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(HavePrefix("HeadDisrupted: "), ContainSubstring(words))))
		Consistently(p.job(p.name)).WithContext(ctx).Should(And(
			HaveField("Status.Restarts", HaveValue(BeEquivalentTo(1))), haveCondition(v1.ConditionCompleted, metav1.ConditionFalse, "")))
		p.clean(ctx)
	},
		Entry("evicted, and is killed", evicted, "143", "EvictionByEvictionAPI"),
		Entry("evicted, and exits with 0", evicted, "0", "EvictionByEvictionAPI"),
		Entry("deleted by hand, and is killed", deleted, "143", "its pod was deleted"),
		Entry("deleted by hand, and exits with 0", deleted, "0", "its pod was deleted"),
	)

	DescribeTable("because its Job was deleted starts again, and tells so", func(ctx context.Context, pods metav1.DeletionPropagation) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 0)
		head, err := w.head(ctx, p.name)
		Expect(err).NotTo(HaveOccurred())
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name + "-pathways-head-0"}}
		Expect(p.Client.Delete(ctx, job, client.PropagationPolicy(pods))).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(recovery).Should(And(
			HaveField("Status.Head.PodUID", Not(Equal(head.UID))), haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
		Eventually(p.job(p.name)).WithContext(ctx).Should(HaveField("Status.History", ContainElement(And(
			HaveField("Slice", BeNil()), HaveField("Reason", v1.ReasonHeadDisrupted), HaveField("DownSeconds", Not(BeNil()))))))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(HavePrefix("HeadDisrupted: ")))
		p.uncharged(ctx)
		p.clean(ctx)
	},
		Entry("with its pod", metav1.DeletePropagationBackground),
		Entry("without its pod", metav1.DeletePropagationOrphan),
	)

	It("because its host is lost starts again on another", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		machines := cluster.CPUPool(w.namespace+"-cpu", 2)
		w.addPool(ctx, machines)
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0).Template(func(t *corev1.PodTemplateSpec) {
			t.Spec.NodeSelector = map[string]string{reservation: w.namespace}
		}), 0)
		head, err := w.head(ctx, p.name)
		Expect(err).NotTo(HaveOccurred())
		lost := head.Spec.NodeName
		Expect(w.KillHost(ctx, lost)).To(Succeed())
		Expect(w.WaitNodeReady(ctx, lost, corev1.ConditionUnknown, 2*time.Minute)).To(Succeed())
		w.restarted(ctx, p, recovery+time.Minute)
		p.uncharged(ctx)
		now, err := w.head(ctx, p.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Spec.NodeName).NotTo(Equal(lost))
		Eventually(p.job(p.name)).WithContext(ctx).Should(haveInterruption(-1, v1.ReasonHeadDisrupted, lost, now.Spec.NodeName))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("JobRestarting: The head's host "+lost), ContainSubstring("this is not charged"))))
		p.clean(ctx)
	})
})

var _ = Describe("The restart annotation", func() {
	It("restarts the whole job once for each value, uncharged", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 0)
		p.annotate(ctx, v1.AnnotationRestart, "one")
		w.restarted(ctx, p, recovery+time.Minute)
		p.uncharged(ctx)
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(HavePrefix("JobRestarting: The restart annotation asked for it")))
		Expect(p.events(p.name)(ctx)).NotTo(ContainElement(HavePrefix("HeadDisrupted")))
		p.annotate(ctx, v1.AnnotationRestart, "one")
		Consistently(p.job(p.name)).WithContext(ctx).Should(HaveField("Status.Restarts", HaveValue(BeEquivalentTo(1))))
		p.clean(ctx)
	})
})
