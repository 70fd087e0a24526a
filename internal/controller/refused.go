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

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

const (
	// childless is how long a Job may be without a pod, or the JobSet without a
	// Job, until it is asked why, and how long the answer is good.
	childless = 3 * time.Second
	// silent is how long JobSet may be without a Job and a word about it.
	silent = 2 * time.Minute
)

// observeRefusals asks why there are fewer Jobs or pods than there should be.
// Only events tell when the API server refuses them: a quota, the pod security
// standard of the namespace, a webhook, a missing ServiceAccount.
func (r *Reconciler) observeRefusals(ctx context.Context, o *observation) error {
	for _, g := range o.gaps() {
		waited := o.now.Sub(g.since)
		if waited < childless {
			continue
		}
		// Times of events and of objects have whole seconds.
		words, err := r.refusals.of(ctx, g.parent, g.since.Add(-childless), o.now)
		if err != nil {
			return err
		}
		if words != "" {
			o.refused = &verdict{condition: v1.ConditionPending, reason: v1.ReasonPodsRefused, message: refusedMessage(g.what+" cannot be created", words)}
			return nil
		}
		if g.parent == client.Object(o.jobSet) && waited >= silent && o.refused == nil {
			o.refused = &verdict{
				condition: v1.ConditionPending, reason: v1.ReasonJobsMissing,
				message: fmt.Sprintf("JobSet has not created %s, and no event tells why: look whether its controller runs, and what it logs", g.what),
			}
		}
	}
	return nil
}

// refusedMessage says what the user can do, if the API server's words tell
// that.
func refusedMessage(what, words string) string {
	if hopeless(words) {
		return what + "; correct the manifest, then delete the PathwaysJob and create it again: " + words
	}
	return what + "; it is tried again: " + words
}

// hopeless: these words are about the object alone, and will be the same at
// each try.
func hopeless(words string) bool {
	return strings.Contains(words, " is invalid: ") || strings.Contains(words, `jobset.kb.io" denied the request`)
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

// of returns the last words since then about what the parent could not create;
// empty if there are none.
func (r *refusals) of(ctx context.Context, parent client.Object, since, now time.Time) (string, error) {
	w := r.namespace(parent.GetNamespace(), now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.at) >= childless {
		var events corev1.EventList
		err := r.live.List(ctx, &events, client.InNamespace(parent.GetNamespace()), client.MatchingFields{"type": corev1.EventTypeWarning})
		if err != nil {
			return "", fmt.Errorf("listing the events of namespace %s: %w", parent.GetNamespace(), err)
		}
		w.at = now
		w.list = slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return !tellsRefusal(&e) })
	}
	words := ""
	for i := range w.list {
		e := &w.list[i]
		if at := toldAt(e); e.InvolvedObject.UID == parent.GetUID() && !at.Before(since) {
			words, since = refusal(e.Message), at
		}
	}
	return words, nil
}

// toldAt is when the event was last seen: core/v1 and events.k8s.io/v1 write
// that into different fields.
func toldAt(e *corev1.Event) time.Time {
	at := latest(e.EventTime.Time, e.LastTimestamp.Time)
	if e.Series != nil {
		at = latest(at, e.Series.LastObservedTime.Time)
	}
	return at
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

// tellsRefusal says whether the event is that something could not be created,
// for another reason than that its time has not come: JobSet refuses the other
// pods of a slice until the first has a node.
func tellsRefusal(e *corev1.Event) bool {
	return (e.Reason == "FailedCreate" || strings.HasSuffix(e.Reason, "CreationFailed")) && !followsLeader.MatchString(e.Message)
}

var (
	// followsLeader is in the words of JobSet's webhooks of pods.
	followsLeader = regexp.MustCompile(`pod\.kb\.io" denied the request: .*(leader|follower) pod`)
	// creating comes before the API server's words.
	creating = regexp.MustCompile(`^(\(combined from similar events\): )?(Error creating: |job "[^"]*" creation failed with error: )?`)
	// podName is the random name of a pod that never was.
	podName = regexp.MustCompile(`(?i)\bpods? "[^"]*" `)
)

// refusal is the API server's words, equal at each try. JobSet has a line for
// each Job.
func refusal(words string) string {
	first, _, _ := strings.Cut(words, "\n")
	return podName.ReplaceAllString(creating.ReplaceAllString(first, ""), "the pod ")
}
