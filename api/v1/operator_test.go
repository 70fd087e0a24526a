package v1_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

const operatorUser = "system:serviceaccount:pathways-job-system:pathways-job-controller-manager"

// newOperator is a client that acts as the operator's ServiceAccount, here
// with every right that RBAC can give.
func newOperator(t *testing.T) client.Client {
	t.Helper()
	admin := newClient(t, &recorder{})
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: operatorUser}},
	}
	if err := admin.Create(context.Background(), binding); err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOperatorMayChangeOnlyItsTaint(t *testing.T) {
	ours := corev1.Taint{Key: v1.TaintSliceDegraded, Value: "uid", Effect: corev1.TaintEffectNoSchedule}
	tpu := corev1.Taint{Key: "google.com/tpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		taints []corev1.Taint
		change func(*corev1.Node)
		want   string
	}{
		"adds its taint":          {[]corev1.Taint{tpu}, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, ours) }, ""},
		"adds it as the only one": {nil, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{ours} }, ""},
		"changes its taint":       {[]corev1.Taint{ours, tpu}, func(n *corev1.Node) { n.Spec.Taints[0].Value = "other" }, ""},
		"removes its taint":       {[]corev1.Taint{ours, tpu}, func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }, ""},
		"removes it as the last":  {[]corev1.Taint{ours}, func(n *corev1.Node) { n.Spec.Taints = nil }, ""},
		"removes another taint": {[]corev1.Taint{ours, tpu}, func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] },
			`the operator may change no taint of a Node but status-taint.cluster-autoscaler.kubernetes.io/pathways-slice-degraded`},
		"adds another taint": {nil, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{tpu} },
			`the operator may change no taint of a Node but status-taint.cluster-autoscaler.kubernetes.io/pathways-slice-degraded`},
		"changes another's value": {[]corev1.Taint{tpu}, func(n *corev1.Node) { n.Spec.Taints[0].Value = "a" },
			`the operator may change no taint of a Node but status-taint.cluster-autoscaler.kubernetes.io/pathways-slice-degraded`},
		"changes another's effect": {[]corev1.Taint{tpu}, func(n *corev1.Node) { n.Spec.Taints[0].Effect = "NoExecute" },
			`the operator may change no taint of a Node but status-taint.cluster-autoscaler.kubernetes.io/pathways-slice-degraded`},
		"cordons": {nil, func(n *corev1.Node) { n.Spec.Unschedulable = true },
			`the operator may change nothing in a Node's spec but its own taint`},
		"sets a provider": {nil, func(n *corev1.Node) { n.Spec.ProviderID = "a" },
			`the operator may change nothing in a Node's spec but its own taint`},
		"adds a label": {nil, func(n *corev1.Node) { n.Labels["new"] = "a" },
			`the operator may not change a Node's metadata`},
		"changes a label": {nil, func(n *corev1.Node) { n.Labels["old"] = "b" },
			`the operator may not change a Node's metadata`},
		"removes all labels": {nil, func(n *corev1.Node) { n.Labels = nil },
			`the operator may not change a Node's metadata`},
		"adds an annotation": {nil, func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} },
			`the operator may not change a Node's metadata`},
		"adds a finalizer": {nil, func(n *corev1.Node) { n.Finalizers = []string{"a.b/c"} },
			`the operator may not change a Node's metadata`},
		"taint and label at a time": {nil, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{ours}; n.Labels["new"] = "a" },
			`the operator may not change a Node's metadata`},
	}
	admin, operator := newClient(t, &recorder{}), newOperator(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: map[string]string{"old": "a"}},
				Spec:       corev1.NodeSpec{Taints: tc.taints},
			}
			if err := admin.Create(context.Background(), node); err != nil {
				t.Fatal(err)
			}
			// The API server adds a taint to each new Node.
			node.Spec.Taints = tc.taints
			if err := admin.Update(context.Background(), node); err != nil {
				t.Fatal(err)
			}
			tc.change(node)
			err := operator.Update(context.Background(), node)
			if diff := cmp.Diff(tc.want, denied(err)); diff != "" {
				t.Errorf("update (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("status", func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
		if err := admin.Create(context.Background(), node); err != nil {
			t.Fatal(err)
		}
		node.Status.Phase = corev1.NodeRunning
		want := "the operator may only update Nodes, neither create nor delete them nor change their status"
		got := map[string]string{
			"status": denied(operator.Status().Update(context.Background(), node)),
			"delete": denied(operator.Delete(context.Background(), node)),
			"create": denied(operator.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})),
		}
		if diff := cmp.Diff(map[string]string{"status": want, "delete": want, "create": want}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestOperatorMayTouchOnlyItsPodsAndJobs(t *testing.T) {
	labels := func(replicatedJob string) map[string]string {
		return map[string]string{"jobset.sigs.k8s.io/jobset-name": "j", "jobset.sigs.k8s.io/replicatedjob-name": replicatedJob}
	}
	tests := map[string]struct {
		labels map[string]string
		want   string
	}{
		"head":   {labels(v1.HeadReplicatedJob), ""},
		"worker": {labels(v1.WorkerReplicatedJob), ""},
		"of another JobSet": {labels("trainer"),
			`the operator may change and delete only pods and Jobs of PathwaysJobs, and thing lacks their labels`},
		"of no JobSet": {map[string]string{"jobset.sigs.k8s.io/replicatedjob-name": "worker"},
			`the operator may change and delete only pods and Jobs of PathwaysJobs, and thing lacks their labels`},
		"of a Deployment": {map[string]string{"app": "a"},
			`the operator may change and delete only pods and Jobs of PathwaysJobs, and thing lacks their labels`},
		"without labels": {nil,
			`the operator may change and delete only pods and Jobs of PathwaysJobs, and thing lacks their labels`},
	}
	admin, operator := newClient(t, &recorder{}), newOperator(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "thing", Namespace: "default", Labels: tc.labels}, Spec: spec}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "thing", Namespace: "default", Labels: tc.labels},
				Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
			for _, o := range []client.Object{pod, job} {
				if err := admin.Create(context.Background(), o); err != nil {
					t.Fatal(err)
				}
				relabelled := o.DeepCopyObject().(client.Object)
				relabelled.SetLabels(labels(v1.WorkerReplicatedJob))
				if diff := cmp.Diff(tc.want, denied(operator.Update(context.Background(), relabelled))); diff != "" {
					t.Errorf("%T, update (-want +got):\n%s", o, diff)
				}
				if diff := cmp.Diff(tc.want, denied(operator.Delete(context.Background(), o.DeepCopyObject().(client.Object), client.DryRunAll))); diff != "" {
					t.Errorf("%T, delete (-want +got):\n%s", o, diff)
				}
				if err := admin.Delete(context.Background(), o, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestOperatorEvicts(t *testing.T) {
	tests := map[string]string{
		"job-pathways-head-0-0-abcde": "",
		"job-worker-1-12-x2z9k":       "",
		"web-7d4b9c-abcde":            "the operator may evict only pods of PathwaysJobs, and web-7d4b9c-abcde is not named like one",
		"job-worker-1-12-x2z9k-more":  "the operator may evict only pods of PathwaysJobs, and job-worker-1-12-x2z9k-more is not named like one",
	}
	admin, operator := newClient(t, &recorder{}), newOperator(t)
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
			if err := admin.Create(context.Background(), pod); err != nil {
				t.Fatal(err)
			}
			got := denied(operator.SubResource("eviction").Create(context.Background(), pod, &policyv1.Eviction{}))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("eviction (-want +got):\n%s", diff)
			}
		})
	}
}

// denied is the message of a policy that denied a request, the whole error if
// it is another one, and nothing if there is none.
func denied(err error) string {
	if err == nil {
		return ""
	}
	_, message, found := strings.Cut(err.Error(), " denied request: ")
	if !found {
		return err.Error()
	}
	return message
}
