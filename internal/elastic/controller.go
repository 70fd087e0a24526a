// Package elastic is the sub-controller that keeps the slices of PathwaysJobs
// alive. It observes (the cache, and a few live reads), lets package plan
// decide, and acts: it writes the intent into the status first, and then
// carries it out. A second, small controller lifts the fences it put on nodes.
package elastic

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/metrics"
	"pathways.domain/pathways-job/internal/statuspatch"
)

// Recorder emits events.
type Recorder = events.EventRecorder

// Reconciler keeps the slices of PathwaysJobs alive.
type Reconciler struct {
	client   client.Client
	observer *observer
	actor    *actor
	status   *statuspatch.Writer
	recorder Recorder
	metrics  *metrics.Recorder
	clock    clock.PassiveClock
	moves    *moves
}

// +kubebuilder:rbac:groups=pathways-job.pathways.domain,resources=pathwaysjobs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=pathways-job.pathways.domain,resources=pathwaysjobs/status,verbs=get;patch
// +kubebuilder:rbac:groups=jobset.x-k8s.io,resources=jobsets,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile looks at one PathwaysJob and does what its slices need.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var job v1.PathwaysJob
	if err := r.client.Get(ctx, req.NamespacedName, &job); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, r.releaseHolds(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, fmt.Errorf("reading PathwaysJob %s: %w", req, err)
	}
	if !ours(&job) {
		return ctrl.Result{}, nil
	}
	if !begun(&job) {
		// The job's controller writes first: its patch brings us here again.
		return ctrl.Result{}, nil
	}
	previous := r.status.Previous(&job)
	obs, stale, err := r.observer.observe(ctx, &job, previous)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.clock.Now()
	d := r.decide(&job, obs, now)
	written, err := r.write(ctx, &job, previous, d)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: statuspatch.ReadAgain}, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	case written.Deferred():
		return ctrl.Result{RequeueAfter: written.RetryAfter}, nil
	}
	err = r.actor.act(ctx, &job, d.Actions)
	r.tell(&job, previous, d)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("repairing PathwaysJob %s: %w", req, err)
	}
	return ctrl.Result{RequeueAfter: wake(d.Wake, now, stale)}, nil
}

// decide asks the planner, and once more if another job began a voluntary
// move on the same shape in between.
func (r *Reconciler) decide(job *v1.PathwaysJob, obs plan.Observation, now time.Time) plan.Decision {
	shape := obs.Job.Shape
	obs.OtherVoluntaryMoves = obs.OtherVoluntaryMoves || r.moves.heldByOther(shape, job.UID, now)
	d := plan.Next(obs, now)
	if movesNow(obs.Job.Status.Repair, d.Repair) && !r.moves.claim(shape, job.UID, now) {
		obs.OtherVoluntaryMoves = true
		d = plan.Next(obs, now)
	}
	return d
}

// movesNow says whether a decision begins a voluntary move.
func movesNow(before, after *v1.RepairStatus) bool {
	if after == nil || after.LastVoluntaryMove == nil {
		return false
	}
	return before == nil || !after.LastVoluntaryMove.Equal(before.LastVoluntaryMove)
}

// write writes the decision's status. One that actions follow is only taken
// if the job is as it was read.
func (r *Reconciler) write(ctx context.Context, job *v1.PathwaysJob, previous v1.PathwaysJobStatus, d plan.Decision) (statuspatch.Result, error) {
	opts := []statuspatch.Option{statuspatch.Every(interval(previous, d, obstructed(job)))}
	if len(d.Actions) > 0 {
		opts = append(opts, statuspatch.Pinned())
	}
	return r.status.Apply(ctx, job, v1.PathwaysJobStatus{
		Slices:       d.Slices,
		Repair:       d.Repair,
		ReadySlices:  ptr.To(d.ReadySlices),
		TotalSlices:  ptr.To(d.TotalSlices),
		SliceSummary: d.SliceSummary,
		History:      d.History,
		Conditions:   d.Conditions,
	}, opts...)
}

// wake is how long to wait before looking again; 0 for ever.
func wake(at, now time.Time, stale time.Duration) time.Duration {
	if at.IsZero() {
		return stale
	}
	after := max(at.Sub(now), soon)
	if stale > 0 {
		return min(after, stale)
	}
	return after
}

// releaseHolds takes our finalizer off the child Jobs of a PathwaysJob that
// is gone, so that they can go too.
func (r *Reconciler) releaseHolds(ctx context.Context, key types.NamespacedName) error {
	var jobs batchv1.JobList
	if err := r.client.List(ctx, &jobs, client.InNamespace(key.Namespace), client.MatchingFields{indexJobJobSet: key.Name}); err != nil {
		return fmt.Errorf("listing the child Jobs of %s: %w", key, err)
	}
	var errs []error
	for i := range jobs.Items {
		if !childFacts(&jobs.Items[i]).Held {
			continue
		}
		if err := releaseHold(ctx, r.client, r.actor.live, client.ObjectKeyFromObject(&jobs.Items[i]), jobs.Items[i].UID); err != nil {
			errs = append(errs, fmt.Errorf("releasing the child Job %s: %w", jobs.Items[i].Name, err))
		}
	}
	return errors.Join(errs...)
}
