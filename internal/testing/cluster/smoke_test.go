//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// TestSmoke boots a cluster and shows what tests rely on: JobSet places a slice, pods do what their annotations
// say, a dead host is Unknown, and a ServiceAccount's token has that account's rights only.
func TestSmoke(t *testing.T) {
	ctx := t.Context()
	c, err := FromEnv(ctx, Options{Dir: filepath.Join(t.TempDir(), "c"), NodeMonitorGracePeriod: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("ending the cluster: %v", err)
		}
	})
	// A zone with few nodes that are mostly down sees no evictions: CPU nodes keep it healthy.
	mustCreate(t, c, CPUPool("smoke-cpu", 3))
	hosts := mustCreate(t, c, TPUPool("smoke-v5p", "ct5p-hightpu-4t", "2x2x2"))

	t.Run("a job runs and completes", func(t *testing.T) {
		key := client.ObjectKey{Namespace: "default", Name: "completes"}
		js := jobSet(key.Name, map[string]string{ExitAfter: "2s"}, batchv1.IndexedCompletion)
		create(t, c, js)
		eventually(t, "two Ready pods in one pool", time.Minute, func() (bool, string) {
			pods := podsOf(t, c, key.Name)
			ready, nodes := 0, map[string]bool{}
			for _, p := range pods {
				if podReady(&p) {
					ready++
					nodes[p.Spec.NodeName] = true
				}
			}
			return ready == 2 && nodes[hosts[0]] && nodes[hosts[1]], fmt.Sprintf("%d of %d Ready, on %v", ready, len(pods), nodes)
		})
		eventually(t, "the JobSet to complete", time.Minute, func() (bool, string) {
			got := &jobsetv1alpha2.JobSet{}
			if err := c.Client.Get(ctx, key, got); err != nil {
				return false, err.Error()
			}
			return got.Status.TerminalState == "Completed", fmt.Sprintf("%+v", got.Status)
		})
		remove(t, c, js)
	})

	t.Run("a worker is restarted in place, stopped gracefully, and freezes with its host", func(t *testing.T) {
		js := jobSet("faults", map[string]string{StopExitCode: "0", StopAfter: "500ms"}, batchv1.IndexedCompletion)
		create(t, c, js)
		worker := func(index string) *corev1.Pod {
			for _, p := range podsOf(t, c, js.Name) {
				if p.Labels[batchv1.JobCompletionIndexAnnotation] == index {
					return &p
				}
			}
			return &corev1.Pod{}
		}
		eventually(t, "both workers Ready", time.Minute, func() (bool, string) {
			a, b := worker("0"), worker("1")
			return podReady(a) && podReady(b), string(a.Status.Phase) + " and " + string(b.Status.Phase)
		})

		first := worker("0")
		if err := c.ExitContainer(ctx, client.ObjectKeyFromObject(first), Exit{Code: 7, Message: "boom"}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "one restart in place", 30*time.Second, func() (bool, string) {
			p := worker("0")
			if p.UID != first.UID {
				t.Fatal("the pod was replaced instead")
			}
			s := p.Status.ContainerStatuses[0]
			last := s.LastTerminationState.Terminated
			return podReady(p) && s.RestartCount == 1 && last != nil && last.ExitCode == 7 && last.Message == "boom", fmt.Sprintf("%+v", s)
		})

		if err := c.Client.Delete(ctx, worker("0")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the deleted pod to end", 30*time.Second, func() (bool, string) {
			p := &corev1.Pod{}
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(first), p)
			if apierrors.IsNotFound(err) || (err == nil && p.UID != first.UID) {
				return true, ""
			}
			return false, string(p.Status.Phase)
		})
		eventually(t, "the Job to count index 0 as completed", 30*time.Second, func() (bool, string) {
			job := &batchv1.Job{}
			if err := c.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: js.Name + "-worker-0"}, job); err != nil {
				return false, err.Error()
			}
			return job.Status.CompletedIndexes == "0", fmt.Sprintf("%+v", job.Status)
		})

		second := worker("1")
		if err := c.KillHost(ctx, second.Spec.NodeName); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitNodeReady(ctx, second.Spec.NodeName, corev1.ConditionUnknown, time.Minute); err != nil {
			t.Error(err)
		}
		if err := c.ReviveHost(ctx, second.Spec.NodeName); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitNodeReady(ctx, second.Spec.NodeName, corev1.ConditionTrue, time.Minute); err != nil {
			t.Error(err)
		}
		if err := c.SetNotReady(ctx, second.Spec.NodeName, "node is shutting down"); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitNodeReady(ctx, second.Spec.NodeName, corev1.ConditionFalse, time.Minute); err != nil {
			t.Error(err)
		}
		if err := c.SetReady(ctx, second.Spec.NodeName); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitNodeReady(ctx, second.Spec.NodeName, corev1.ConditionTrue, time.Minute); err != nil {
			t.Error(err)
		}
		remove(t, c, js)
	})

	t.Run("a token has its account's rights", func(t *testing.T) {
		account := metav1.ObjectMeta{Namespace: "default", Name: "reader"}
		create(t, c, &corev1.ServiceAccount{ObjectMeta: account})
		create(t, c, &rbacv1.RoleBinding{
			ObjectMeta: account,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "reader"}},
		})
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := c.ServiceAccountKubeconfig(ctx, "default", "reader", file); err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Fatal(err)
		}
		reader, err := client.New(config, client.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "reading pods to be allowed", 30*time.Second, func() (bool, string) {
			err := reader.List(ctx, &corev1.PodList{}, client.InNamespace("default"))
			return err == nil, fmt.Sprint(err)
		})
		if err := reader.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing secrets: error %v, want Forbidden", err)
		}
	})
}

func mustCreate(t *testing.T, c *Cluster, p Pool) []string {
	t.Helper()
	names, err := c.CreatePool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.DeletePool(context.Background(), p.Name); err != nil {
			t.Error(err)
		}
	})
	return names
}

func create(t *testing.T, c *Cluster, o client.Object) {
	t.Helper()
	if err := c.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object and waits until it and its dependents are gone.
func remove(t *testing.T, c *Cluster, o client.Object) {
	t.Helper()
	if err := c.Client.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of "+o.GetName(), time.Minute, func() (bool, string) {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

func eventually(t *testing.T, what string, timeout time.Duration, ok func() (bool, string)) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, timeout, true, func(context.Context) (done bool, _ error) {
		done, last = ok()
		return done, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last seen: %s", what, err, last)
	}
}

func podsOf(t *testing.T, c *Cluster, jobSet string) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	err := c.Client.List(t.Context(), &list, client.InNamespace("default"), client.MatchingLabels{jobsetv1alpha2.JobSetNameKey: jobSet})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// jobSet is one slice of two TPU hosts.
func jobSet(name string, annotations map[string]string, mode batchv1.CompletionMode) *jobsetv1alpha2.JobSet {
	two, backoff, grace := int32(2), int32(100), int64(10)
	return &jobsetv1alpha2.JobSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "default",
			Name:        name,
			Annotations: map[string]string{jobsetv1alpha2.ExclusiveKey: "cloud.google.com/gke-nodepool"},
		},
		Spec: jobsetv1alpha2.JobSetSpec{ReplicatedJobs: []jobsetv1alpha2.ReplicatedJob{{
			Name: "worker",
			Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Parallelism:    &two,
				Completions:    &two,
				CompletionMode: &mode,
				BackoffLimit:   &backoff,
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
					Spec: corev1.PodSpec{
						RestartPolicy:                 corev1.RestartPolicyOnFailure,
						TerminationGracePeriodSeconds: &grace,
						NodeSelector:                  map[string]string{"cloud.google.com/gke-tpu-topology": "2x2x2"},
						Containers: []corev1.Container{{
							Name:  "worker",
							Image: "worker",
							Resources: corev1.ResourceRequirements{
								Limits: corev1.ResourceList{"google.com/tpu": resource.MustParse("4")},
							},
						}},
					},
				},
			}},
		}}},
	}
}
