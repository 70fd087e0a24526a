package controller

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

// childless is how long a Job may be without pods, or the JobSet without
// Jobs, until it is asked why.
const childless = 3 * time.Second

// observeRefusals asks why there are no pods where there should be. Only
// events tell when the API server refuses them: a quota, the pod security
// standard of the namespace, a webhook, a missing ServiceAccount.
func (r *Reconciler) observeRefusals(ctx context.Context, o *observation) error {
	parent := o.childlessParent()
	if parent == nil || o.now.Sub(parent.GetCreationTimestamp().Time) < childless {
		return nil
	}
	var events corev1.EventList
	err := r.live.List(ctx, &events, client.InNamespace(parent.GetNamespace()),
		client.MatchingFields{"involvedObject.uid": string(parent.GetUID()), "type": corev1.EventTypeWarning})
	if err != nil {
		return fmt.Errorf("listing the events of %s: %w", client.ObjectKeyFromObject(parent), err)
	}
	var last *corev1.Event
	for i := range events.Items {
		if e := &events.Items[i]; tellsRefusal(e.Reason) && (last == nil || last.LastTimestamp.Before(&e.LastTimestamp)) {
			last = e
		}
	}
	if last != nil {
		what := "pods"
		if parent == client.Object(o.jobSet) {
			what = "Jobs"
		}
		o.refused = &verdict{
			condition: v1.ConditionPending, reason: v1.ReasonPodsRefused,
			message: fmt.Sprintf("%s of %s cannot be created; it is tried again: %s", what, parent.GetName(), refusal(last.Message)),
		}
	}
	return nil
}

// tellsRefusal says whether the reason of an event is that something could not be
// created; JobSet's steps of its failure policy are named alike.
func tellsRefusal(reason string) bool {
	return strings.Contains(reason, "Fail") && !strings.Contains(reason, "FailurePolicy")
}

// podName is the random name of a pod that never was.
var podName = regexp.MustCompile(`(?i)\bpods? "[^"]*" `)

// refusal is the API server's words, equal at each try.
func refusal(words string) string {
	return podName.ReplaceAllString(strings.TrimPrefix(words, "Error creating: "), "the pod ")
}

// childlessParent is what should have made Jobs or pods and has not; nil if
// all is there, or nothing should be.
func (o *observation) childlessParent() client.Object {
	if o.jobSet == nil || !o.jobSet.DeletionTimestamp.IsZero() || ptr.Deref(o.jobSet.Spec.Suspend, false) ||
		trueCondition(o.previous) == v1.ConditionRunning || endedHere(o.previous) {
		return nil
	}
	if o.headJob == nil {
		return o.jobSet
	}
	if hasNoPod(o.headJob, o.head != nil) {
		return o.headJob
	}
	withPods := map[string]bool{}
	for i := range o.workers {
		withPods[o.workers[i].Labels[batchv1.JobNameLabel]] = true
	}
	for i := range o.slices {
		if hasNoPod(&o.slices[i], withPods[o.slices[i].Name]) {
			return &o.slices[i]
		}
	}
	return nil
}

func hasNoPod(job *batchv1.Job, seen bool) bool {
	s := job.Status
	return !seen && s.Active == 0 && s.Succeeded == 0 && s.Failed == 0 && job.DeletionTimestamp.IsZero() &&
		!ptr.Deref(job.Spec.Suspend, false) && ptr.Deref(job.Spec.Parallelism, 1) > 0
}
