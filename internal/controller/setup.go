package controller

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// SetupWithManager registers the controller, with that many workers. The
// manager's cache must have CacheOptions.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.indexed = true
	err := ctrl.NewControllerManagedBy(mgr).
		Named("pathwaysjob").
		For(&v1.PathwaysJob{}, builder.WithPredicates(r.jobChanged())).
		Watches(&jobsetv1alpha2.JobSet{}, handler.EnqueueRequestsFromMapFunc(byName), builder.WithPredicates(changed(jobSetFacts, true))).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(byJobSetLabel), builder.WithPredicates(changed(childJobFacts, false))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byJobSetLabel), builder.WithPredicates(changed(podFacts, false))).
		WithOptions(ctrlcontroller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of PathwaysJobs: %w", err)
	}
	return nil
}

// A JobSet has the name of its PathwaysJob, and a foreign one of that name
// matters too.
func byName(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

func byJobSetLabel(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[jobsetv1alpha2.JobSetNameKey]}}}
}

// jobChanged lets through what a user changes, not what we write. It also
// notes jobs that come, and forgets those that are gone.
func (r *Reconciler) jobChanged() predicate.Predicate {
	return predicate.And(
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}),
		predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool {
				if !e.IsInInitialList {
					r.queued.add(client.ObjectKeyFromObject(e.Object))
				}
				return true
			},
			DeleteFunc: func(e event.DeleteEvent) bool {
				r.queued.drop(client.ObjectKeyFromObject(e.Object))
				r.status.Forget(e.Object.GetUID())
				r.heads.forget(e.Object.GetUID())
				return false
			},
		},
	)
}

// changed lets an update through only if the facts that the controller looks
// at differ. Objects that come or go and say nothing (zero facts) are kept out
// too, unless always is set.
func changed[F comparable](facts func(client.Object) F, always bool) predicate.Predicate {
	var nothing F
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return always || facts(e.Object) != nothing },
		UpdateFunc:  func(e event.UpdateEvent) bool { return facts(e.ObjectOld) != facts(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return always || facts(e.Object) != nothing },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

type jobSetFact struct {
	completed, failed, suspended, deleting bool
	restarts, charged                      int32
}

func jobSetFacts(o client.Object) jobSetFact {
	jobSet, ok := o.(*jobsetv1alpha2.JobSet)
	if !ok {
		return jobSetFact{}
	}
	return jobSetFact{
		completed: meta.IsStatusConditionTrue(jobSet.Status.Conditions, string(jobsetv1alpha2.JobSetCompleted)),
		failed:    meta.IsStatusConditionTrue(jobSet.Status.Conditions, string(jobsetv1alpha2.JobSetFailed)),
		suspended: ptr.Deref(jobSet.Spec.Suspend, false),
		deleting:  !jobSet.DeletionTimestamp.IsZero(),
		restarts:  jobSet.Status.Restarts,
		charged:   jobSet.Status.RestartsCountTowardsMax,
	}
}

type childJobFact struct{ ready, failed, deleting, stopped bool }

func childJobFacts(o client.Object) childJobFact {
	job, ok := o.(*batchv1.Job)
	if !ok {
		return childJobFact{}
	}
	return childJobFact{
		ready: isWorker(job.Labels) && sliceReady(job), failed: jobFailed(job) != nil, deleting: !job.DeletionTimestamp.IsZero(),
		stopped: ptr.Deref(job.Spec.Suspend, false) && job.Status.Active == 0,
	}
}

type podFact struct {
	phase                     corev1.PodPhase
	node, obstacle, disrupted string
	ready, started, deleting  bool
}

// podFacts of a worker are its obstacle only: its slice's Job tells the rest.
func podFacts(o client.Object) podFact {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return podFact{}
	}
	f := podFact{obstacle: obstacleFact(pod)}
	if !isHead(pod.Labels) {
		return f
	}
	f.phase, f.node, f.disrupted = pod.Status.Phase, pod.Spec.NodeName, disrupted(pod, "")
	f.ready, f.started, f.deleting = podReady(pod), allStarted(pod), !pod.DeletionTimestamp.IsZero()
	return f
}

func obstacleFact(pod *corev1.Pod) string {
	if rejected(pod) {
		return pod.Status.Reason
	}
	if unschedulable(pod) != "" {
		return "Unschedulable"
	}
	if name, waiting, _ := troubled(pod); waiting != nil {
		return name + waiting.Reason
	}
	return ""
}
