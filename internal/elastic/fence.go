package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/statuspatch"
)

// FenceReconciler lifts fences. Its requests are names of slice pools; the
// taint on the pool's nodes is the only state.
type FenceReconciler struct {
	client client.Client
	clock  clock.PassiveClock
	policy plan.Policy
}

// Reconcile lifts the fence of one pool once it has no more reason.
func (r *FenceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	nodes, err := nodesOfPool(ctx, r.client, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	uid := fenceOwner(nodes)
	if uid == "" {
		return ctrl.Result{}, nil
	}
	pool, pods, err := r.pool(ctx, req.Name, nodes)
	if err != nil {
		return ctrl.Result{}, err
	}
	owner, err := r.owner(ctx, uid, pods)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.clock.Now()
	lift, why, again := plan.Lift(pool, owner, r.policy, now)
	if !lift {
		return ctrl.Result{RequeueAfter: wake(again, now, 0)}, nil
	}
	log.FromContext(ctx).Info("Lifting the fence of a slice pool", "pool", req.Name, "why", why)
	var errs []error
	for i := range nodes {
		errs = append(errs, removeFence(ctx, r.client, &nodes[i]))
	}
	if err := errors.Join(errs...); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: statuspatch.ReadAgain}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

// pool is the slice pool as the planner sees it, with the pods on its nodes.
func (r *FenceReconciler) pool(ctx context.Context, name string, nodes []corev1.Node) (*plan.Pool, []corev1.Pod, error) {
	pool := &plan.Pool{Name: name}
	var pods []corev1.Pod
	for i := range nodes {
		facts := nodeFacts(&nodes[i])
		on, err := podsOnNode(ctx, r.client, nodes[i].Name)
		if err != nil {
			return nil, nil, err
		}
		for j := range on {
			countPod(facts, &on[j])
		}
		pods = append(pods, on...)
		pool.Want = max(pool.Want, int32(poolSize(&nodes[i])))
		pool.Nodes = append(pool.Nodes, facts)
	}
	return pool, pods, nil
}

// owner is the PathwaysJob with that UID, and what it has on the pool.
func (r *FenceReconciler) owner(ctx context.Context, uid types.UID, pods []corev1.Pod) (plan.FenceOwner, error) {
	job, err := jobByUID(ctx, r.client, uid)
	if err != nil || job == nil {
		return plan.FenceOwner{}, err
	}
	owner := plan.FenceOwner{
		Active: ours(job) && job.DeletionTimestamp.IsZero() && !finished(job) && !suspended(job),
		Slices: job.Status.Slices,
	}
	for i := range pods {
		p := &pods[i]
		if p.Namespace == job.Namespace && p.Labels[jobsetNameLabel] == job.Name && !p.DeletionTimestamp.IsZero() {
			owner.Terminating = true
		}
	}
	return owner, nil
}

// fenceOwner returns the UID that the nodes' fence names; "" without a fence.
func fenceOwner(nodes []corev1.Node) types.UID {
	for i := range nodes {
		if t := fenceOf(&nodes[i]); t != nil {
			return types.UID(t.Value)
		}
	}
	return ""
}

// addFence puts the fence on a node for the job with that UID. A node that is
// fenced already, for whomever, stays as it is. One that is being deleted is
// fenced too: the scheduler goes on choosing it.
func addFence(ctx context.Context, c client.Client, n *corev1.Node, owner types.UID, now time.Time) error {
	if fenceOf(n) != nil {
		return nil
	}
	added := metav1.NewTime(now)
	taints := append(append([]corev1.Taint(nil), n.Spec.Taints...), corev1.Taint{
		Key: v1.TaintSliceDegraded, Value: string(owner), Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added,
	})
	return writeTaints(ctx, c, n, taints, "fencing")
}

// removeFence takes our taint off the node.
func removeFence(ctx context.Context, c client.Client, n *corev1.Node) error {
	if fenceOf(n) == nil {
		return nil
	}
	taints := make([]corev1.Taint, 0, len(n.Spec.Taints))
	for _, t := range n.Spec.Taints {
		if t.Key != v1.TaintSliceDegraded {
			taints = append(taints, t)
		}
	}
	return writeTaints(ctx, c, n, taints, "lifting the fence of")
}

// writeTaints replaces the node's list of taints, if the node has not changed
// since it was read. A node that is gone needs no taint.
func writeTaints(ctx context.Context, c client.Client, n *corev1.Node, taints []corev1.Taint, doing string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "uid": n.UID},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return fmt.Errorf("%s node %s: %w", doing, n.Name, err)
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	err = c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1.FieldManagerElastic))
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("%s node %s: %w", doing, n.Name, err)
	}
	return nil
}

// jobByUID finds a PathwaysJob by its UID; nil when there is none.
func jobByUID(ctx context.Context, c client.Reader, uid types.UID) (*v1.PathwaysJob, error) {
	var list v1.PathwaysJobList
	if err := c.List(ctx, &list, client.MatchingFields{indexJobUID: string(uid)}); err != nil {
		return nil, fmt.Errorf("looking up the PathwaysJob %s: %w", uid, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// nodesOfPool lists the nodes of a slice pool.
func nodesOfPool(ctx context.Context, c client.Reader, pool string) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := c.List(ctx, &list, client.MatchingFields{indexNodePool: pool}); err != nil {
		return nil, fmt.Errorf("listing the nodes of pool %s: %w", pool, err)
	}
	return list.Items, nil
}

// podsOnNode lists the cached pods of a node.
func podsOnNode(ctx context.Context, c client.Reader, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.MatchingFields{indexPodNode: node}); err != nil {
		return nil, fmt.Errorf("listing the pods on node %s: %w", node, err)
	}
	return list.Items, nil
}
