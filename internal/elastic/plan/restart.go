package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// want asks for a whole restart, unless one was asked for already.
func (p *planner) want(reason, message string, charged bool) {
	if p.wanted != nil {
		return
	}
	p.wanted = &v1.WholeRestart{Time: metav1.NewTime(p.now), Reason: reason, Message: message, Charged: ptr.To(charged)}
	if p.observing() {
		return
	}
	p.repair.Restart = p.wanted
	p.noteHead(p.headEntry(reason))
	p.event(Event{Warning: true, Slice: JobLevel, Reason: EventJobRestarting, Cause: reason, Message: message, Charged: charged})
}

// spendBudgets asks for a charged whole restart where more slices are over
// their budget than the job can do without.
func (p *planner) spendBudgets() {
	if p.resting != "" || p.ending != "" || p.paused() {
		return
	}
	over, worst := int32(0), (*slice)(nil)
	for i := range p.slices {
		s := &p.slices[i]
		if !s.over() {
			continue
		}
		over++
		if worst == nil || s.was.State != v1.SliceLost {
			worst = s
		}
	}
	if over <= p.obs.Job.ElasticSlices {
		return
	}
	message := fmt.Sprintf("Slice %d has used up its restart budget (%d of %d)", worst.in.Index, worst.restartsOf(), p.obs.Job.Budget())
	if p.obs.Job.ElasticSlices > 0 {
		message += fmt.Sprintf(", and with it %d slices are lost, more than the %d that may be missing", over, p.obs.Job.ElasticSlices)
	}
	message += fmt.Sprintf(". The whole job restarts, charged: %d of %d whole restarts are used.",
		p.obs.JobSet.RestartsCharged, p.obs.JobSet.MaxRestarts)
	if worst.mostFallen != nil {
		message = worst.exitWords(worst.mostFallen) + " " + message
	}
	p.want(v1.ReasonWorkerFailed, message, true)
}

// restartJob takes the action of a wanted whole restart, again and again
// until the JobSet has begun it.
func (p *planner) restartJob() {
	w := p.wanted
	if w == nil || p.resting != "" || p.ending != "" || p.paused() && w.Reason != v1.ReasonHostFailed {
		return
	}
	a := Action{Slice: JobLevel, Reason: w.Reason, Message: w.Message}
	h := &p.obs.Head
	switch {
	case ptr.Deref(w.Charged, false):
		c := p.victim()
		if c == nil {
			return
		}
		a.Kind, a.Object, a.UID = FailChildJob, c.Name, c.UID
	case h.UID == "":
		return
	case h.PodFailurePolicy:
		a.Kind, a.Object, a.UID = EvictHead, h.Name, h.UID
	default:
		a.Kind, a.UID = RecreateJobSet, p.obs.JobSet.UID
	}
	p.act(a)
}

// victim is the child Job to fail for a charged whole restart: one without
// pods on dead nodes, best without any pod, since Failed is withheld while a
// pod terminates.
func (p *planner) victim() *ChildJob {
	var best *slice
	for i := range p.slices {
		s := &p.slices[i]
		c := s.in.Child
		if c != nil && c.Deadline && c.Restarts == p.obs.JobSet.Restarts {
			return nil // asked already
		}
		if c == nil || c.Deleting || c.Complete || s.leaving() || c.Restarts != p.obs.JobSet.Restarts {
			continue
		}
		if best == nil || s.victimRank() < best.victimRank() {
			best = s
		}
	}
	if best == nil {
		return nil
	}
	return best.in.Child
}

func (s *slice) victimRank() int {
	switch {
	case s.failed >= notReady:
		return 3
	case s.remaining == 0:
		return 0
	case s.over():
		return 1
	}
	return 2
}

// recoverHead looks after a head whose host is lost: nothing else ends such a
// pod, and the JobSet waits for its end.
func (p *planner) recoverHead() {
	p.wanted = p.repair.Restart
	h := &p.obs.Head
	if p.resting != "" || h.UID == "" {
		return
	}
	lost := false
	if h.Node != nil && !h.MainExited && h.Phase != PodSucceeded {
		bad, until := p.judge(h.Node)
		if bad == unsteady {
			p.wake(until)
		}
		lost = bad >= notReady && (!p.paused() || h.Node.Gone)
	}
	if !lost {
		if p.wanted != nil && p.wanted.Reason == v1.ReasonHeadDisrupted && p.ending == "" {
			p.wanted, p.repair.Restart = nil, nil // its host came back in time
		}
		p.noteDisruption()
		p.excuseDeletion()
		return
	}
	why := fmt.Sprintf("The head's host %s %s. The whole job restarts; this is not charged.", h.Node.Name, failureWords(h.Node))
	p.want(v1.ReasonHeadDisrupted, why, false)
	a := Action{Slice: JobLevel, Reason: v1.ReasonHeadDisrupted, Message: why, Object: h.Name, UID: h.UID}
	switch {
	case h.PodFailurePolicy && !h.Phase.Terminal():
		a.Kind = MarkHeadPodFailed
		p.act(a)
	case !h.PodFailurePolicy && !p.obs.JobSet.Deleting:
		p.act(Action{Kind: RecreateJobSet, Slice: JobLevel, Reason: a.Reason, Message: why, UID: p.obs.JobSet.UID})
	}
	a.Kind = ForceDeletePod
	p.act(a)
	if p.ending == "" {
		p.ending = "the head's host is lost"
	}
}

// noteDisruption writes a head that is being stopped by someone else into the
// history.
func (p *planner) noteDisruption() {
	h := &p.obs.Head
	if p.fresh || p.obs.JobSet.Deleting || p.obs.JobSet.Restarting || p.wanted != nil {
		return
	}
	if h.Phase == PodFailed && h.Disrupted == "" && !h.Deleting {
		p.noteHead(p.headEntry(v1.ReasonHeadFailed)) // its controller tells why
		return
	}
	if p.headJobReplaced() && p.now.Sub(h.JobCreated) < headLook && !p.notedSince(h.JobCreated.Add(-headLook)) {
		e := v1.Interruption{Time: metav1.NewTime(h.JobCreated), Reason: v1.ReasonHeadDisrupted, FromPool: p.oldHost()}
		if p.noteHead(e) {
			p.event(Event{
				Warning: true, Slice: JobLevel, Reason: EventHeadDisrupted, Cause: v1.ReasonHeadDisrupted,
				Message: "The head's Job was deleted. Its program starts again, and the slices stay.",
			})
		}
		return
	}
	// A Job without a pod failure policy deletes the pod when a container
	// fails; a disruption has a condition then.
	if h.MainExited || h.JobDeleting || h.JobEnded && h.Disrupted == "" || h.Phase.Terminal() || !h.Deleting && h.Disrupted == "" {
		return
	}
	switch {
	case h.Requested:
		if p.noteHead(p.headEntry(v1.ReasonRequested)) {
			p.event(Event{
				Slice: JobLevel, Reason: EventJobRestarting, Cause: v1.ReasonRequested,
				Message: "The restart annotation asked for it: the whole job restarts; this is not charged.",
			})
		}
	case p.noteHead(p.headEntry(v1.ReasonHeadDisrupted)):
		p.event(Event{
			Warning: true, Slice: JobLevel, Reason: EventHeadDisrupted, Cause: v1.ReasonHeadDisrupted,
			Message: "The head is being stopped (" + orElse(h.Disrupted, "its pod was deleted") + ").",
		})
	}
}

// excuseDeletion keeps a head whose pod was deleted by hand from counting as
// failed: of a plain deletion, the pod failure policy knows nothing.
func (p *planner) excuseDeletion() {
	h := &p.obs.Head
	if !h.PodFailurePolicy || !h.Deleting || h.Disrupted != "" || h.Phase.Terminal() || h.MainExited || h.JobEnded ||
		p.obs.JobSet.Deleting || p.obs.JobSet.Restarting {
		return
	}
	p.act(Action{
		Kind: MarkHeadDisrupted, Slice: JobLevel, Reason: v1.ReasonHeadDisrupted, Object: h.Name, UID: h.UID,
		Message: "The head's pod was deleted. The whole job restarts; this is not charged.",
	})
}

// clearOldHeads removes heads whose Job was deleted from under them: the new
// one would wait for their host for ever.
func (p *planner) clearOldHeads() {
	if p.resting == ReasonJobDeleted || p.observing() {
		return
	}
	for i := range p.obs.OldHeads {
		pod := &p.obs.OldHeads[i]
		a := Action{Slice: JobLevel, Reason: v1.ReasonHeadDisrupted, Object: pod.Name, UID: pod.UID}
		switch {
		case pod.Deleting && !pod.Phase.Terminal() && pod.Node != nil && lifeless(pod.Node):
			a.Kind, a.Message = ForceDeletePod, "Host "+pod.Node.Name+" "+failureWords(pod.Node)+"."
		case pod.orphaned():
			a.Kind, a.Message = DeleteOrphanPod, "Pod "+pod.Name+" lost its Job, and makes room for the new head."
		default:
			continue
		}
		p.act(a)
	}
}

// headLook is how long a new head is looked at for why it came.
const headLook = time.Minute

// headJobReplaced says that the head's Job is younger than workers' Jobs of its
// attempt: JobSet has made it again.
func (p *planner) headJobReplaced() bool {
	return !p.obs.Job.Colocated && slices.ContainsFunc(p.obs.Slices, func(s Slice) bool {
		return s.Child != nil && s.Child.Restarts == p.obs.JobSet.Restarts && s.Child.Created.Before(p.obs.Head.JobCreated)
	})
}

// oldHost is where the head was before its Job was made again; "" if its pod
// is gone.
func (p *planner) oldHost() string {
	for i := range p.obs.OldHeads {
		if n := p.obs.OldHeads[i].Node; n != nil {
			return n.Name
		}
	}
	return ""
}

// notedSince says whether the history tells of the whole job since t.
func (p *planner) notedSince(t time.Time) bool {
	return slices.ContainsFunc(p.out.History, func(e v1.Interruption) bool { return e.Slice == nil && !e.Time.Time.Before(t) })
}

// headEntry is an entry of the history for what happens to the head now.
func (p *planner) headEntry(reason string) v1.Interruption {
	e := v1.Interruption{Time: metav1.NewTime(p.now), Reason: reason}
	if n := p.obs.Head.Node; n != nil {
		e.FromPool = n.Name
	}
	return e
}

// noteHead adds an entry about the whole job to the history, unless one is
// open.
func (p *planner) noteHead(e v1.Interruption) bool {
	for _, other := range p.out.History {
		if other.Slice == nil && other.DownSeconds == nil {
			return false
		}
	}
	p.out.History = append(p.out.History, e)
	return true
}

// closeHistory completes the entries about the whole job once another head is
// Ready, and all entries once the job rests. A JobSet that ended may be made
// again.
func (p *planner) closeHistory() {
	h := &p.obs.Head
	if p.resting != "" && (p.obs.Job.Ended || !p.obs.JobSet.Ended) {
		for i := range p.out.History {
			if e := &p.out.History[i]; e.DownSeconds == nil {
				e.DownSeconds = ptr.To(int64(p.now.Sub(e.Time.Time).Seconds()))
			}
		}
		return
	}
	if !h.Ready || h.Node == nil || p.ending != "" {
		return
	}
	for i := range p.out.History {
		e := &p.out.History[i]
		if e.Slice == nil && e.DownSeconds == nil && !h.Created.Before(e.Time.Time) {
			e.ToPool = h.Node.Name
			e.DownSeconds = ptr.To(int64(p.now.Sub(e.Time.Time).Seconds()))
		}
	}
}
