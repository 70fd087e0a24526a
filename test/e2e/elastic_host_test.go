//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

var _ = Describe("A slice whose host failed", func() {
	DescribeTable("is moved to an idle pool", func(ctx context.Context, workers []int, words string, fail, repair func(context.Context, *patient)) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		fail(ctx, p)
		to := p.moves(ctx, v1.ReasonHostFailed)
		Expect(p.seen.states(1)).To(ContainElement("Replacing HostFailed"))
		Expect(p.seen.states(1)).NotTo(ContainElement(HavePrefix("Lost")))
		var told []types.GomegaMatcher
		for _, i := range workers {
			told = append(told, HavePrefix(fmt.Sprintf("SliceReplacing: Slice 1: Host %s (worker %d) %s", p.node(i), i, words)))
		}
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(Or(told...)))
		out, err := w.Kubectl(ctx, "get", "pathwaysjobs", "--namespace", w.namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(MatchRegexp(`train +Running +2/2 +0 `))
		out, err = w.Kubectl(ctx, "pathways", "status", p.name, "--namespace", w.namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("Slices, 2/2 Ready"), MatchRegexp(`slice 1 +HostFailed +%s +%s `, p.pool, to)))

		if repair != nil {
			Eventually(p.leftovers).WithContext(ctx).WithTimeout(recovery).Should(BeEmpty())
			Expect(p.fences(ctx)).To(ContainElement(p.node(0)), "the broken pool is kept free until it is whole")
			Expect(p.fences(ctx)).NotTo(ContainElement(HavePrefix(to)))
			repair(ctx, p)
		}
		p.unharmed(ctx)
		Expect(sliceStatus(p.current(ctx), 1)).To(And(HaveField("JobUID", Not(Equal(p.incarnation))), HaveField("NodePool", to)))
	},
		Entry("host falls silent", []int{1}, "does not report (noticed at", func(ctx context.Context, p *patient) {
			Expect(p.KillHost(ctx, p.node(1))).To(Succeed())
			Expect(p.WaitNodeReady(ctx, p.node(1), corev1.ConditionUnknown, 2*time.Minute)).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			Expect(p.seen.gracePeriods(1)).To(ContainElement(BeNumerically("<=", 10)), "its survivors have nothing to save")
			Expect(p.ReviveHost(ctx, p.node(1))).To(Succeed())
		}),
		Entry("node is deleted", []int{1}, "is gone", func(ctx context.Context, p *patient) {
			Expect(p.DeleteHost(ctx, p.node(1))).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			p.register(ctx, p.pool, p.node(1))
		}),
		Entry("pool is deleted", []int{0, 1}, "is gone", func(ctx context.Context, p *patient) {
			// All its hosts are gone at once; the message names one.
			Expect(p.DeletePool(ctx, p.pool)).To(Succeed())
		}, nil),
		Entry("node is out of service", []int{1}, "is out of service", func(ctx context.Context, p *patient) {
			Expect(p.Taint(ctx, p.node(1), cluster.TaintOutOfService)).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			Expect(p.Untaint(ctx, p.node(1), cluster.TaintOutOfService.Key)).To(Succeed())
		}),
		Entry("machine is shut down", []int{1}, "is shut down", func(ctx context.Context, p *patient) {
			Expect(p.Taint(ctx, p.node(1), cluster.TaintShutdown)).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			Expect(p.Untaint(ctx, p.node(1), cluster.TaintShutdown.Key)).To(Succeed())
		}),
	)

	It("waits Suspended for new nodes where no pool is idle", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2), 0)
		Expect(p.DeletePool(ctx, p.pool)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(recovery).Should(And(
			haveSlice(0, v1.SliceSuspended, v1.ReasonHostFailed),
			haveCondition(v1.ConditionSlicesReady, metav1.ConditionFalse, string(v1.SliceSuspended)),
			haveMessage(v1.ConditionSlicesReady, And(ContainSubstring("1 of 2 slices"), ContainSubstring("slice 0 is Suspended since"), ContainSubstring("No whole pool of tpu-v5p-slice 2x2x2 is free"))),
			haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
		Eventually(p.leftovers).WithContext(ctx).WithTimeout(recovery).Should(BeEmpty())
		Consistently(p.job(p.name)).WithContext(ctx).Should(haveSlice(0, v1.SliceSuspended, v1.ReasonHostFailed))

		createPool(ctx, w.Cluster, w.reserved(cluster.TPUPool(p.pool, machine, shape)))
		Expect(p.resumes(ctx, v1.ReasonHostFailed)).To(Equal(p.pool))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceResumed: "), ContainSubstring("Slice 0: Ready again in pool "+p.pool))))
		p.unharmed(ctx)
	})

	It("is not charged for slice-mates that exit first", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2), 1)
		Expect(p.KillHost(ctx, p.node(1))).To(Succeed())
		p.crash(ctx, 0, "interconnect lost")
		Eventually(p.seen.states).WithArguments(1).Should(ContainElement("Restarting WorkerFailed"))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceFailing: "), ContainSubstring("interconnect lost"))))
		Expect(p.WaitNodeReady(ctx, p.node(1), corev1.ConditionUnknown, 2*time.Minute)).To(Succeed())
		p.moves(ctx, v1.ReasonHostFailed)
		Expect(sliceStatus(p.current(ctx), 1)).To(And(
			HaveField("PendingCharges", BeEmpty()), HaveField("Restarts", HaveValue(BeZero()))))
		Expect(p.ReviveHost(ctx, p.node(1))).To(Succeed())
		p.unharmed(ctx)
	})
})

var _ = Describe("A slice whose node is terminating", func() {
	DescribeTable("is stopped with its grace period, and resumes elsewhere", func(ctx context.Context, reason, words string, fail, repair func(context.Context, *patient)) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0).Worker(workerAnnotations(map[string]string{cluster.StopAfter: "2s"})), 0)
		fail(ctx, p)
		p.moves(ctx, reason)
		Expect(p.seen.states(0)).To(ContainElement("Suspending " + reason))
		Expect(p.seen.states(0)).NotTo(ContainElement(HavePrefix("Replacing")))
		Expect(p.seen.gracePeriods(0)).To(Equal([]int64{30}), "each worker has the time to save its state")
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceSuspended: "), ContainSubstring("Slice 0: Node "+p.node(1)+" (worker 1) "+words))))
		Expect(p.fences(ctx)).To(ContainElement(p.node(0)))
		repair(ctx, p)
		p.unharmed(ctx)
	},
		Entry("by a taint", v1.ReasonNodeTerminating, "is being terminated", func(ctx context.Context, p *patient) {
			Expect(p.Notice(ctx, p.node(1))).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			Expect(p.Untaint(ctx, p.node(1), cluster.TaintImpendingTermination.Key)).To(Succeed())
		}),
		Entry("by its kubelet's word", v1.ReasonNodeTerminating, "is being terminated", func(ctx context.Context, p *patient) {
			Expect(p.SetNotReady(ctx, p.node(1), "node is shutting down")).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			Expect(p.SetReady(ctx, p.node(1))).To(Succeed())
		}),
		Entry("by the deletion of its Node", v1.ReasonNodeTerminating, "is being terminated", func(ctx context.Context, p *patient) {
			const finalizer = "example.com/machine"
			Expect(p.ChangeNode(ctx, p.node(1), func(n *corev1.Node) { n.Finalizers = append(n.Finalizers, finalizer) })).To(Succeed())
			DeferCleanup(func(ctx context.Context) {
				var n corev1.Node
				if p.Client.Get(ctx, client.ObjectKey{Name: p.node(1)}, &n) == nil && slices.Contains(n.Finalizers, finalizer) {
					Expect(p.ChangeNode(ctx, p.node(1), func(n *corev1.Node) { n.Finalizers = nil })).To(Succeed())
				}
			})
			Expect(p.DeleteHost(ctx, p.node(1))).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			Expect(p.ChangeNode(ctx, p.node(1), func(n *corev1.Node) { n.Finalizers = nil })).To(Succeed())
			p.gone(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.node(1)}})
			p.register(ctx, p.pool, p.node(1))
		}),
		Entry("for a maintenance that goes on", v1.ReasonMaintenance, "is under maintenance", func(ctx context.Context, p *patient) {
			Expect(p.StartMaintenance(ctx, p.node(1))).To(Succeed())
		}, func(ctx context.Context, p *patient) {
			Expect(p.SetLabel(ctx, p.node(1), cluster.LabelActiveMaintenance, "")).To(Succeed())
		}),
	)

	It("moves ahead of a scheduled maintenance, one slice at a time", func(ctx context.Context) {
		// Of a shape of its own: such moves wait for each other.
		const machine, shape = "ct4p-hightpu-4t", "2x2x2"
		w := newWorld(ctx, shared)
		for _, name := range []string{"a", "b"} {
			w.pool(ctx, name, machine, shape)
		}
		p := w.treat(ctx, w.elasticJob(2).Workers(machine, shape, 2).ElasticSlices(1), 0)
		other := sliceStatus(p.current(ctx), 1).NodePool
		at := time.Now().Add(5 * time.Minute)

		By("not moving where no pool is idle, or for a time that has passed")
		Expect(p.ScheduleMaintenance(ctx, p.node(1), at)).To(Succeed())
		Expect(p.ScheduleMaintenance(ctx, node(other, 1), at.Add(-time.Hour))).To(Succeed())
		Consistently(p.fences).WithContext(ctx).Should(BeEmpty())
		Expect(p.seen.states(0)).To(BeEmpty())

		By("moving when pools are, one after the other")
		w.pool(ctx, "c", machine, shape)
		Eventually(p.seen.states).WithArguments(0).Should(ContainElement("Suspending Maintenance")) // it looks now and then
		p.moves(ctx, v1.ReasonMaintenance)
		Expect(p.seen.states(0)).To(ContainElement("Suspending Maintenance"))
		Expect(p.seen.gracePeriods(0)).To(Equal([]int64{30}))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceSuspended: "), ContainSubstring("Maintenance of node "+p.node(1)), ContainSubstring("another pool is free"))))
		w.pool(ctx, "d", machine, shape)
		Expect(p.ScheduleMaintenance(ctx, node(other, 1), at)).To(Succeed())
		Consistently(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceReady, ""))

		for _, name := range []string{p.node(1), node(other, 1)} {
			Expect(p.SetLabel(ctx, name, cluster.LabelScheduledMaintenance, "")).To(Succeed())
		}
		p.unharmed(ctx)
	})
})
