//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

var _ = Describe("install.yaml", func() {
	It("installs all that two replicas need, and one goes on when the other stops", func(ctx context.Context) {
		e := bootEnv(ctx, 0)
		installer(ctx, e.Cluster)
		Expect(e.ServiceAccountKubeconfig(ctx, systemNamespace, operatorAccount, e.kubeconfig)).To(Succeed())
		createPool(ctx, e.Cluster, cluster.CPUPool("heads", 4))
		replicas := []*cluster.Operator{}
		for range 2 {
			o := e.startOperator("--leader-elect", "--leader-elect-namespace="+systemNamespace,
				"--metrics-bind-address=0", "--health-probe-bind-address=0")
			DeferCleanup(o.Kill)
			replicas = append(replicas, o)
		}
		leads := func(i int) func() bool {
			return func() bool { return strings.Contains(replicas[i].Logs(), "uccessfully acquired lease") }
		}
		leader := 0
		Eventually(func() bool {
			if leads(1)() {
				leader = 1
			}
			return leads(leader)()
		}).WithContext(ctx).Should(BeTrue())
		Consistently(leads(1-leader)).Should(BeFalse(), "only one may lead")

		w := newWorld(ctx, e.Cluster)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.pool(ctx, "b", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		w.running(ctx, "train")
		before := w.snapshot(ctx, "train")

		Expect(replicas[leader].Stop()).To(Succeed())
		w.create(ctx, w.makeJob("second").Workers("ct6e-standard-4t", "2x4", 1))
		w.running(ctx, "second")
		Expect(leads(1 - leader)()).To(BeTrue())
		Expect(w.snapshot(ctx, "train")).To(Equal(before), "a change of leaders must not touch what runs")
		w.exitHead(ctx, "train", 0, "")
		w.completed(ctx, "train")
	})
})

var _ = Describe("The operator's ServiceAccount", func() {
	var operator client.Client
	BeforeEach(func() {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(shared.Dir, operatorKubeconfig))
		Expect(err).NotTo(HaveOccurred())
		operator, err = client.New(config, client.Options{Scheme: cluster.NewScheme()})
		Expect(err).NotTo(HaveOccurred())
	})

	It("may not do what the operator has no need of", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		object := metav1.ObjectMeta{Namespace: w.namespace, Name: "some"}
		for what, err := range map[string]error{
			"list secrets":        operator.List(ctx, &corev1.SecretList{}),
			"read a config map":   operator.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{}),
			"create a pod":        operator.Create(ctx, &corev1.Pod{ObjectMeta: object}),
			"create a Job":        operator.Create(ctx, &batchv1.Job{ObjectMeta: object}),
			"create a node":       operator.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "some"}}),
			"delete a node":       operator.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "heads-0"}}),
			"delete a Service":    operator.Delete(ctx, &corev1.Service{ObjectMeta: object}),
			"delete a namespace":  operator.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}),
			"create PathwaysJobs": operator.Create(ctx, w.makeJob("some").Obj()),
		} {
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "may it %s? got: %v", what, err)
		}
	})

	It("may touch no pod, Job or taint that is not of PathwaysJobs", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		nodes := w.addPool(ctx, cluster.CPUPool(w.namespace+"-one", 1))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "foreign"},
			Spec:       corev1.PodSpec{NodeName: nodes[0], Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}},
		}
		Expect(w.Client.Create(ctx, pod)).To(Succeed())
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "foreign"},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}},
			}}},
		}
		Expect(w.Client.Create(ctx, job)).To(Succeed())
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes[0]}}
		taint := func(key string) client.Patch {
			return client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"taints":[{"key":"`+key+`","effect":"NoSchedule"}]}}`))
		}
		dry := client.DryRunAll
		const words = "denied"
		Expect(operator.Delete(ctx, pod, dry)).To(MatchError(ContainSubstring(words)))
		Expect(operator.Delete(ctx, job, dry)).To(MatchError(ContainSubstring(words)))
		Expect(operator.Patch(ctx, node, taint("example.com/other"), dry)).To(MatchError(ContainSubstring(words)))
		Expect(operator.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)), dry)).
			To(MatchError(ContainSubstring(words)))
		Expect(operator.Patch(ctx, node, taint(v1.TaintSliceDegraded), dry)).To(Succeed(), "its own taint it may set")
	})
})
