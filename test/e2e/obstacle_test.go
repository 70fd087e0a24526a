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
			HavePrefix(v1.EventJobPending), ContainSubstring("quota: few"))))

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

	It("waits for a Service of its name that is somebody else's, and runs when that is gone", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		theirs := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "train"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"of": "somebody-else"}, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		Expect(w.Client.Create(ctx, theirs)).To(Succeed())
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonNameInUse),
			haveMessage(v1.ConditionPending, HavePrefix("a Service train exists that is not this job's")))

		Expect(w.Client.Delete(ctx, theirs)).To(Succeed())
		w.running(ctx, "train")
		ours := &corev1.Service{}
		Expect(w.Client.Get(ctx, clientKey(theirs), ours)).To(Succeed())
		jobSet, err := w.jobSet(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(metav1.IsControlledBy(ours, jobSet)).To(BeTrue())
	})

	It("starts, too, where a job of its name was deleted a moment ago", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		earlier := w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		w.running(ctx, "train")
		Expect(w.Client.Delete(ctx, earlier, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
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
				`the head's pod cannot be created; it is tried again: the pod is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`)))

		w.labelNamespace(ctx, label, "null")
		w.running(ctx, "train")
	})

	It("the rest of a slice's pods, where a quota does not allow them", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		quota := w.quota(ctx, corev1.ResourcePods, "2")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonPodsRefused),
			haveMessage(v1.ConditionPending, Equal("pods of slice 0 cannot be created; it is tried again: "+
				"the pod is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2")))
		Expect(w.workers(ctx, "train", 0)).To(HaveLen(1))
		Expect(w.warnings(ctx, "train")).To(ConsistOf(HavePrefix("JobPending: pods of slice 0 cannot be created; it is tried again: the pod is forbidden")))

		Expect(w.Client.Delete(ctx, quota)).To(Succeed())
		w.running(ctx, "train")
	})

	It("a slice's Job, where a quota does not allow it", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.pool(ctx, "b", "ct6e-standard-4t", "2x4")
		quota := w.quota(ctx, "count/jobs.batch", "2")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 2))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonPodsRefused),
			haveMessage(v1.ConditionPending, And(
				HavePrefix("the Job of 1 slice cannot be created; it is tried again: jobs.batch "), ContainSubstring("exceeded quota: few"))))

		Expect(w.Client.Delete(ctx, quota)).To(Succeed())
		w.running(ctx, "train")
	})

	It("a pod template that can be one, with the API server's words and what to do", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.create(ctx, w.makeJob("train").Template(func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}))
		w.until(ctx, "train",
			haveCondition(v1.ConditionPending, metav1.ConditionTrue, v1.ReasonPodsRefused),
			haveMessage(v1.ConditionPending, Equal("the head's Job cannot be created; correct the manifest, then delete the PathwaysJob and create it again: "+
				`Job.batch "train-pathways-head-0" is invalid: spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"`)))
	})

	It("nothing that is worth a warning while many slices start", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		for _, name := range []string{"a", "b", "c", "d"} {
			w.pool(ctx, name, "ct6e-standard-4t", "4x4")
		}
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "4x4", 4))
		w.running(ctx, "train")
		Expect(w.warnings(ctx, "train")).To(BeEmpty())
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

var _ = Describe("A job that runs", func() {
	It("tells why a slice does not get its pods back", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.pool(ctx, "b", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 2).ElasticSlices(1))
		w.running(ctx, "train")
		quota := w.quota(ctx, corev1.ResourcePods, "3")
		child, err := w.childJob(ctx, "train", 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Client.Delete(ctx, child, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		w.until(ctx, "train",
			haveCondition(v1.ConditionRunning, metav1.ConditionTrue, v1.ReasonRunning),
			haveMessage(v1.ConditionRunning, Equal("the head runs and the slices have started; but pods of slice 1 cannot be created; it is tried again: "+
				"the pod is forbidden: exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3")))

		Expect(w.Client.Delete(ctx, quota)).To(Succeed())
		w.running(ctx, "train")
		w.until(ctx, "train", haveMessage(v1.ConditionRunning, Equal("the head runs and the slices have started")))
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

// refuseJobSets makes a quota that allows no JobSet in this namespace.
func (w *world) refuseJobSets(ctx context.Context) *corev1.ResourceQuota {
	GinkgoHelper()
	return w.quota(ctx, "count/jobsets.jobset.x-k8s.io", "0")
}

// quota makes a quota in this namespace, and waits until it works.
func (w *world) quota(ctx context.Context, resourceName corev1.ResourceName, most string) *corev1.ResourceQuota {
	GinkgoHelper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{resourceName: resource.MustParse(most)}},
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
		quota.Status.Used = corev1.ResourceList{resourceName: resource.MustParse("0")}
		return w.Client.Status().Update(ctx, quota)
	}).WithContext(ctx).Should(Succeed())
	return quota
}

// warnings are the events of type Warning about a job.
func (w *world) warnings(ctx context.Context, job string) ([]string, error) {
	list := &corev1.EventList{}
	err := w.Client.List(ctx, list, client.InNamespace(w.namespace))
	var notes []string
	for _, e := range list.Items {
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == "PathwaysJob" && e.InvolvedObject.Name == job {
			notes = append(notes, e.Reason+": "+e.Message)
		}
	}
	return notes, err
}
