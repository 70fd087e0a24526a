package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
)

// labelQueue on a job makes Kueue the owner of its JobSet's suspend.
const labelQueue = "kueue.x-k8s.io/queue-name"

// ensureJobSet creates the JobSet if the job has none and has not ended. What
// keeps it from that becomes the obstacle; an error comes with it where the
// operator's log helps.
func (r *Reconciler) ensureJobSet(ctx context.Context, o *observation) error {
	if o.jobSet != nil || o.obstacle != nil || o.previous.TerminalState != "" {
		return nil
	}
	name := client.ObjectKeyFromObject(o.job)
	jobSet, err := render.JobSet(withRemainingRestarts(o), r.options)
	var refused *render.RefusedError
	if errors.As(err, &refused) {
		o.obstacle = &verdict{condition: v1.ConditionFailed, reason: refused.Reason, message: refused.Message, final: true}
		return nil
	}
	if err != nil {
		return fmt.Errorf("rendering JobSet %s: %w", name, err)
	}
	if err := controllerutil.SetControllerReference(o.job, jobSet, r.scheme); err != nil {
		return fmt.Errorf("owning JobSet %s: %w", name, err)
	}
	if goOn, err := r.mayCreate(ctx, o); err != nil || !goOn {
		return err
	}
	err = r.Create(ctx, jobSet, client.FieldOwner(v1.FieldManagerController))
	switch {
	case err == nil:
		o.jobSet, o.created = jobSet, true
		return nil
	case apierrors.IsAlreadyExists(err):
		return r.takeExisting(ctx, o)
	default:
		o.obstacle = createRefused("its JobSet", err)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // the job goes with its namespace; its JobSet may have gone first
		}
		if hopeless(err.Error()) || strings.Contains(err.Error(), "exceeded quota") {
			return nil // nothing that an operator's log would help with
		}
		return fmt.Errorf("creating JobSet %s: %w", name, err)
	}
}

// mayCreate reads live what a stale cache could make us do wrong.
func (r *Reconciler) mayCreate(ctx context.Context, o *observation) (bool, error) {
	if o.previous.JobSet != nil {
		// The job had a JobSet. If it has ended meanwhile, it stays ended.
		job := &v1.PathwaysJob{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(o.job), job)
		if client.IgnoreNotFound(err) != nil {
			o.obstacle = readFailed(o, err)
			return false, fmt.Errorf("reading PathwaysJob %s: %w", client.ObjectKeyFromObject(o.job), err)
		}
		if job.UID != o.job.UID || !job.DeletionTimestamp.IsZero() || job.Status.TerminalState != "" {
			o.obstacle = &verdict{condition: v1.ConditionPending, reason: v1.ReasonRestarting, message: "the job has changed since it was read; it is read again"}
			return false, nil
		}
	}
	return r.subdomainFree(ctx, o)
}

// subdomainFree looks for a Service in the way: JobSet takes any of that name
// for its own, and the addresses of the job's pods would lead nowhere.
func (r *Reconciler) subdomainFree(ctx context.Context, o *observation) (bool, error) {
	name := client.ObjectKey{Namespace: o.job.Namespace, Name: render.Subdomain(o.job)}
	service := &corev1.Service{}
	err := r.live.Get(ctx, name, service)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		o.obstacle = readFailed(o, err)
		return false, fmt.Errorf("reading Service %s: %w", name, err)
	}
	owner := metav1.GetControllerOf(service)
	if owner == nil || owner.Kind != "JobSet" || owner.Name != o.job.Name {
		o.obstacle = foreignService(service)
		return false, nil
	}
	err = r.live.Get(ctx, client.ObjectKeyFromObject(o.job), &jobsetv1alpha2.JobSet{})
	switch {
	case apierrors.IsNotFound(err):
		o.obstacle = earlierService(o, service)
		return false, nil
	case err != nil:
		o.obstacle = readFailed(o, err)
		return false, fmt.Errorf("reading JobSet %s: %w", client.ObjectKeyFromObject(o.job), err)
	default:
		return true, nil // and it exists already: the cache does not know it yet
	}
}

// takeExisting looks at a JobSet that the cache did not know of.
func (r *Reconciler) takeExisting(ctx context.Context, o *observation) error {
	jobSet := &jobsetv1alpha2.JobSet{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(o.job), jobSet); err != nil {
		o.obstacle = readFailed(o, err)
		return fmt.Errorf("reading JobSet %s: %w", client.ObjectKeyFromObject(o.job), err)
	}
	o.take(jobSet)
	return nil
}

// withRemainingRestarts is the job with what its earlier JobSets have left of
// maxRestarts.
func withRemainingRestarts(o *observation) *v1.PathwaysJob {
	if o.previous.JobSet == nil {
		return o.job
	}
	job := o.job.DeepCopy()
	left := ptr.Deref(job.Spec.MaxRestarts, 0) - ptr.Deref(o.previous.JobSet.ChargedRestarts, 0)
	job.Spec.MaxRestarts = ptr.To(max(0, left))
	return job
}

// syncSuspend makes the JobSet follow the user's spec.suspend; that of a job
// in a Kueue queue is Kueue's. A suspend that was taken out of the spec is
// lifted, if it was the user's.
func (r *Reconciler) syncSuspend(ctx context.Context, o *observation) error {
	if o.jobSet == nil || o.obstacle != nil || o.job.Labels[labelQueue] != "" || !o.jobSet.DeletionTimestamp.IsZero() ||
		jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetCompleted) != nil || jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetFailed) != nil {
		return nil
	}
	is := ptr.Deref(o.jobSet.Spec.Suspend, false)
	want := ptr.Deref(o.job.Spec.Suspend, is && !suspendedByUser(o.previous))
	if is == want {
		return nil
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"suspend":%t}}`, o.jobSet.UID, want))
	jobSet := &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: o.jobSet.Namespace, Name: o.jobSet.Name}}
	if err := r.Patch(ctx, jobSet, patch, client.FieldOwner(v1.FieldManagerController)); err != nil {
		return fmt.Errorf("setting suspend of JobSet %s to %t: %w", client.ObjectKeyFromObject(o.jobSet), want, err)
	}
	o.jobSet = jobSet
	return nil
}

// act does what a written status asks for. The wait is when to come back, 0
// if not at all.
func (r *Reconciler) act(ctx context.Context, o *observation, next v1.PathwaysJobStatus) (time.Duration, error) {
	switch {
	case next.TerminalState != "":
		return r.expire(ctx, o, next)
	case o.jobSet == nil || o.obstacle != nil || !o.jobSet.DeletionTimestamp.IsZero():
		return 0, nil
	case restartsAsNew(o):
		return 0, r.deleteJobSet(ctx, o.jobSet)
	case next.RestartRequest != nil && next.RestartRequest.TargetUID == o.jobSet.UID:
		return 0, r.deleteJobSet(ctx, o.jobSet)
	case next.RestartRequest != nil && o.head != nil && next.RestartRequest.TargetUID == o.head.UID && headRuns(o.head):
		return 0, r.evict(ctx, o.head)
	}
	return 0, nil
}

// expire deletes a finished job when its time has come.
func (r *Reconciler) expire(ctx context.Context, o *observation, next v1.PathwaysJobStatus) (time.Duration, error) {
	if o.job.Spec.TTLSecondsAfterFinished == nil || next.CompletionTime == nil {
		return 0, nil
	}
	ttl := time.Duration(*o.job.Spec.TTLSecondsAfterFinished) * time.Second
	if left := ttl - o.now.Sub(next.CompletionTime.Time); left > 0 {
		return left, nil
	}
	err := r.Delete(ctx, o.job, client.PropagationPolicy(metav1.DeletePropagationForeground),
		client.Preconditions{UID: &o.job.UID})
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("deleting finished PathwaysJob %s: %w", client.ObjectKeyFromObject(o.job), err)
	}
	return 0, nil
}

// deleteJobSet deletes the JobSet with its pods, each with its grace period.
// Once it is gone, a new one is created: a whole restart that is not charged.
func (r *Reconciler) deleteJobSet(ctx context.Context, jobSet *jobsetv1alpha2.JobSet) error {
	err := r.Delete(ctx, jobSet, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &jobSet.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting JobSet %s to create it again: %w", client.ObjectKeyFromObject(jobSet), err)
	}
	return nil
}

// evict stops the head; its JobSet restarts the whole job, uncharged.
func (r *Reconciler) evict(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	if err := r.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evicting the head %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}
