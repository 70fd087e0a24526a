package plugin

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/render"
)

// none stands in a column that has nothing to say.
const none = "-"

// report is a job's status as text.
type report struct {
	job *v1.PathwaysJob
	// headSince is since when the head is ready or not; zero if unknown.
	headSince metav1.Time
	// headGone: the status names a pod that is no more.
	headGone bool
	now      time.Time
	// all interruptions, and not only the last few.
	all bool
}

func (r report) String() string {
	var b strings.Builder
	r.summary(&b)
	if len(r.job.Status.Conditions) == 0 {
		return b.String()
	}
	r.head(&b)
	r.slices(&b)
	r.interruptions(&b)
	r.connection(&b)
	return b.String()
}

// summary is what the job is, in which state, and why.
func (r report) summary(b *strings.Builder) {
	job := r.job
	w := columns(b)
	fmt.Fprintf(w, "PathwaysJob:\t%s\n", job.Name)
	fmt.Fprintf(w, "Namespace:\t%s\n", job.Namespace)
	if len(job.Spec.Workers) > 0 {
		worker := &job.Spec.Workers[0]
		fmt.Fprintf(w, "Workers:\t%d × %s %s\n", worker.NumSlices, worker.Type, worker.Topology)
	}
	fmt.Fprintf(w, "Kind:\t%s\n", r.kind())
	state, message := r.state()
	fmt.Fprintf(w, "State:\t%s\n", state)
	if message != "" {
		fmt.Fprintf(w, "\t%s\n", message)
	}
	if c := r.unhealthy(); c != nil {
		fmt.Fprintf(w, "Healthy:\tno, for %s: %s\n", r.ago(c.LastTransitionTime), c.Message)
	}
	if len(job.Status.Conditions) > 0 {
		fmt.Fprintf(w, "Restarts:\t%s\n", r.restarts())
	}
	for _, line := range r.remarks() {
		fmt.Fprintf(w, "Note:\t%s\n", line)
	}
	flush(w)
}

// kind says how the job deals with the loss of a slice.
func (r report) kind() string {
	elastic := r.job.Spec.MissingSlices()
	var words []string
	if render.Headless(r.job) {
		words = append(words, "headless: clients connect from outside")
	}
	if elastic > 0 {
		words = append(words, fmt.Sprintf("elastic: %s may be missing", plural(elastic, "slice")))
	} else if len(words) == 0 {
		words = append(words, "not elastic: a slice whose state is lost restarts the whole job")
	}
	return strings.Join(words, "; ")
}

// state is the one condition that is True of those that exclude each other.
func (r report) state() (state, message string) {
	for _, t := range []string{v1.ConditionFailed, v1.ConditionCompleted, v1.ConditionSuspended, v1.ConditionRunning, v1.ConditionPending} {
		c := meta.FindStatusCondition(r.job.Status.Conditions, t)
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		if t == v1.ConditionFailed || t == v1.ConditionCompleted {
			return fmt.Sprintf("%s %s ago (%s)", t, r.ago(c.LastTransitionTime), c.Reason), c.Message
		}
		state = fmt.Sprintf("%s for %s", t, r.ago(c.LastTransitionTime))
		if c.Reason != t {
			state += " (" + c.Reason + ")"
		}
		return state, c.Message
	}
	if by := r.job.Spec.ManagedBy; by != nil && *by != v1.ManagedByController {
		return "unknown", "spec.managedBy leaves the job to " + *by
	}
	return "unknown", "the operator has not looked at the job yet; if this lasts, it does not run"
}

// unhealthy is the condition Healthy of a running job, if it is False.
func (r report) unhealthy() *metav1.Condition {
	c := meta.FindStatusCondition(r.job.Status.Conditions, v1.ConditionHealthy)
	if c == nil || c.Status != metav1.ConditionFalse || !r.running() {
		return nil
	}
	return c
}

func (r report) running() bool {
	return meta.IsStatusConditionTrue(r.job.Status.Conditions, v1.ConditionRunning)
}

func (r report) ended() bool {
	conditions := r.job.Status.Conditions
	return meta.IsStatusConditionTrue(conditions, v1.ConditionCompleted) || meta.IsStatusConditionTrue(conditions, v1.ConditionFailed)
}

// restarts are those of the whole job.
func (r report) restarts() string {
	charged := int32(0)
	if js := r.job.Status.JobSet; js != nil {
		charged = ptr.Deref(js.ChargedRestarts, 0)
	}
	return fmt.Sprintf("%d of the whole job; %d of %d charged to maxRestarts",
		ptr.Deref(r.job.Status.Restarts, 0), charged, ptr.Deref(r.job.Spec.MaxRestarts, 0))
}

// remarks are what a reader would else miss.
func (r report) remarks() []string {
	var list []string
	job := r.job
	if job.DeletionTimestamp != nil {
		list = append(list, "the job is being deleted")
	}
	if seen := job.Status.ObservedGeneration; seen > 0 && seen < job.Generation {
		list = append(list, "the spec was changed, and the operator has not looked at that yet")
	}
	if job.Annotations[v1.AnnotationSliceRepair] == v1.SliceRepairDisabled {
		list = append(list, "repair of slices is switched off for this job by the annotation "+v1.AnnotationSliceRepair)
	}
	if repair := job.Status.Repair; repair != nil && repair.Paused != nil {
		list = append(list, "repair is paused for "+r.ago(*repair.Paused)+": too many node pools look failed at once")
	}
	if repair := job.Status.Repair; repair != nil && repair.Restart != nil {
		list = append(list, "the whole job is about to restart: "+repair.Restart.Message)
	}
	return list
}

func (r report) head(b *strings.Builder) {
	b.WriteString("\nHead\n")
	head := r.job.Status.Head
	if head == nil || head.PodName == "" {
		b.WriteString("  there is no pod\n")
		return
	}
	ready := "no"
	switch {
	case r.headGone:
		ready = "gone"
	case ptr.Deref(head.Ready, false):
		ready = "yes"
	}
	node := head.NodeName
	if node != "" && (r.headGone || r.ended()) {
		node = "was " + node
	}
	w := columns(b)
	fmt.Fprintln(w, "  POD\tNODE\tZONE\tREADY\tSINCE")
	fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", head.PodName, orNone(node), orNone(head.Zone), ready, r.ago(r.headSince))
	flush(w)
}

func (r report) slices(b *strings.Builder) {
	fmt.Fprintf(b, "\nSlices, %s Ready\n", orNone(r.job.Status.SliceSummary))
	if len(r.job.Status.Slices) == 0 {
		b.WriteString("  none was seen yet\n")
		return
	}
	budget, pending := r.budget(), false
	w := columns(b)
	fmt.Fprintln(w, "  SLICE\tSTATE\tREASON\tPOOL\tRESTARTS\tLEFT\tSINCE")
	for i := range r.job.Status.Slices {
		s := &r.job.Status.Slices[i]
		used, left, open := uses(s, budget)
		pending = pending || open
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\t%s\t%s\n", ptr.Deref(s.Index, 0), s.State, orNone(s.Reason), pool(s),
			used, left, r.agoPtr(s.LastTransitionTime))
	}
	flush(w)
	if pending {
		b.WriteString("  + restarts that are charged after 90 s, unless the host turns out to have failed\n")
	}
	if !r.ended() {
		r.sliceMessages(b)
	}
}

// pool is where the slice is. Of one that is down the status keeps the last
// pool, which it may have left, and which says nothing of where it starts next.
func pool(s *v1.SliceStatus) string {
	switch {
	case s.NodePool == "" || s.State == v1.SlicePending:
		return none
	case s.State == v1.SliceSuspended || s.State == v1.SliceReplacing || s.State == v1.SliceLost:
		return "last " + s.NodePool
	}
	return s.NodePool
}

// sliceMessages says each message once, and of which slices.
func (r report) sliceMessages(b *strings.Builder) {
	var messages []string
	indexes := map[string][]int32{}
	for i := range r.job.Status.Slices {
		s := &r.job.Status.Slices[i]
		if s.Message == "" {
			continue
		}
		if indexes[s.Message] == nil {
			messages = append(messages, s.Message)
		}
		indexes[s.Message] = append(indexes[s.Message], ptr.Deref(s.Index, 0))
	}
	for _, m := range messages {
		word := "slice"
		if len(indexes[m]) > 1 {
			word = "slices"
		}
		fmt.Fprintf(b, "  %s %s: %s\n", word, ranges(indexes[m]), m)
	}
}

// ranges writes rising numbers in short: 0-3, 5.
func ranges(numbers []int32) string {
	var list []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		text := strconv.Itoa(int(numbers[i]))
		if j > i {
			text += "-" + strconv.Itoa(int(numbers[j]))
		}
		list = append(list, text)
		i = j + 1
	}
	return strings.Join(list, ", ")
}

// budget is how often a slice may restart between restarts of the whole job;
// below 0 as often as it must.
func (r report) budget() int32 {
	job := plan.Job{Headless: render.Headless(r.job), ElasticSlices: ptr.Deref(r.job.Spec.Controller.ElasticSlices, 0)}
	if len(r.job.Spec.Workers) > 0 {
		job.MaxSliceRestarts = ptr.Deref(r.job.Spec.Workers[0].MaxSliceRestarts, 1)
	}
	return job.Budget()
}

// uses says how much of its budget a slice has used; open if some of that may
// still be given back.
func uses(s *v1.SliceStatus, budget int32) (used, left string, open bool) {
	if budget < 0 {
		return none, "no limit", false
	}
	charged, pending := ptr.Deref(s.Restarts, 0), int32(0)
	for _, c := range s.PendingCharges {
		pending += c.Count
	}
	used = strconv.Itoa(int(charged))
	if pending > 0 {
		used += "+" + strconv.Itoa(int(pending))
	}
	return used, fmt.Sprintf("%d of %d", max(0, budget-charged), budget), pending > 0
}

func (r report) interruptions(b *strings.Builder) {
	history := r.job.Status.History
	if len(history) == 0 {
		b.WriteString("\nInterruptions\n  none\n")
		return
	}
	if shown := mostInterruptions; !r.all && len(history) > shown {
		fmt.Fprintf(b, "\nInterruptions, the last %d of %d\n", shown, len(history))
		history = history[len(history)-shown:]
	} else {
		b.WriteString("\nInterruptions\n")
	}
	w := columns(b)
	fmt.Fprintln(w, "  WHEN\tWHAT\tREASON\tFROM\tTO\tDOWN")
	for i := range history {
		e := &history[i]
		what := "whole job"
		if e.Slice != nil {
			what = "slice " + strconv.Itoa(int(*e.Slice))
		}
		down := "still"
		if e.DownSeconds != nil {
			down = strconv.FormatInt(*e.DownSeconds, 10) + " s"
		} else if r.ended() {
			down = none
		}
		fmt.Fprintf(w, "  %s ago\t%s\t%s\t%s\t%s\t%s\n", r.ago(e.Time), what, e.Reason, orNone(e.FromPool), orNone(e.ToPool), down)
	}
	flush(w)
}

// connection says how a client reaches the proxy.
func (r report) connection(b *strings.Builder) {
	address := r.job.Status.ProxyAddress
	if address == "" || r.ended() {
		return
	}
	b.WriteString("\nConnection")
	if !r.running() {
		b.WriteString(", once the job runs")
	}
	b.WriteString("\n")
	fmt.Fprintf(b, "  in the cluster:  JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=%s\n", address)
	head := r.job.Status.Head
	if !render.Headless(r.job) || head == nil || head.PodName == "" || r.headGone {
		return
	}
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return
	}
	fmt.Fprintf(b, "  from elsewhere:  kubectl port-forward -n %s pod/%s %s:%[3]s\n", r.job.Namespace, head.PodName, u.Port())
	fmt.Fprintf(b, "                   JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=%s://127.0.0.1:%s\n", u.Scheme, u.Port())
}

// ago is for how long something is so, as kubectl writes ages.
func (r report) ago(t metav1.Time) string {
	if t.IsZero() {
		return none
	}
	return duration.HumanDuration(max(0, r.now.Sub(t.Time)))
}

func (r report) agoPtr(t *metav1.Time) string { return r.ago(ptr.Deref(t, metav1.Time{})) }

// columns aligns the cells of lines that end with the next flush.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 3, ' ', 0) }

// flush writes into memory, which does not fail.
func flush(w *tabwriter.Writer) { _ = w.Flush() }

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

func plural(n int32, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
