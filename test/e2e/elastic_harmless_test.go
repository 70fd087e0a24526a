//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

// blip is how long a node is not Ready that returns.
const blip = 20 * time.Second

var _ = Describe("Repair does no harm", func() {
	DescribeTable("to a slice whose kubelet is not Ready for 20 s", func(ctx context.Context, idle ...string) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, append(idle, "a", "b")...)
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		Expect(p.SetNotReady(ctx, p.node(1), "PLEG is not healthy")).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed),
			haveMessage(v1.ConditionSlicesReady, And(ContainSubstring("Host "+p.node(1)+" (worker 1) is not Ready since"), ContainSubstring("If it does not return until")))))
		Consistently(p.job(p.name)).WithContext(ctx).WithTimeout(blip).WithPolling(time.Second).Should(haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed))
		Expect(p.SetReady(ctx, p.node(1))).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceReady, ""), haveInterruption(1, v1.ReasonHostFailed, p.pool, p.pool),
			haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, "")))
		p.untouched(ctx)
		p.unharmed(ctx)
	},
		Entry("while a pool is idle", "c"),
		Entry("while none is"),
	)

	It("to a slice whose host is silent, while no pool is idle", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		Expect(p.KillHost(ctx, p.node(1))).To(Succeed())
		Expect(p.WaitNodeReady(ctx, p.node(1), corev1.ConditionUnknown, 2*time.Minute)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed),
			haveMessage(v1.ConditionSlicesReady, And(ContainSubstring("does not report (noticed at"), ContainSubstring("No other pool is free, so the slice waits for the host until"))),
			haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(HavePrefix("SliceWaiting: Slice 1: Host " + p.node(1))))
		Consistently(p.job(p.name)).WithContext(ctx).WithTimeout(10 * time.Second).WithPolling(time.Second).Should(haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed))
		Expect(p.ReviveHost(ctx, p.node(1))).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceReady, ""), haveInterruption(1, v1.ReasonHostFailed, p.pool, p.pool)))
		p.untouched(ctx)
		p.unharmed(ctx)

		By("not waiting once a pool is there to go to")
		Expect(p.KillHost(ctx, p.node(1))).To(Succeed())
		Expect(p.WaitNodeReady(ctx, p.node(1), corev1.ConditionUnknown, 2*time.Minute)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed))
		w.pools2(ctx, "late")
		p.moves(ctx, v1.ReasonHostFailed)
		Expect(p.ReviveHost(ctx, p.node(1))).To(Succeed())
		p.unharmed(ctx)
	})

	It("to slices on cordoned nodes", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		for _, name := range p.hosts {
			Expect(p.Cordon(ctx, name)).To(Succeed())
		}
		Consistently(p.fences).WithContext(ctx).Should(BeEmpty())
		Expect(p.seen.states(1)).To(BeEmpty())
		p.untouched(ctx)
		Expect(p.events(p.name)(ctx)).NotTo(ContainElement(MatchRegexp("^Slice[A-Z]")))
	})

	It("in a rolling upgrade of the nodes", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 0)
		head := p.before.Head
		for _, pool := range []string{w.namespace + "-a", w.namespace + "-b", w.namespace + "-c"} {
			for i := range 2 {
				name := node(pool, i)
				_, err := w.Kubectl(ctx, "drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s")
				Expect(err).NotTo(HaveOccurred())
				Expect(w.DeleteHost(ctx, name)).To(Succeed())
				w.register(ctx, pool, name)
				Eventually(w.job(p.name)).WithContext(ctx).WithTimeout(recovery+time.Minute).Should(
					haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""), "after the upgrade of %s", name)
			}
		}
		now := w.snapshot(ctx, p.name, 0, 1)
		Expect(now.Head).To(Equal(head))
		Expect(now).To(Equal(snapshot{Head: head, Slices: now.Slices, SliceRestarts: map[int32]int32{0: 0, 1: 0}}), "nothing is charged")
		Expect(p.current(ctx).Status.History).NotTo(ContainElement(HaveField("Slice", BeNil())))
		replaced := *sliceStatus(p.current(ctx), 0).Replacements + *sliceStatus(p.current(ctx), 1).Replacements
		Expect(replaced).To(BeNumerically("<=", 6), "the drain of a node costs one replacement at most")
		p.clean(ctx)
	})

	It("to a job that is finishing", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 0)
		other, err := w.workers(ctx, p.name, 1)
		Expect(err).NotTo(HaveOccurred())
		head, err := w.head(ctx, p.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.ExitContainer(ctx, clientKey(head), cluster.Exit{Container: "main", Code: 0})).To(Succeed())
		for _, pod := range append(other, *p.worker(ctx, 0), *p.worker(ctx, 1)) {
			_ = w.ExitContainer(ctx, clientKey(&pod), cluster.Exit{Code: 1}) // it may be gone already
		}
		job := w.completed(ctx, p.name)
		for i := range 2 {
			Expect(sliceStatus(job, i)).To(And(
				HaveField("Restarts", HaveValue(BeZero())), HaveField("Replacements", HaveValue(BeZero())), HaveField("PendingCharges", BeEmpty())))
			Expect(p.seen.states(i)).NotTo(ContainElement(Or(HavePrefix("Replacing"), HavePrefix("Lost"), HavePrefix("Suspending Pod"))))
		}
		Expect(job.Status.Restarts).To(HaveValue(BeZero()))
		Expect(p.events(p.name)(ctx)).NotTo(ContainElement(Or(HavePrefix("SliceReplacing"), HavePrefix("SliceSuspended"), HavePrefix("JobRestarting"))))
		p.clean(ctx)
	})

	It("to a job that is suspended", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 0)
		By("lifting the fence that a moved slice left")
		Expect(p.KillHost(ctx, p.node(1))).To(Succeed())
		Expect(p.WaitNodeReady(ctx, p.node(1), corev1.ConditionUnknown, 2*time.Minute)).To(Succeed())
		p.moves(ctx, v1.ReasonHostFailed)
		Expect(p.fences(ctx)).NotTo(BeEmpty())
		suspend := func(value bool) {
			_, err := w.Kubectl(ctx, "patch", "--namespace", w.namespace, "pathwaysjob", p.name, "--type=merge", "-p",
				map[bool]string{true: `{"spec":{"suspend":true}}`, false: `{"spec":{"suspend":false}}`}[value])
			Expect(err).NotTo(HaveOccurred())
		}
		suspend(true)
		Eventually(w.job(p.name)).WithContext(ctx).Should(And(
			haveCondition(v1.ConditionSuspended, metav1.ConditionTrue, ""),
			haveSlice(0, v1.SliceSuspended, "JobSuspended"), haveSlice(1, v1.SliceSuspended, "JobSuspended")))
		p.clean(ctx)

		By("doing nothing about its hosts")
		Expect(w.Notice(ctx, node(w.namespace+"-a", 0))).To(Succeed())
		Expect(w.DeleteHost(ctx, node(w.namespace+"-b", 0))).To(Succeed())
		Consistently(p.fences).WithContext(ctx).Should(BeEmpty())
		Expect(w.Untaint(ctx, node(w.namespace+"-a", 0), cluster.TaintImpendingTermination.Key)).To(Succeed())
		w.register(ctx, w.namespace+"-b", node(w.namespace+"-b", 0))
		Expect(p.ReviveHost(ctx, p.node(1))).To(Succeed())
		suspend(false)
		job := w.running(ctx, p.name)
		Expect(ptr.Deref(job.Status.Restarts, 0)).To(BeZero())
		Expect(sliceStatus(job, 0).Restarts).To(HaveValue(BeZero()))
		p.clean(ctx)
	})

	It("to a job whose annotation switches repair off", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0).Annotation(v1.AnnotationSliceRepair, v1.SliceRepairDisabled), 1)
		Expect(p.DeleteHost(ctx, p.node(1))).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed),
			haveMessage(v1.ConditionSlicesReady, ContainSubstring("Repair is switched off by annotation"))))
		Consistently(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed))
		p.untouched(ctx)
		p.annotate(ctx, v1.AnnotationSliceRepair, "")
		p.moves(ctx, v1.ReasonHostFailed)
		p.register(ctx, p.pool, p.node(1))
		p.unharmed(ctx)
	})
})
