//go:build e2e

package e2e

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

var _ = Describe("The operator's rights", func() {
	It("end at its own taint, and at the pods and Jobs of PathwaysJobs", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		name := node(w.pool(ctx, "a", machine, shape), 0)
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(w.Dir, "operator.kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		operator, err := client.New(config, client.Options{Scheme: w.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		refused := func(err error, words string) {
			GinkgoHelper()
			Expect(err).To(MatchError(ContainSubstring(words)))
		}
		change := func(change func(*corev1.Node)) error {
			n := &corev1.Node{}
			Expect(w.Client.Get(ctx, client.ObjectKey{Name: name}, n)).To(Succeed())
			before := n.DeepCopy()
			change(n)
			return operator.Patch(ctx, n, client.MergeFrom(before))
		}
		By("changing Nodes")
		const others = "the operator may change no taint of a Node but"
		refused(change(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/mine", Effect: corev1.TaintEffectNoSchedule})
		}), others)
		refused(change(func(n *corev1.Node) { n.Spec.Taints = nil }), others)
		refused(change(func(n *corev1.Node) { n.Labels["example.com/mine"] = "true" }), "the operator may not change a Node's metadata")
		refused(change(func(n *corev1.Node) { n.Spec.Unschedulable = true }), "the operator may change nothing in a Node's spec but its own taint")
		refused(operator.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}), "cannot delete resource \"nodes\"")
		Expect(change(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1.TaintSliceDegraded, Value: "nobody", Effect: corev1.TaintEffectNoSchedule})
		})).To(Succeed())
		Eventually(w.fences).WithContext(ctx).Should(BeEmpty(), "a fence without a PathwaysJob is lifted")

		By("deleting and evicting a pod that is not a PathwaysJob's")
		template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/other:1"}},
		}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"}, Spec: template.Spec}
		Expect(w.Client.Create(ctx, pod)).To(Succeed())
		const foreign = "the operator may change and delete only pods and Jobs of PathwaysJobs, and other lacks their labels"
		refused(operator.Delete(ctx, pod.DeepCopy()), foreign)
		refused(operator.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"}}),
			"the operator may evict only pods of PathwaysJobs, and other is not named like one")

		By("deleting and changing a Job that is not a PathwaysJob's")
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"}, Spec: batchv1.JobSpec{Template: template}}
		Expect(w.Client.Create(ctx, job)).To(Succeed())
		refused(operator.Delete(ctx, job.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)), foreign)
		refused(operator.Patch(ctx, job.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"parallelism":0}}`))), foreign)
		Expect(w.Client.Get(ctx, clientKey(pod), pod)).To(Succeed())
		Expect(w.Client.Get(ctx, clientKey(job), job)).To(Succeed())
	})
})
