//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

var _ = Describe("The end of the head", func() {
	It("by an error says which container, its exit code and last words, after maxRestarts", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).MaxRestarts(1))
		w.running(ctx, "train")
		w.exitHead(ctx, "train", 3, "loss is NaN at step 12")
		job := w.until(ctx, "train", haveWholeRestarts(1), haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""))
		Expect(job.Status.TerminalState).To(BeEmpty())
		Expect(job.Status.JobSet.ChargedRestarts).To(HaveValue(BeEquivalentTo(1)))

		w.exitHead(ctx, "train", 4, "loss is NaN at step 13")
		job = w.until(ctx, "train", haveCondition(v1.ConditionFailed, metav1.ConditionTrue, v1.ReasonContainerFailed))
		Expect(job).To(haveMessage(v1.ConditionFailed, Equal(
			"the head's container main ended with exit code 4: loss is NaN at step 13; 1 of maxRestarts 1 are used")))
		Expect(job.Status.TerminalState).To(Equal(string(v1.JobFailed)))
		Eventually(w.activePods("train")).WithContext(ctx).Should(BeEmpty())
		Eventually(w.events("train")).WithContext(ctx).Should(ContainElement(HavePrefix(v1.EventJobFailed + ": the head's container main ended with exit code 4")))
	})

	// Its Job deletes the pod when a container fails: that is no disruption.
	DescribeTable("by an error fails a job whose head has no pod failure policy", func(ctx context.Context, change func(*corev1.PodTemplateSpec), container string) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).Template(change))
		w.running(ctx, "train")
		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.ExitContainer(ctx, clientKey(head), cluster.Exit{Container: container, Code: 3, Message: "loss is NaN"})).To(Succeed())
		job := w.until(ctx, "train", haveCondition(v1.ConditionFailed, metav1.ConditionTrue, v1.ReasonContainerFailed))
		Expect(job).To(haveMessage(v1.ConditionFailed, Equal("the head's container "+container+" ended with exit code 3: loss is NaN; maxRestarts is 0")))
		Expect(job.Status.Restarts).To(HaveValue(BeZero()))
	},
		Entry("with restartPolicy OnFailure", func(t *corev1.PodTemplateSpec) { t.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, "main"),
		Entry("with two containers", func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "side", Image: "side"})
		}, "side"),
	)

	It("with 0 on a drained node has not completed the job", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		// A program that saves its state on SIGTERM and exits 0.
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).Template(func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{cluster.StopExitCode: "0"}
		}))
		w.running(ctx, "train")
		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Client.SubResource("eviction").Create(ctx, head, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: head.Namespace, Name: head.Name},
		})).To(Succeed())
		job := w.until(ctx, "train",
			haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""),
			WithTransform(func(job *v1.PathwaysJob) bool { return job.Status.Head.PodUID != head.UID }, BeTrue()))
		Expect(job.Status.Restarts).To(HaveValue(BeEquivalentTo(1)))
		Expect(job.Status.JobSet.ChargedRestarts).To(HaveValue(BeZero()))
		Expect(job.Status.TerminalState).To(BeEmpty())
		Expect(w.reasons("train")(ctx)).NotTo(ContainElement(v1.EventJobCompleted))

		// When it ends by itself, it has.
		w.running(ctx, "train")
		w.exitHead(ctx, "train", 0, "")
		w.completed(ctx, "train")
	})

	It("with its host restarts the job on another, and is not charged", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		heads := cluster.CPUPool(w.namespace+"-heads", 2)
		w.addPool(ctx, heads)
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).Template(func(t *corev1.PodTemplateSpec) {
			t.Spec.NodeSelector = map[string]string{"cloud.google.com/gke-nodepool": heads.Name}
		}))
		w.running(ctx, "train")
		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.KillHost(ctx, head.Spec.NodeName)).To(Succeed())
		job := w.until(ctx, "train", haveWholeRestarts(1), haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""))
		Expect(job.Status.Head.NodeName).NotTo(Equal(head.Spec.NodeName))
		Expect(job.Status.JobSet.ChargedRestarts).To(HaveValue(BeZero()))
		Eventually(w.leftovers).WithContext(ctx).Should(BeEmpty())
	})

	It("with 0 completes the job, though all workers exit 1 in the same second", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.pool(ctx, "b", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 2).ElasticSlices(1).MaxSliceRestarts(0))
		w.running(ctx, "train")
		for slice := range 2 {
			workers, err := w.workers(ctx, "train", slice)
			Expect(err).NotTo(HaveOccurred())
			for _, p := range workers {
				Expect(w.AnnotatePod(ctx, clientKey(&p), map[string]string{
					cluster.ExitCode: "1", cluster.ExitTimes: "1", cluster.ExitContainer: v1.ContainerWorker,
				})).To(Succeed())
			}
			if slice == 0 {
				w.exitHead(ctx, "train", 0, "")
			}
		}
		job := w.completed(ctx, "train")
		Expect(job.Status.Restarts).To(HaveValue(BeZero()))
		for _, s := range job.Status.Slices {
			Expect(s.Restarts).To(Or(BeNil(), HaveValue(BeZero())), "slice %d", *s.Index)
			Expect(s.Replacements).To(Or(BeNil(), HaveValue(BeZero())), "slice %d", *s.Index)
		}
	})
})

// haveWholeRestarts matches a PathwaysJob by how often it restarted as a whole.
func haveWholeRestarts(n int32) OmegaMatcher {
	return WithTransform(func(job *v1.PathwaysJob) int32 { return ptr.Deref(job.Status.Restarts, 0) }, Equal(n))
}
