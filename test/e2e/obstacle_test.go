//go:build e2e

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

var _ = Describe("A job that cannot have its JobSet", func() {
	It("says so in the API server's words while a quota refuses it, and runs when that allows it", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		quota := w.refuseJobSets(ctx)
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		job := w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonCreateRefused),
			haveMessage(v1.ConditionPending, And(
				HavePrefix("its JobSet could not be created; it is tried again"), ContainSubstring("exceeded quota"))))
		Expect(job.Status.TerminalState).To(BeEmpty())
		Eventually(w.events("train")).WithContext(ctx).Should(ContainElement(And(
			HavePrefix(v1.EventJobPending), ContainSubstring("quota: no-jobsets"))))

		Expect(w.Client.Delete(ctx, quota)).To(Succeed())
		job = w.running(ctx, "train")
		Expect(job).To(haveCondition(v1.ConditionFailed, metav1.ConditionFalse, ""))
		Expect(job.Status.Restarts).To(HaveValue(BeZero()))
	})

	It("leaves a JobSet of its name that is somebody else's alone, and runs when that is gone", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		foreign, err := render.JobSet(w.makeJob("train").Obj(), render.Options{})
		Expect(err).NotTo(HaveOccurred())
		foreign.Spec.Suspend = ptr.To(true)
		Expect(w.Client.Create(ctx, foreign)).To(Succeed())

		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		job := w.until(ctx, "train", haveCondition(v1.ConditionFailed, metav1.ConditionTrue, v1.ReasonJobSetNotOwned))
		Expect(job).To(haveMessage(v1.ConditionFailed, ContainSubstring("a JobSet train exists that is not this job's")))
		Expect(job.Status.TerminalState).To(BeEmpty(), "it can still run")
		Consistently(func(ctx context.Context) (*jobsetv1alpha2.JobSet, error) { return w.jobSet(ctx, "train") }).WithContext(ctx).Should(And(
			HaveField("UID", foreign.UID), HaveField("Generation", foreign.Generation), HaveField("OwnerReferences", BeEmpty())))

		Expect(w.Client.Delete(ctx, foreign)).To(Succeed())
		w.running(ctx, "train")
	})

	It("waits for a Service that has the name of its subdomain", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		const name = "a-name-of-30-characters-and-it"
		// Its subdomain depends on its UID: it must exist before the Service,
		// and its JobSet after it.
		quota := w.refuseJobSets(ctx)
		job := w.create(ctx, w.makeJob(name).Workers("ct6e-standard-4t", "2x4", 1))
		w.until(ctx, name, haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonCreateRefused))
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: render.Subdomain(job)},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"of": "somebody-else"}},
		}
		Expect(w.Client.Create(ctx, service)).To(Succeed())
		Expect(w.Client.Delete(ctx, quota)).To(Succeed())
		w.until(ctx, name,
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonNameInUse),
			haveMessage(v1.ConditionPending, ContainSubstring("Service "+service.Name)))
		Consistently(func(ctx context.Context) error {
			_, err := w.jobSet(ctx, name)
			return client.IgnoreNotFound(err)
		}).WithContext(ctx).Should(Succeed())
		Expect(w.Client.Get(ctx, clientKey(service), service)).To(Succeed())
		Expect(service.Spec.Selector).To(HaveKey("of"))

		Expect(w.Client.Delete(ctx, service)).To(Succeed())
		w.running(ctx, name)
	})
})

var _ = Describe("A job that waits says what for:", func() {
	It("a node that is large enough for the head", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.addPool(ctx, cluster.Pool{Name: w.namespace + "-small", CPU: "16", Memory: "64Gi"})
		w.create(ctx, w.headHere("train"))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonNoHeadNode),
			haveMessage(v1.ConditionPending, Equal("no node for the head: 24 CPU and 132 GB asked, the largest CPU node with "+
				reservation+"="+w.namespace+" has 16")))
		Eventually(w.events("train")).WithContext(ctx).Should(ContainElement(HavePrefix("JobPending: no node for the head")))

		// It goes on by itself once there is one.
		w.addPool(ctx, cluster.CPUPool(w.namespace+"-large", 1))
		w.running(ctx, "train")
	})

	It("a node whose architecture its images are for", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.addPool(ctx, cluster.Pool{Name: w.namespace + "-arm", Arch: "arm64", Taints: []corev1.Taint{
			{Key: corev1.LabelArchStable, Value: "arm64", Effect: corev1.TaintEffectNoSchedule},
		}})
		w.create(ctx, w.headHere("train"))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonNoHeadNode),
			haveMessage(v1.ConditionPending, HaveSuffix("has a taint that it does not tolerate: kubernetes.io/arch=arm64:NoSchedule")))
	})

	It("a port of its node that another pod has", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		nodes := w.addPool(ctx, cluster.CPUPool(w.namespace+"-one", 1))
		other := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"},
			Spec: corev1.PodSpec{
				NodeName: nodes[0],
				Containers: []corev1.Container{{
					Name: "other", Image: "example.com/other:1",
					Ports: []corev1.ContainerPort{{ContainerPort: 29001, HostPort: 29001}},
				}},
			},
		}
		Expect(w.Client.Create(ctx, other)).To(Succeed())
		w.create(ctx, w.headHere("train"))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonUnschedulable),
			haveMessage(v1.ConditionPending, And(
				HavePrefix("no node for the head; the scheduler says: "), ContainSubstring("free ports"))))

		Expect(w.Client.Delete(ctx, other)).To(Succeed())
		w.running(ctx, "train")
	})

	It("an image that cannot be pulled", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).Template(func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{
				cluster.WaitingReason:  "ImagePullBackOff",
				cluster.WaitingMessage: `Back-off pulling image "example.com/train:1": not found`,
			}
		}))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonContainerNotStarting),
			haveMessage(v1.ConditionPending, Equal(
				`the head's container main cannot start: ImagePullBackOff: Back-off pulling image "example.com/train:1": not found`)))

		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.AnnotatePod(ctx, clientKey(head), map[string]string{cluster.WaitingReason: ""})).To(Succeed())
		w.running(ctx, "train")
	})

	It("pods that the namespace does not allow", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		const label = "pod-security.kubernetes.io/enforce"
		w.labelNamespace(ctx, label, `"baseline"`)
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonPodsRefused),
			haveMessage(v1.ConditionPending, HavePrefix(
				`pods of train-pathways-head-0 cannot be created; it is tried again: the pod is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`)))

		w.labelNamespace(ctx, label, "null")
		w.running(ctx, "train")
	})

	It("a whole pool of its shape", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.pool(ctx, "other", "ct6e-standard-4t", "4x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 2))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonNoSlicePool),
			haveMessage(v1.ConditionPending, Equal("no whole pool of tpu-v6e-slice 2x4 with "+reservation+"="+w.namespace+
				" is free: 1 pool, 1 in use; pools of other shapes: 4x4 (1)")))
		Expect(w.get(ctx, "train")).To(haveCondition(v1.ConditionRunning, metav1.ConditionFalse, ""))

		w.pool(ctx, "b", "ct6e-standard-4t", "2x4")
		w.running(ctx, "train")
	})
})

// headHere is a job of one slice whose head selects this spec's CPU nodes.
func (w *world) headHere(name string) *wrappers.PathwaysJobWrapper {
	return w.makeJob(name).Workers("ct6e-standard-4t", "2x4", 1).Template(func(t *corev1.PodTemplateSpec) {
		t.Spec.NodeSelector = map[string]string{reservation: w.namespace}
	})
}

// labelNamespace sets a label of this spec's namespace to a JSON value.
func (w *world) labelNamespace(ctx context.Context, key, value string) {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value))
	Expect(w.Client.Patch(ctx, ns, patch)).To(Succeed())
}

// refuseJobSets makes a quota that allows no JobSet in this namespace, and
// waits until it works.
func (w *world) refuseJobSets(ctx context.Context) *corev1.ResourceQuota {
	GinkgoHelper()
	none := corev1.ResourceList{"count/jobsets.jobset.x-k8s.io": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "no-jobsets"},
		Spec:       corev1.ResourceQuotaSpec{Hard: none},
	}
	Expect(w.Client.Create(ctx, quota)).To(Succeed())
	Eventually(func(ctx context.Context) (corev1.ResourceList, error) {
		err := w.Client.Get(ctx, clientKey(quota), quota)
		return quota.Status.Hard, err
	}).WithContext(ctx).Should(HaveLen(1))
	// A young cluster's quota controller does not count JobSets yet, and looks again after five minutes.
	Eventually(func(ctx context.Context) error {
		if err := w.Client.Get(ctx, clientKey(quota), quota); err != nil || len(quota.Status.Used) == 1 {
			return err
		}
		quota.Status.Used = none
		return w.Client.Status().Update(ctx, quota)
	}).WithContext(ctx).Should(Succeed())
	return quota
}
