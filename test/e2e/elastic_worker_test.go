//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

var _ = Describe("A slice whose pods are stopped by someone", func() {
	DescribeTable("is stopped as a whole, and resumes", func(ctx context.Context, reason, words string, exitCode string, stop func(context.Context, *patient)) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0).Worker(workerAnnotations(map[string]string{cluster.StopExitCode: exitCode})), 1)
		stop(ctx, p)
		p.resumes(ctx, reason)
		Expect(p.seen.states(1)).To(ContainElement("Suspending " + reason))
		Expect(p.seen.gracePeriods(1)).To(Equal([]int64{30}))
		Eventually(p.events(p.name)).WithContext(ctx).Should(And(
			ContainElement(And(HavePrefix("SliceSuspended: Slice 1: "), ContainSubstring(words))),
			ContainElement(HavePrefix("SliceResumed: Slice 1: "))))
		p.unharmed(ctx)
	},
		Entry("of which one is deleted", v1.ReasonPodDeleted, "(worker 1) was deleted", "143", func(ctx context.Context, p *patient) {
			Expect(p.Client.Delete(ctx, p.worker(ctx, 1))).To(Succeed())
		}),
		Entry("of which the leader is deleted", v1.ReasonPodDeleted, "(worker 0) was deleted", "143", func(ctx context.Context, p *patient) {
			Expect(p.Client.Delete(ctx, p.worker(ctx, 0))).To(Succeed())
		}),
		Entry("which are all deleted", v1.ReasonPodDeleted, "was deleted", "143", func(ctx context.Context, p *patient) {
			Expect(p.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(p.namespace), client.MatchingLabels(p.worker(ctx, 0).Labels))).To(Succeed())
			Expect(p.Client.Delete(ctx, p.worker(ctx, 1))).To(Succeed())
		}),
		Entry("whose Job is deleted", v1.ReasonPodDeleted, "was deleted", "143", func(ctx context.Context, p *patient) {
			job, err := p.childJob(ctx, p.name, p.slice)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		}),
		Entry("and exit with 0", v1.ReasonPodDeleted, "was deleted", "0", func(ctx context.Context, p *patient) {
			Expect(p.Client.Delete(ctx, p.worker(ctx, 1))).To(Succeed())
		}),
		Entry("of which one is evicted", v1.ReasonPreempted, "Worker 1 was disrupted: EvictionByEvictionAPI", "143", func(ctx context.Context, p *patient) {
			p.evict(ctx, p.worker(ctx, 1))
		}),
		Entry("and exit with 0 when evicted", v1.ReasonPreempted, "Worker 0 was disrupted: EvictionByEvictionAPI", "0", func(ctx context.Context, p *patient) {
			p.evict(ctx, p.worker(ctx, 0))
		}),
	)

	DescribeTable("starts again when its Job is deleted", func(ctx context.Context, pods metav1.DeletionPropagation) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		job, err := p.childJob(ctx, p.name, p.slice)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Client.Delete(ctx, job, client.PropagationPolicy(pods))).To(Succeed())
		p.resumes(ctx, v1.ReasonPodDeleted)
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(HavePrefix("Slice"), ContainSubstring("Its Job was deleted"))))
		p.unharmed(ctx)
	},
		Entry("and its pods with it", metav1.DeletePropagationBackground),
		Entry("and its pods are left behind", metav1.DeletePropagationOrphan),
	)

	It("moves because the replace-slice annotation asks for it", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		p.annotate(ctx, v1.AnnotationReplaceSlice, "2")
		Eventually(p.job(p.name)).WithContext(ctx).Should(HaveField("Annotations", Not(HaveKey(v1.AnnotationReplaceSlice))))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("BadAnnotation: "), ContainSubstring(`"2" names no slice: 0 to 1 are possible`))))
		p.untouched(ctx)

		p.annotate(ctx, v1.AnnotationReplaceSlice, "1")
		p.moves(ctx, v1.ReasonRequested)
		Expect(p.seen.states(1)).To(ContainElement("Suspending Requested"))
		Expect(p.seen.gracePeriods(1)).To(Equal([]int64{30}))
		Expect(p.current(ctx).Annotations).NotTo(HaveKey(v1.AnnotationReplaceSlice))
		p.unharmed(ctx)
		Consistently(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceReady, ""), HaveField("Status.Slices", ContainElement(And(
				HaveField("Index", HaveValue(BeEquivalentTo(1))), HaveField("Replacements", HaveValue(BeEquivalentTo(1))))))))
	})
})

var _ = Describe("A worker that fails", func() {
	It("is restarted in place, and charged once", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(1), 1)
		whole := w.snapshot(ctx, p.name)
		p.crash(ctx, 1, "boom")
		Eventually(p.seen.states).WithArguments(1).Should(Equal([]string{"Restarting WorkerFailed"}))
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceReady, ""), haveInterruption(1, v1.ReasonWorkerFailed, p.pool, p.pool)))
		Eventually(p.events(p.name)).WithContext(ctx).Should(And(
			ContainElement(And(HavePrefix("SliceFailing: Slice 1: Worker 1 exited with code 1: boom."), ContainSubstring("restarted in place"))),
			ContainElement(HavePrefix("SliceRestarted: Slice 1: "))))
		Expect(w.snapshot(ctx, p.name)).To(Equal(whole), "a pod was replaced, or a charge made before its time")

		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(chargeable).Should(haveRestarts(1, 1))
		Consistently(p.job(p.name)).WithContext(ctx).Should(And(haveRestarts(1, 1), haveSlice(1, v1.SliceReady, "")))
		whole.SliceRestarts[1] = 1
		Expect(w.snapshot(ctx, p.name)).To(Equal(whole))
		p.clean(ctx)
	})

	It("is replaced with its slice where it exits with 0", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2), 1)
		Expect(w.ExitContainer(ctx, clientKey(p.worker(ctx, 1)), cluster.Exit{Code: 0})).To(Succeed())
		p.resumes(ctx, v1.ReasonWorkerFailed)
		Expect(p.seen.states(1)).To(ContainElement("Replacing WorkerFailed"))
		Expect(sliceStatus(p.current(ctx), 1).PendingCharges).To(ConsistOf(HaveField("Count", BeEquivalentTo(1))))
		p.unharmed(ctx)
	})
})

var _ = Describe("A slice that is partly scheduled", func() {
	It("waits where no other pool is free, then moves there", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		half := cluster.TPUPool(w.namespace+"-half", machine, shape)
		half.Hosts = 1
		w.addPool(ctx, half)
		w.create(ctx, w.elasticJob(1))
		Eventually(w.job("train")).WithContext(ctx).WithTimeout(90 * time.Second).Should(And(
			haveSlice(0, v1.SlicePending, v1.ReasonPartiallyScheduled),
			haveMessage(v1.ConditionSlicesReady, And(
				ContainSubstring("1 of its 2 workers are placed in pool "+half.Name),
				ContainSubstring("No other whole pool is free, so the slice waits")))))
		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())

		whole := w.pool(ctx, "whole", machine, shape)
		job := w.running(ctx, "train")
		Expect(sliceStatus(job, 0)).To(And(
			HaveField("NodePool", whole), HaveField("Restarts", HaveValue(BeZero())), HaveField("Replacements", HaveValue(BeEquivalentTo(1)))))
		Eventually(w.events("train")).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceReplacing: Slice 0: "), ContainSubstring("do not fit there"))))
		now, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(now.UID).To(Equal(head.UID))
		Expect(w.fences(ctx)).To(ConsistOf(node(half.Name, 0)))
		w.register(ctx, half.Name, node(half.Name, 1))
		w.clean(ctx)
	})

	It("is not given up while its pool registers its nodes", func(ctx context.Context) {
		const machine, shape = "ct5p-hightpu-4t", "2x2x4"
		w := newWorld(ctx, shared)
		pool := w.reserved(cluster.TPUPool(w.namespace+"-new", machine, shape))
		nodes, err := pool.Nodes()
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Client.Create(ctx, nodes[0])).To(Succeed())
		w.create(ctx, w.makeJob("train").Workers(machine, shape, 1).ElasticSlices(1))
		var leader []corev1.Pod
		for i := 1; i < len(nodes); i++ {
			Eventually(func(ctx context.Context) ([]corev1.Pod, error) { return w.workers(ctx, "train", 0) }).WithContext(ctx).Should(
				ContainElement(HaveField("Spec.NodeName", nodes[0].Name)))
			if leader == nil {
				leader, err = w.workers(ctx, "train", 0)
				Expect(err).NotTo(HaveOccurred())
			}
			// Longer in all than a partly placed slice is waited for.
			Consistently(func(ctx context.Context) ([]corev1.Pod, error) { return w.workers(ctx, "train", 0) }).WithContext(ctx).WithTimeout(12 * time.Second).
				WithPolling(time.Second).Should(ContainElement(HaveField("UID", leader[0].UID)))
			Expect(w.Client.Create(ctx, nodes[i])).To(Succeed())
		}
		job := w.running(ctx, "train")
		Expect(sliceStatus(job, 0)).To(And(HaveField("Replacements", HaveValue(BeZero())), HaveField("Restarts", HaveValue(BeZero()))))
		pods, err := w.workers(ctx, "train", 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(pods).To(And(HaveLen(4), ContainElement(HaveField("UID", leader[0].UID))))
		w.clean(ctx)
	})

	It("is rid of a Failed leader pod", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		leader := p.worker(ctx, 0)
		// As a kubelet leaves it that shuts its node down.
		leader.Status.Phase, leader.Status.Reason, leader.Status.Message = corev1.PodFailed, "Terminated", "Pod was terminated in response to imminent node shutdown."
		Expect(w.Client.Status().Update(ctx, leader)).To(Succeed())
		p.resumes(ctx, v1.ReasonPartiallyScheduled)
		Expect(p.seen.states(1)).To(ContainElement("Replacing PartiallyScheduled"))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceReplacing: Slice 1: "), ContainSubstring("leader pod "+leader.Name+" has failed"))))
		p.unharmed(ctx)
	})
})

// evict asks for the eviction of a pod, as kubectl drain does.
func (w *world) evict(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	Expect(w.Client.SubResource("eviction").Create(ctx, pod, eviction)).To(Succeed())
}

// haveRestarts matches a job by the charged restarts of a slice.
func haveRestarts(slice int, restarts int32) OmegaMatcher {
	return WithTransform(func(job *v1.PathwaysJob) string {
		return fmt.Sprintf("slice %d: %d restarts", slice, ptr.Deref(sliceStatus(job, slice).Restarts, 0))
	}, Equal(fmt.Sprintf("slice %d: %d restarts", slice, restarts)))
}
