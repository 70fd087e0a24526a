package controller

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

// readFailed keeps the state as it was last known, and says why no more is
// known.
func readFailed(o *observation, err error) *verdict {
	v := &verdict{condition: v1.ConditionPending, reason: v1.ReasonReadFailed}
	for _, t := range []string{v1.ConditionRunning, v1.ConditionSuspended} {
		if meta.IsStatusConditionTrue(o.previous.Conditions, t) {
			v.condition = t
		}
	}
	v.message = fmt.Sprintf("the API server %s; it is asked again: %s", complaint(err), err)
	return v
}

// complaint tells the errors of the API server apart.
func complaint(err error) string {
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return "does not let the operator read"
	case apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err):
		return "did not answer in time"
	case apierrors.IsTooManyRequests(err):
		return "is overloaded"
	default:
		return "could not be read from"
	}
}

// createRefused has the API server's words.
func createRefused(what string, err error) *verdict {
	return &verdict{
		condition: v1.ConditionPending, reason: v1.ReasonCreateRefused,
		message: refusedMessage(what+" could not be created", err.Error()),
	}
}

// notOwned tells a JobSet that will go by itself from one that will not.
func notOwned(jobSet *jobsetv1alpha2.JobSet) *verdict {
	owner := metav1.GetControllerOf(jobSet)
	earlier := owner != nil && owner.Kind == "PathwaysJob" && owner.Name == jobSet.Name
	if earlier || !jobSet.DeletionTimestamp.IsZero() {
		return &verdict{
			condition: v1.ConditionPending, reason: v1.ReasonNameInUse,
			message: fmt.Sprintf("waits until an earlier JobSet %s is deleted", jobSet.Name),
		}
	}
	by := "nobody"
	if owner != nil {
		by = owner.Kind + " " + owner.Name
	}
	return &verdict{
		condition: v1.ConditionFailed, reason: v1.ReasonJobSetNotOwned,
		message: fmt.Sprintf("a JobSet %s exists that is not this job's (it is owned by %s); it is left alone: delete it, or create this job under another name", jobSet.Name, by),
	}
}

// foreignService is in the way until somebody deletes it.
func foreignService(service *corev1.Service) *verdict {
	return &verdict{
		condition: v1.ConditionPending, reason: v1.ReasonNameInUse,
		message: fmt.Sprintf("a Service %s exists that is not this job's, and its pods need one of that name: delete it and the job starts, or create the job under another name", service.Name),
	}
}

// earlierService is about to be collected as garbage.
func earlierService(o *observation, service *corev1.Service) *verdict {
	v := &verdict{
		condition: v1.ConditionPending, reason: v1.ReasonStarting, again: time.Second,
		message: fmt.Sprintf("waits until Service %s of an earlier JobSet is deleted", service.Name),
	}
	if o.previous.JobSet != nil {
		v.reason = v1.ReasonRestarting
	}
	return v
}
