// Package controller makes the JobSet of each PathwaysJob, once, and writes
// what became of it into the job's status. Slices are repaired by
// internal/elastic; this controller never writes a running JobSet's spec but
// for suspend.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/statuspatch"
)

const (
	// lookAgain is after how long a job that waits looks again at what no
	// event tells it: nodes, other jobs, a Service or JobSet in its way.
	lookAgain = 10 * time.Second
)

// Reconciler makes JobSets of PathwaysJobs and writes the controller's part
// of their status. Make one with New.
type Reconciler struct {
	client.Client
	// live reads from the API server, past the cache.
	live     client.Reader
	scheme   *runtime.Scheme
	recorder events.EventRecorder
	options  render.Options
	clock    clock.PassiveClock
	status   *statuspatch.Writer
	refusals *refusals
	queued   *newcomers
	heads    *sightings
	// indexed is true if the cache can find pods and Jobs by JobSet.
	indexed bool
}

// New returns a Reconciler. live reads past the cache that c may have; the
// journal is shared by all who write the status of PathwaysJobs.
func New(c client.Client, live client.Reader, recorder events.EventRecorder, journal *statuspatch.Journal, options render.Options, clk clock.PassiveClock) *Reconciler {
	return &Reconciler{
		Client: c, live: live, scheme: c.Scheme(), recorder: recorder, options: options, clock: clk,
		status:   statuspatch.New(c, journal, v1.FieldManagerController, statuspatch.ControllerPart, clk),
		refusals: newRefusals(live),
		queued:   newNewcomers(),
		heads:    newSightings(),
	}
}

// +kubebuilder:rbac:groups=pathways-job.pathways.domain,resources=pathwaysjobs,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=pathways-job.pathways.domain,resources=pathwaysjobs/status,verbs=patch
// +kubebuilder:rbac:groups=pathways-job.pathways.domain,resources=pathwaysjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=jobset.x-k8s.io,resources=jobsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=services,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list

// Reconcile looks at one PathwaysJob and brings it a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.queued.drop(req.NamespacedName)
	job := &v1.PathwaysJob{}
	if err := r.Get(ctx, req.NamespacedName, job); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading PathwaysJob %s: %w", req.NamespacedName, err)
	}
	if !job.DeletionTimestamp.IsZero() || ptr.Deref(job.Spec.ManagedBy, v1.ManagedByController) != v1.ManagedByController {
		return ctrl.Result{}, nil
	}

	o, observeErr := r.observe(ctx, job)
	createErr := r.ensureJobSet(ctx, o)
	suspendErr := r.syncSuspend(ctx, o)
	errs := []error{observeErr, createErr, suspendErr}

	next := nextStatus(o)
	if r.queued.any() && startsWell(o.previous, next) && errors.Join(errs...) == nil {
		return ctrl.Result{RequeueAfter: giveWay}, nil
	}
	written, err := r.status.Apply(ctx, job, next, every(o, next), statuspatch.Pinned())
	if apierrors.IsConflict(err) {
		// Read too early: the cache has it in a moment.
		if err := errors.Join(errs...); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: statuspatch.ReadAgain}, nil
	}
	if err != nil {
		return ctrl.Result{}, errors.Join(append(errs, client.IgnoreNotFound(err))...)
	}
	if written.Written {
		r.announce(o, next)
	}
	result := ctrl.Result{RequeueAfter: soonest(written.RetryAfter, o.lookAgain())}
	// What is done below follows from a status that is written already.
	if !written.Deferred() {
		wait, err := r.act(ctx, o, next)
		errs = append(errs, err)
		result.RequeueAfter = soonest(result.RequeueAfter, wait)
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// soonest is the shorter of two waits, where 0 is no wait at all.
func soonest(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	default:
		return min(a, b)
	}
}
