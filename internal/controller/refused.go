package controller

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

// childless is how long a Job may be without pods, or the JobSet without
// Jobs, until it is asked why, and how long the answer is good.
const childless = 3 * time.Second

// observeRefusals asks why there are no pods where there should be. Only
// events tell when the API server refuses them: a quota, the pod security
// standard of the namespace, a webhook, a missing ServiceAccount.
func (r *Reconciler) observeRefusals(ctx context.Context, o *observation) error {
	parent := o.childlessParent()
	if parent == nil || o.now.Sub(parent.GetCreationTimestamp().Time) < childless {
		return nil
	}
	last, err := r.refusals.of(ctx, parent, o.now)
	if err != nil {
		return err
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

// refusals are the warnings of namespaces, as they were a moment ago: many
// jobs that wait at once ask for them together.
type refusals struct {
	live client.Reader

	mu          sync.Mutex
	byNamespace map[string]*warnings
}

type warnings struct {
	// asked is when they were last asked for; the mutex of refusals guards it.
	asked time.Time

	mu sync.Mutex
	// at is when they were read.
	at   time.Time
	list []corev1.Event
}

func newRefusals(live client.Reader) *refusals {
	return &refusals{live: live, byNamespace: map[string]*warnings{}}
}

// of returns the last event that tells why the parent could not create what
// it should have; nil if there is none.
func (r *refusals) of(ctx context.Context, parent client.Object, now time.Time) (*corev1.Event, error) {
	w := r.namespace(parent.GetNamespace(), now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.at) >= childless {
		var events corev1.EventList
		err := r.live.List(ctx, &events, client.InNamespace(parent.GetNamespace()), client.MatchingFields{"type": corev1.EventTypeWarning})
		if err != nil {
			return nil, fmt.Errorf("listing the events of namespace %s: %w", parent.GetNamespace(), err)
		}
		w.at = now
		w.list = slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return !tellsRefusal(e.Reason) })
	}
	var last *corev1.Event
	for i := range w.list {
		if e := &w.list[i]; e.InvolvedObject.UID == parent.GetUID() && (last == nil || last.LastTimestamp.Before(&e.LastTimestamp)) {
			last = e
		}
	}
	return last, nil
}

// namespace returns the warnings of one namespace, and drops those of others
// that nobody asked for lately.
func (r *refusals) namespace(name string, now time.Time) *warnings {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byNamespace[name]
	if w == nil {
		w = &warnings{}
		r.byNamespace[name] = w
	}
	w.asked = now
	maps.DeleteFunc(r.byNamespace, func(_ string, w *warnings) bool { return now.Sub(w.asked) > 10*childless })
	return w
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
