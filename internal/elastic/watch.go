package elastic

import (
	"context"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// How long events wait for others of the same job, so that a burst costs one
// reconcile.
const (
	soon = 50 * time.Millisecond
	// later is for what is only shown, such as where pods were bound.
	later = 2 * time.Second
)

type (
	queue   = workqueue.TypedRateLimitingInterface[reconcile.Request]
	urgency = time.Duration
)

// never is the urgency of a change that does not matter.
const never urgency = -1

// watcher turns events into requests.
type watcher struct {
	cache client.Reader
	pools *poolView
	// killed is told of the ends of workers.
	killed *killedWorkers
	// forget is told the UIDs of PathwaysJobs that are gone.
	forget func(types.UID)
}

// handle makes an event handler: matters says how soon a change of an object
// must be looked at (old or new is nil for one that came or went), requests
// whom it concerns.
func handle[T client.Object](matters func(old, new T) urgency, enqueue func(context.Context, T, urgency, queue)) handler.EventHandler {
	var none T
	on := func(ctx context.Context, old, new T, o client.Object, q queue) {
		if u := matters(old, new); u != never {
			enqueue(ctx, o.(T), u, q)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			on(ctx, none, e.Object.(T), e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			on(ctx, e.ObjectOld.(T), e.ObjectNew.(T), e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			on(ctx, e.Object.(T), none, e.Object, q)
		},
	}
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// jobMatters: all but the status that this controller wrote itself.
func (w *watcher) jobMatters(old, new *v1.PathwaysJob) urgency {
	switch {
	case new == nil:
		w.forget(old.UID)
		return 0
	case old == nil,
		old.Generation != new.Generation,
		!maps.Equal(old.Annotations, new.Annotations),
		old.DeletionTimestamp.IsZero() != new.DeletionTimestamp.IsZero(),
		begun(old) != begun(new), finished(old) != finished(new), suspended(old) != suspended(new), obstructed(old) != obstructed(new), everRunning(old) != everRunning(new):
		return 0
	}
	return never
}

func (w *watcher) enqueueJob(_ context.Context, o *v1.PathwaysJob, _ urgency, q queue) {
	q.Add(request(o.Namespace, o.Name))
}

func jobSetMatters(old, new *jobsetv1alpha2.JobSet) urgency {
	switch {
	case old == nil, new == nil,
		old.Generation != new.Generation,
		old.DeletionTimestamp.IsZero() != new.DeletionTimestamp.IsZero(),
		old.Status.Restarts != new.Status.Restarts,
		jobSetFacts(old) != jobSetFacts(new):
		return soon
	}
	return never
}

func enqueueNamesake[T client.Object](_ context.Context, o T, u urgency, q queue) {
	q.AddAfter(request(o.GetNamespace(), o.GetName()), u)
}

func childMatters(old, new *batchv1.Job) urgency {
	if old == nil || new == nil {
		return soon
	}
	if old.Labels[replicatedJobLabel] == v1.HeadReplicatedJob && headJobEnded(old) != headJobEnded(new) || *childFacts(old) != *childFacts(new) {
		return soon
	}
	return never
}

// enqueueOwner asks for the PathwaysJob whose JobSet the object belongs to:
// both have one name.
func enqueueOwner[T client.Object](_ context.Context, o T, u urgency, q queue) {
	if name := o.GetLabels()[jobsetNameLabel]; name != "" {
		q.AddAfter(request(o.GetNamespace(), name), u)
	}
}

// podMatters: a pod that turned ready or unready, failed, restarted, is
// terminating, got a DisruptionTarget, cannot be scheduled, or was bound. One
// that turned ready completes its slice or is only one of many.
func (w *watcher) podMatters(old, new *corev1.Pod) urgency {
	if new == nil {
		w.killed.see(old)
		w.pools.invalidate()
		return soon
	}
	w.killed.see(new)
	if old == nil {
		if new.Spec.NodeName == "" {
			return never
		}
		w.pools.invalidate()
		return soon
	}
	if bound, ended := old.Spec.NodeName != new.Spec.NodeName, phase(old).Terminal() != phase(new).Terminal(); bound || ended {
		w.pools.invalidate()
	}
	was, is := podFacts(old), podFacts(new)
	if !was.Ready && is.Ready && w.completes(new) {
		return soon
	}
	was.Ready, is.Ready = was.Ready && !is.Ready, false
	if !was.Phase.Terminal() && !is.Phase.Terminal() {
		was.Phase = is.Phase
	}
	head := new.Labels[replicatedJobLabel] == v1.HeadReplicatedJob
	switch {
	case was != is, head && headFacts(old, nil, nil, "") != headFacts(new, nil, nil, ""):
		return soon
	case podReady(old) != podReady(new), old.Spec.NodeName != new.Spec.NodeName:
		return later
	case head && !equality.Semantic.DeepEqual(old.Status.ContainerStatuses, new.Status.ContainerStatuses),
		head && !equality.Semantic.DeepEqual(old.Status.InitContainerStatuses, new.Status.InitContainerStatuses):
		return soon
	}
	return never
}

// completes says whether all pods of this one's slice are ready now.
func (w *watcher) completes(p *corev1.Pod) bool {
	var pods corev1.PodList
	err := w.cache.List(context.Background(), &pods, client.InNamespace(p.Namespace),
		client.MatchingFields{indexPodSlice: sliceKey(p)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return true
	}
	return !slices.ContainsFunc(pods.Items, func(other corev1.Pod) bool {
		return other.UID != p.UID && !podReady(&other)
	})
}

// nodeMatters: all that nodeFacts tells, and the labels by which pools are
// known.
func (w *watcher) nodeMatters(old, new *corev1.Node) urgency {
	if old != nil && new != nil && *nodeFacts(old) == *nodeFacts(new) && !otherTaints(old, new) && sameShape(old, new) {
		return never
	}
	w.pools.invalidate()
	return soon
}

func otherTaints(a, b *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}

func sameShape(a, b *corev1.Node) bool {
	for _, label := range []string{tpu.LabelAccelerator, tpu.LabelTopology, tpu.LabelAcceleratorCount} {
		if a.Labels[label] != b.Labels[label] {
			return false
		}
	}
	return true
}

// enqueueOfNode asks for the jobs with pods on the node, and for those that
// may wait for it.
func (w *watcher) enqueueOfNode(ctx context.Context, n *corev1.Node, u urgency, q queue) {
	pods, err := podsOnNode(ctx, w.cache, n.Name)
	if err != nil {
		log.FromContext(ctx).Error(err, "Finding the jobs on a node")
	}
	for i := range pods {
		enqueueOwner(ctx, &pods[i], u, q)
	}
	if n.Labels[tpu.LabelAccelerator] == "" {
		return
	}
	var down v1.PathwaysJobList
	if err := w.cache.List(ctx, &down, client.MatchingFields{indexJobDown: anyDown}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Finding the jobs that wait for a node")
	}
	for i := range down.Items {
		q.AddAfter(request(down.Items[i].Namespace, down.Items[i].Name), u)
	}
}

// fenceNodeMatters: only pools that are fenced have anything to look at.
func fenceNodeMatters(old, new *corev1.Node) urgency {
	if old != nil && new != nil && *nodeFacts(old) == *nodeFacts(new) {
		return never
	}
	return soon
}

func enqueuePool(_ context.Context, n *corev1.Node, u urgency, q queue) {
	if pool := n.Labels[tpu.LabelNodePool]; pool != "" {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: pool}}, u)
	}
}

// fencePodMatters: a fence waits for pods to be gone.
func fencePodMatters(old, new *corev1.Pod) urgency {
	if new == nil || old != nil && phase(old).Terminal() != phase(new).Terminal() {
		return soon
	}
	return never
}

func (w *watcher) enqueuePoolOfPod(ctx context.Context, p *corev1.Pod, u urgency, q queue) {
	if p.Spec.NodeName == "" {
		return
	}
	var n corev1.Node
	if err := w.cache.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, &n, client.UnsafeDisableDeepCopy); err != nil {
		return // the event of the node that went does it
	}
	if fenceOf(&n) != nil {
		enqueuePool(ctx, &n, u, q)
	}
}

// fenceJobMatters: a job that ends, or whose slices' fences change.
func fenceJobMatters(old, new *v1.PathwaysJob) urgency {
	switch {
	case old == nil:
		return never
	case new == nil, finished(old) != finished(new), suspended(old) != suspended(new),
		old.DeletionTimestamp.IsZero() != new.DeletionTimestamp.IsZero(),
		!equality.Semantic.DeepEqual(leavings(old), leavings(new)):
		return soon
	}
	return never
}

// leavings is what a fence's standing depends on in each slice's status.
func leavings(job *v1.PathwaysJob) []v1.SliceStatus {
	var out []v1.SliceStatus
	for _, s := range job.Status.Slices {
		if s.Fence != nil {
			out = append(out, v1.SliceStatus{Index: s.Index, Fence: s.Fence, Reason: s.Reason, LeavingJobUID: s.LeavingJobUID})
		}
	}
	return out
}

func (w *watcher) enqueuePoolsOfJob(ctx context.Context, job *v1.PathwaysJob, u urgency, q queue) {
	var nodes corev1.NodeList
	if err := w.cache.List(ctx, &nodes, client.MatchingFields{indexNodeFence: string(job.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Finding the pools that a job has fenced")
		return
	}
	for i := range nodes.Items {
		enqueuePool(ctx, &nodes.Items[i], u, q)
	}
}

func sliceKey(o client.Object) string {
	l := o.GetLabels()
	if l[replicatedJobLabel] != v1.WorkerReplicatedJob {
		return ""
	}
	return l[jobsetNameLabel] + "/" + l[jobIndexLabel]
}
