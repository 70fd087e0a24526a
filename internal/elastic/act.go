package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"golang.org/x/sync/errgroup"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
)

// maxParallel bounds the requests that one job's actions have under way.
const maxParallel = 16

// Reasons of the DisruptionTarget condition that a head's pod gets from us.
const (
	disruptionHostLost = "HostLost"   // its host is lost
	disruptionDeleted  = "PodDeleted" // someone deleted it
)

// actor carries out what the planner decided. Every action may be repeated:
// it finds what it does already done, or the object that it was about gone.
type actor struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

// act carries out the actions. Those of one slice run in their order, and the
// rest of a slice's wait for the next time when one fails; slices run side by
// side. An action of the job as a whole waits for all before it.
func (a *actor) act(ctx context.Context, job *v1.PathwaysJob, actions []plan.Action) error {
	for len(actions) > 0 {
		n := slices.IndexFunc(actions, func(x plan.Action) bool { return x.Slice == plan.JobLevel })
		switch n {
		case 0:
			if err := a.do(ctx, job, actions[0]); err != nil {
				return err
			}
			actions = actions[1:]
		case -1:
			return a.bySlice(ctx, job, actions)
		default:
			if err := a.bySlice(ctx, job, actions[:n]); err != nil {
				return err
			}
			actions = actions[n:]
		}
	}
	return nil
}

func (a *actor) bySlice(ctx context.Context, job *v1.PathwaysJob, actions []plan.Action) error {
	var order []int32
	perSlice := map[int32][]plan.Action{}
	for _, x := range actions {
		if _, ok := perSlice[x.Slice]; !ok {
			order = append(order, x.Slice)
		}
		perSlice[x.Slice] = append(perSlice[x.Slice], x)
	}
	errs := make([]error, len(order))
	var g errgroup.Group
	g.SetLimit(maxParallel)
	for i, slice := range order {
		g.Go(func() error {
			errs[i] = a.inOrder(ctx, job, perSlice[slice])
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// inOrder runs one slice's actions; neighbours of one kind side by side.
func (a *actor) inOrder(ctx context.Context, job *v1.PathwaysJob, actions []plan.Action) error {
	for len(actions) > 0 {
		n := 1
		for n < len(actions) && actions[n].Kind == actions[0].Kind {
			n++
		}
		errs := make([]error, n)
		var g errgroup.Group
		g.SetLimit(maxParallel)
		for i, x := range actions[:n] {
			g.Go(func() error {
				errs[i] = a.do(ctx, job, x)
				return nil
			})
		}
		_ = g.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		actions = actions[n:]
	}
	return nil
}

// do carries out one action.
func (a *actor) do(ctx context.Context, job *v1.PathwaysJob, x plan.Action) error {
	log.FromContext(ctx).Info("Acting", "action", x.Kind, "slice", x.Slice, "reason", x.Reason, "object", x.Object, "pool", x.Pool)
	var err error
	switch x.Kind {
	case plan.FencePool:
		err = a.fencePool(ctx, job, x)
	case plan.DeleteChildJob:
		err = a.deleteChildJob(ctx, job, x)
	case plan.ReleaseHold:
		err = releaseHold(ctx, a.client, a.live, client.ObjectKey{Namespace: job.Namespace, Name: x.Object}, x.UID)
	case plan.ShortenGrace:
		err = a.deletePod(ctx, job, x, x.GraceSeconds)
	case plan.ForceDeletePod:
		err = a.deletePod(ctx, job, x, 0)
	case plan.DeleteFailedLeaderPod, plan.DeleteOrphanPod:
		err = a.delete(ctx, &corev1.Pod{ObjectMeta: objectMeta(job, x)}, x)
	case plan.HoldLost:
		err = a.patchJob(ctx, job, x, map[string]any{"parallelism": 0})
	case plan.ReleaseLost:
		err = a.patchJob(ctx, job, x, map[string]any{"parallelism": x.Parallelism})
	case plan.FailChildJob:
		err = a.unlessEnding(ctx, job, func() error {
			return a.patchJob(ctx, job, x, map[string]any{"activeDeadlineSeconds": 1})
		})
	case plan.EvictHead:
		err = a.unlessEnding(ctx, job, func() error { return a.evict(ctx, job, x) })
	case plan.RecreateJobSet:
		err = a.recreate(ctx, job, x)
	case plan.MarkHeadPodFailed:
		err = a.markDisrupted(ctx, job, x, disruptionHostLost, corev1.PodFailed)
	case plan.MarkHeadDisrupted:
		err = a.excuseHead(ctx, job, x)
	case plan.ClearReplaceSlice:
		err = a.clearReplaceSlice(ctx, job)
	default:
		return fmt.Errorf("unknown action %q", x.Kind)
	}
	if err != nil {
		return fmt.Errorf("%s %s%s: %w", x.Kind, x.Object, x.Pool, err)
	}
	return nil
}

func objectMeta(job *v1.PathwaysJob, x plan.Action) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: job.Namespace, Name: x.Object, UID: x.UID}
}

// fencePool puts our taint on the nodes of the pool.
func (a *actor) fencePool(ctx context.Context, job *v1.PathwaysJob, x plan.Action) error {
	nodes, err := nodesOfPool(ctx, a.client, x.Pool)
	if err != nil {
		return err
	}
	errs := make([]error, len(nodes))
	var g errgroup.Group
	g.SetLimit(maxParallel)
	for i := range nodes {
		g.Go(func() error {
			errs[i] = a.fenceNode(ctx, &nodes[i], job.UID)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// fenceNode fences a node as the cache has it; if that is out of date, as a
// live read has it.
func (a *actor) fenceNode(ctx context.Context, n *corev1.Node, owner types.UID) error {
	err := addFence(ctx, a.client, n, owner, a.clock.Now())
	if !apierrors.IsConflict(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var fresh corev1.Node
		if err := a.live.Get(ctx, client.ObjectKeyFromObject(n), &fresh); err != nil {
			return client.IgnoreNotFound(err)
		}
		return addFence(ctx, a.client, &fresh, owner, a.clock.Now())
	})
}

// deleteChildJob deletes a child Job in foreground: it stays until its last
// pod is gone, and with Hold until our finalizer is taken off.
func (a *actor) deleteChildJob(ctx context.Context, job *v1.PathwaysJob, x plan.Action) error {
	if x.Hold {
		key := client.ObjectKey{Namespace: job.Namespace, Name: x.Object}
		if err := a.addHold(ctx, key, x.UID); err != nil {
			return err
		}
	}
	return a.delete(ctx, &batchv1.Job{ObjectMeta: objectMeta(job, x)}, x,
		client.PropagationPolicy(metav1.DeletePropagationForeground))
}

// addHold puts our finalizer on a child Job. One that is being deleted takes
// no new finalizer, and one that is gone needs none.
func (a *actor) addHold(ctx context.Context, key client.ObjectKey, uid types.UID) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var j batchv1.Job
		if err := a.live.Get(ctx, key, &j); err != nil {
			return client.IgnoreNotFound(err)
		}
		if j.UID != uid || !j.DeletionTimestamp.IsZero() || slices.Contains(j.Finalizers, v1.FinalizerHold) {
			return nil
		}
		return writeFinalizers(ctx, a.client, &j, append(j.Finalizers, v1.FinalizerHold))
	})
}

// releaseHold takes our finalizer off the child Job with that UID (any UID if
// it is empty).
func releaseHold(ctx context.Context, c client.Client, live client.Reader, key client.ObjectKey, uid types.UID) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var j batchv1.Job
		if err := live.Get(ctx, key, &j); err != nil {
			return client.IgnoreNotFound(err)
		}
		i := slices.Index(j.Finalizers, v1.FinalizerHold)
		if uid != "" && j.UID != uid || i < 0 {
			return nil
		}
		return writeFinalizers(ctx, c, &j, slices.Delete(j.Finalizers, i, i+1))
	})
}

func writeFinalizers(ctx context.Context, c client.Client, j *batchv1.Job, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": j.ResourceVersion, "uid": j.UID, "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name}}
	err = c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1.FieldManagerElastic))
	return client.IgnoreNotFound(err)
}

// patchJob changes the spec of the child Job with the action's UID.
func (a *actor) patchJob(ctx context.Context, job *v1.PathwaysJob, x plan.Action, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": x.UID}, "spec": spec})
	if err != nil {
		return err
	}
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: x.Object}}
	return ignoreGone(a.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1.FieldManagerElastic)))
}

func (a *actor) deletePod(ctx context.Context, job *v1.PathwaysJob, x plan.Action, grace int64) error {
	return a.delete(ctx, &corev1.Pod{ObjectMeta: objectMeta(job, x)}, x, client.GracePeriodSeconds(grace))
}

// delete deletes the object if it still has the action's UID.
func (a *actor) delete(ctx context.Context, o client.Object, x plan.Action, opts ...client.DeleteOption) error {
	opts = append(opts, client.Preconditions{UID: ptr.To(x.UID)})
	return ignoreGone(a.client.Delete(ctx, o, opts...))
}

// recreate deletes the JobSet; the job's controller creates it again. Where a
// disruption of the head is the reason, the head is ending, but not the job.
func (a *actor) recreate(ctx context.Context, job *v1.PathwaysJob, x plan.Action) error {
	x.Object = job.Name
	del := func() error {
		return a.delete(ctx, &jobsetv1alpha2.JobSet{ObjectMeta: objectMeta(job, x)}, x,
			client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	if x.Reason == v1.ReasonHeadDisrupted {
		return del()
	}
	return a.unlessEnding(ctx, job, del)
}

// evict asks for the eviction of the head's pod.
func (a *actor) evict(ctx context.Context, job *v1.PathwaysJob, x plan.Action) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: x.Object}}
	eviction := &policyv1.Eviction{
		ObjectMeta:    pod.ObjectMeta,
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(x.UID)}},
	}
	return ignoreGone(a.client.SubResource("eviction").Create(ctx, pod, eviction))
}

// excuseHead marks the head's pod as disrupted, unless a live read says that
// its Job stops it.
func (a *actor) excuseHead(ctx context.Context, job *v1.PathwaysJob, x plan.Action) error {
	jobs, err := a.headJobs(ctx, job)
	if err != nil {
		return err
	}
	for i := range jobs {
		if headJobEnded(&jobs[i]) || ptr.Deref(jobs[i].Spec.Suspend, false) {
			return nil
		}
	}
	return a.markDisrupted(ctx, job, x, disruptionDeleted, "")
}

// markDisrupted puts a DisruptionTarget condition on a pod, so that the pod
// failure policy sees a disruption. With a phase it ends the pod, as the
// garbage collector of pods does.
func (a *actor) markDisrupted(ctx context.Context, job *v1.PathwaysJob, x plan.Action, reason string, phase corev1.PodPhase) error {
	status := map[string]any{
		"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason,
			Message: x.Message, LastTransitionTime: metav1.NewTime(a.clock.Now()),
		}},
	}
	if phase != "" {
		status["phase"] = phase
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": x.UID}, "status": status})
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: x.Object}}
	return ignoreGone(a.client.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(v1.FieldManagerElastic)))
}

// clearReplaceSlice takes the annotation off, unless it has changed since.
func (a *actor) clearReplaceSlice(ctx context.Context, job *v1.PathwaysJob) error {
	value, ok := job.Annotations[v1.AnnotationReplaceSlice]
	if !ok {
		return nil
	}
	path := "/metadata/annotations/" + jsonPointer(v1.AnnotationReplaceSlice)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": path, "value": value},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	target := &v1.PathwaysJob{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	err = a.client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(v1.FieldManagerElastic))
	if apierrors.IsInvalid(err) {
		return nil // it is gone, or a newer request: the next reconcile sees it
	}
	return client.IgnoreNotFound(err)
}

// ignoreGone drops the errors that say that the object with the wanted UID is
// not there any more: what is done to it needs no doing.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || uidChanged(err) {
		return nil
	}
	return err
}

// uidChanged says whether a patch was refused for its UID alone.
func uidChanged(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}
