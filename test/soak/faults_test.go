//go:build soak

package soak

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

// victim is a slice at the time of a fault.
type victim struct {
	slice       int
	pool        string
	incarnation types.UID
	pods        []corev1.Pod
}

// fault is a way to harm a slice, and to repair the hardware afterwards.
type fault struct {
	name   string
	strike func(context.Context, *env, *victim) error
	repair func(context.Context, *env, *victim) error
	// charged and replaced say what it does to the slice.
	charged, replaced int32
}

// disruptions are never charged, crashes are. They strike different slices,
// since a disruption takes back what a slice was charged in the 90 s before.
var (
	disruptions = []fault{
		{
			name: "a host falls silent", replaced: 1,
			strike: func(ctx context.Context, e *env, v *victim) error { return e.KillHost(ctx, v.pods[1].Spec.NodeName) },
			repair: func(ctx context.Context, e *env, v *victim) error { return e.ReviveHost(ctx, v.pods[1].Spec.NodeName) },
		},
		{
			name: "its pool is deleted", replaced: 1,
			strike: func(ctx context.Context, e *env, v *victim) error { return e.DeletePool(ctx, v.pool) },
			repair: func(ctx context.Context, e *env, v *victim) error {
				_, err := e.CreatePool(ctx, cluster.TPUPool(v.pool, machine, shape))
				return err
			},
		},
		{
			name: "a host is to be terminated", replaced: 1,
			strike: func(ctx context.Context, e *env, v *victim) error { return e.Notice(ctx, v.pods[0].Spec.NodeName) },
			repair: func(ctx context.Context, e *env, v *victim) error {
				return e.Untaint(ctx, v.pods[0].Spec.NodeName, cluster.TaintImpendingTermination.Key)
			},
		},
		{
			name: "a pod is deleted", replaced: 1,
			strike: func(ctx context.Context, e *env, v *victim) error { return e.Client.Delete(ctx, &v.pods[1]) },
		},
		{
			name: "all pods are deleted", replaced: 1,
			strike: func(ctx context.Context, e *env, v *victim) error {
				for i := range v.pods {
					if err := e.Client.Delete(ctx, &v.pods[i]); client.IgnoreNotFound(err) != nil {
						return err
					}
				}
				return nil
			},
		},
	}
	crashes = []fault{
		{name: "a worker exits with 1", charged: 1, strike: exit(1)},
		{name: "a worker exits with 0", charged: 1, replaced: 1, strike: exit(0)},
	}
)

func exit(code int) func(context.Context, *env, *victim) error {
	return func(ctx context.Context, e *env, v *victim) error {
		return e.ExitContainer(ctx, client.ObjectKeyFromObject(&v.pods[1]), cluster.Exit{Code: code})
	}
}

// suffer strikes a slice, waits until it is well again, repairs the hardware,
// and waits until nothing of it all is left.
func (f *fault) suffer(t *testing.T, e *env, slice int) {
	t.Helper()
	ctx := t.Context()
	v := &victim{slice: slice}
	child, err := e.childJob(ctx, slice)
	if err != nil {
		t.Fatal(err)
	}
	v.incarnation = child.UID
	if v.pods, err = e.pods(ctx, v1.WorkerReplicatedJob, slice); err != nil || len(v.pods) != 2 {
		t.Fatalf("%d pods of slice %d: %v", len(v.pods), slice, err)
	}
	node := &corev1.Node{}
	if err := e.Client.Get(ctx, client.ObjectKey{Name: v.pods[0].Spec.NodeName}, node); err != nil {
		t.Fatal(err)
	}
	v.pool = node.Labels["cloud.google.com/gke-nodepool"]
	before := restarts(&v.pods[1])
	if err := f.strike(ctx, e, v); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func(ctx context.Context) string {
		return f.unfelt(ctx, e, v, before) + e.unwell(ctx)
	})
	if f.repair != nil {
		if err := f.repair(ctx, e, v); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, patience, func(ctx context.Context) string { return e.leftovers(ctx) + e.unwell(ctx) })
}

// unfelt says that the fault has not had its effect yet, "" if it has.
func (f *fault) unfelt(ctx context.Context, e *env, v *victim, before int32) string {
	if f.replaced > 0 {
		child, err := e.childJob(ctx, v.slice)
		switch {
		case err != nil:
			return err.Error()
		case child.UID == v.incarnation:
			return fmt.Sprintf("slice %d has not been replaced; ", v.slice)
		}
		return ""
	}
	pod := &corev1.Pod{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(&v.pods[1]), pod); err != nil {
		return err.Error()
	}
	if restarts(pod) <= before {
		return fmt.Sprintf("worker %s has not been restarted; ", pod.Name)
	}
	return ""
}
