package elastic

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/metrics"
	"pathways.domain/pathways-job/internal/statuspatch"
)

// Backoff after errors.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Options are the operator's flags that concern slices.
type Options struct {
	// Mode is Enforce, DryRun or Off; Enforce where it is empty.
	Mode plan.Mode
	// NotReadyGrace is how long a node may be Ready False before it counts as
	// failed.
	NotReadyGrace time.Duration
	// MaintenanceLeadTime is how long before an announced maintenance a slice
	// is moved; 0 never.
	MaintenanceLeadTime time.Duration
	// MaxUnhealthyPools is the percentage of slice pools beyond which repair
	// pauses.
	MaxUnhealthyPools int
	// FenceSlicePools allows taints on the nodes of broken pools.
	FenceSlicePools bool
	// Workers is how many PathwaysJobs are looked at side by side, at least 1.
	Workers int
	// Metrics counts what is done; nil for nothing.
	Metrics *metrics.Recorder
	// Journal is shared by all who write the status of PathwaysJobs.
	Journal *statuspatch.Journal
	// Clock is the real one where it is nil.
	Clock clock.PassiveClock
}

func (o Options) policy() plan.Policy {
	return plan.Policy{
		Mode: o.Mode, NotReadyGrace: o.NotReadyGrace, MaintenanceLeadTime: o.MaintenanceLeadTime,
		MaxUnhealthyPools: o.MaxUnhealthyPools, FencePools: o.FenceSlicePools,
	}
}

// New returns the Reconciler of slices. c reads from the cache, with the
// indexes of SetupIndexes, and live past it.
func New(c client.Client, live client.Reader, recorder Recorder, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Mode == "" {
		o.Mode = plan.Enforce
	}
	return &Reconciler{
		client: c,
		observer: &observer{
			cache: c, live: live, pools: newPoolView(c, o.Clock), nodes: newLiveNodes(), killed: newKilledWorkers(),
			others: newForeignPods(live), clock: o.Clock, policy: o.policy(),
		},
		actor:    &actor{client: c, live: live, clock: o.Clock},
		status:   statuspatch.New(c, o.Journal, v1.FieldManagerElastic, statuspatch.ElasticPart, o.Clock),
		recorder: recorder, metrics: o.Metrics, clock: o.Clock, moves: newMoves(),
	}
}

// NewFences returns the Reconciler that lifts fences.
func NewFences(c client.Client, o Options) *FenceReconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &FenceReconciler{client: c, clock: o.Clock, policy: o.policy()}
}

// SetupWithManager adds the elastic sub-controller, the fence controller, and
// the indexes that they need.
func SetupWithManager(ctx context.Context, mgr manager.Manager, o Options) error {
	if err := SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("pathways-job-elastic"), o)
	var err error
	if r.observer.pulse, err = newPulse(mgr, r.clock); err != nil {
		return fmt.Errorf("setting up the pulse of the API server: %w", err)
	}
	w := &watcher{cache: mgr.GetCache(), pools: r.observer.pools, killed: r.observer.killed, forget: r.status.Forget}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("elastic").
		WithOptions(controller.Options{MaxConcurrentReconciles: max(o.Workers, 1), RateLimiter: backoff()}).
		Watches(&v1.PathwaysJob{}, handle(w.jobMatters, w.enqueueJob)).
		Watches(&jobsetv1alpha2.JobSet{}, handle(jobSetMatters, enqueueNamesake[*jobsetv1alpha2.JobSet])).
		Watches(&batchv1.Job{}, handle(childMatters, enqueueOwner[*batchv1.Job])).
		Watches(&corev1.Pod{}, handle(w.podMatters, enqueueOwner[*corev1.Pod])).
		Watches(&corev1.Node{}, handle(w.nodeMatters, w.enqueueOfNode)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the elastic controller: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("fence").
		WithOptions(controller.Options{RateLimiter: backoff()}).
		Watches(&corev1.Node{}, handle(fenceNodeMatters, enqueuePool)).
		Watches(&corev1.Pod{}, handle(fencePodMatters, w.enqueuePoolOfPod)).
		Watches(&v1.PathwaysJob{}, handle(fenceJobMatters, w.enqueuePoolsOfJob)).
		Complete(NewFences(mgr.GetClient(), o))
	if err != nil {
		return fmt.Errorf("setting up the fence controller: %w", err)
	}
	return nil
}

func backoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}
