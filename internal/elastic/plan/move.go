package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Bounds of replacements and holds.
const (
	// firstSpacing doubles with every replacement in a row, up to mostSpacing.
	firstSpacing = 10 * time.Second
	mostSpacing  = time.Minute
	// steady is how long a slice must be Ready for its row to end.
	steady = 10 * time.Minute
	// holdStep is by how much a hold is prolonged while its cause lasts.
	holdStep = 10 * time.Second
	// preemptorLook is how often a slice that could start elsewhere looks
	// whether the preemptor has its nodes: nobody tells.
	preemptorLook = time.Second
)

// move is an interruption of a slice, and how its rung wants it dealt with.
type move struct {
	reason string
	why    string
	// state while the slice's pods stop.
	state v1.SliceState
	// lost: there was no time to save the slice's state.
	lost bool
	// survives: no state is lost that was not before, or its loss is charged
	// elsewhere.
	survives bool
	// brief: its pods get little grace.
	brief bool
	// awayFromBroken: where its pool is broken it must not return there.
	awayFromBroken bool
	// hold is for how long the slice is kept from starting again.
	hold time.Duration
	// fenceFor fences even a whole pool, for so long at most.
	fenceFor time.Duration
	// leader is a Failed leader pod in the way.
	leader *Pod
}

// interrupt gives the slice up, or says why not.
func (s *slice) interrupt(m move) {
	switch {
	case s.unmovable():
		s.stayPut(m, "Kueue placed this job, so the slice is not moved.")
	case s.paused() && !(s.failedPod != nil && s.failedPod.Node.Gone):
		s.stayPut(m, s.pausedMessage())
	case m.state == v1.SliceReplacing && s.stuckWithoutFence(&m):
		s.stayPut(m, "Fencing is switched off and nodes of pool "+s.node.Pool+
			" could take the slice back, so it waits for the pool's repair.")
	case s.endsJob(&m):
		s.fenceOff(&m)
		s.want(m.reason, "Slice "+itoa(s.in.Index)+": "+m.why+" "+s.endWords(&m), false)
		s.stayPut(m, s.restartWords())
	case s.wanted != nil:
		s.fenceOff(&m)
		s.stayPut(m, s.restartWords())
	default:
		s.leave(m)
	}
}

// unmovable: Kueue's topology assignment places this job.
func (p *planner) unmovable() bool { return p.obs.Job.KueueTopology }

// paused: too many pools look failed at once.
func (p *planner) paused() bool { return p.fleet.paused }

// endsJob says that the job's program cannot go on without the slice's state.
func (s *slice) endsJob(m *move) bool {
	job := &s.obs.Job
	switch {
	case m.survives:
		return false
	case s.withHead():
		return true
	case job.Headless, job.ElasticSlices > 0, !s.wasUp():
		return false
	}
	return m.lost || !job.Resumable
}

// withHead says that the slice's host is the head's.
func (s *slice) withHead() bool {
	return s.obs.Job.Colocated && s.in.Index == 0 && s.obs.Head.Node != nil
}

// stayPut says what happened to a slice that is not given up. One that is
// whole all the same goes on.
func (s *slice) stayPut(m move, note string) {
	if s.allReady() {
		s.resume()
		s.st.Reason, s.st.Message = m.reason, m.why+" "+note
		return
	}
	state := s.waiting()
	if s.wanted != nil && !s.observing() && state != v1.SlicePending {
		state = v1.SliceReplacing
	}
	s.set(state, m.reason, m.why+" "+note)
}

// leave gives the present incarnation up: intent in the status, then the
// actions.
func (s *slice) leave(m move) {
	before := s.st
	s.st.LeavingJobUID, s.st.JobUID = s.in.Child.UID, s.in.Child.UID
	s.st.Replacements = ptr.To(ptr.Deref(s.st.Replacements, 0) + 1)
	s.st.PendingCharges = nil
	if m.reason == v1.ReasonWorkerFailed {
		s.st.PendingCharges = before.PendingCharges
	}
	if s.node != nil {
		s.st.NodePool, s.st.Zone = s.node.Pool, s.node.Zone
	}
	s.space(m.hold)
	if s.keptFromPool() {
		s.prolong(s.now.Add(holdStep))
	}
	s.set(m.state, m.reason, m.why+" "+s.moveWords(&m))
	s.fenceOff(&m)
	s.giveUp()
	if m.brief {
		s.shortenGrace()
	}
	if m.leader != nil {
		s.act(Action{Kind: DeleteFailedLeaderPod, Slice: s.in.Index, Reason: m.reason, Message: m.why,
			Object: m.leader.Name, UID: m.leader.UID})
	}
	if s.observing() {
		s.st = before
		s.stayPut(m, s.observingWords())
	}
}

// space counts the replacement, and holds the slice where replacements follow
// each other too fast or the move asks for it.
func (s *slice) space(hold time.Duration) {
	row := ptr.Deref(s.st.ReplacementsInRow, 0)
	last := s.st.LastReplacementTime
	if s.was.State == v1.SliceReady && s.was.LastTransitionTime != nil && s.now.Sub(s.was.LastTransitionTime.Time) >= steady {
		row = 0
	}
	s.st.HoldUntil = nil
	at := s.now
	if row > 0 && last != nil {
		wait := firstSpacing
		for n := int32(1); n < row && wait < mostSpacing; n++ {
			wait *= 2
		}
		if next := last.Add(min(wait, mostSpacing)); next.After(s.now) {
			at = next
			s.prolong(next)
		}
	}
	if hold > 0 {
		s.prolong(s.now.Add(hold))
	}
	s.st.ReplacementsInRow = ptr.To(row + 1)
	s.st.LastReplacementTime = ptr.To(metav1.NewTime(at))
}

// prolong holds the slice until t, or longer.
func (s *slice) prolong(t time.Time) {
	if s.st.HoldUntil == nil || s.st.HoldUntil.Time.Before(t) {
		s.st.HoldUntil = ptr.To(metav1.NewTime(t))
	}
}

// carryOn carries through what leave began, as long as the child Job exists.
func (s *slice) carryOn() bool {
	if !s.leaving() {
		return false
	}
	if s.recovered() {
		return false
	}
	if s.paused() && !(s.failedPod != nil && s.failedPod.Node.Gone) {
		return true
	}
	if s.failed >= notReady && s.st.Reason != v1.ReasonHostFailed && s.st.State != v1.SliceLost {
		s.getWorse()
	}
	if s.st.Fence != nil {
		s.fencePool(s.st.Reason, s.st.Fence.Pool, s.st.Fence.Until != nil)
	}
	s.giveUp()
	if s.st.Reason == v1.ReasonHostFailed && s.failed >= notReady {
		s.shortenGrace()
	}
	if hold := s.st.HoldUntil; s.remaining == 0 && hold != nil && s.st.State != v1.SliceLost {
		s.set(v1.SliceSuspended, s.st.Reason, s.holdWords(hold.Time))
	}
	return true
}

// recovered takes a decision back that nobody has acted on, where the slice
// is well again by now.
func (s *slice) recovered() bool {
	if s.in.Child.Deleting || !s.allReady() || s.signal() || s.st.State == v1.SliceLost ||
		s.st.Reason == v1.ReasonRequested || s.st.Reason == v1.ReasonMaintenance {
		return false
	}
	s.st.LeavingJobUID, s.st.HoldUntil = "", nil
	s.st.Replacements = ptr.To(max(0, ptr.Deref(s.st.Replacements, 0)-1))
	return true
}

// getWorse: a host failed while the slice was being stopped.
func (s *slice) getWorse() {
	m := move{reason: v1.ReasonHostFailed, state: v1.SliceReplacing, lost: true, awayFromBroken: true}
	n := s.failedPod.Node
	m.why = "Host " + n.Name + " " + failureWords(n) + " while the slice was being stopped."
	s.fenceOff(&m)
	if s.endsJob(&m) {
		s.want(m.reason, "Slice "+itoa(s.in.Index)+": "+m.why+" "+s.endWords(&m), false)
	}
	if !s.observing() {
		s.set(m.state, m.reason, m.why+" "+s.moveWords(&m))
	}
}

// giveUp deletes the child Job, unless that is under way.
func (s *slice) giveUp() {
	c := s.in.Child
	if c.Deleting {
		return
	}
	s.act(Action{
		Kind: DeleteChildJob, Slice: s.in.Index, Reason: s.st.Reason, Message: s.st.Message,
		Object: c.Name, UID: c.UID, Hold: s.st.HoldUntil != nil && s.st.HoldUntil.After(s.now),
	})
}

// shortenGrace leaves the pods of a failed slice little time: their state is
// lost.
func (s *slice) shortenGrace() {
	soon := s.now.Add(failedGraceSeconds * time.Second)
	for i := range s.in.Pods {
		pod := &s.in.Pods[i]
		if pod.JobUID != s.in.Child.UID || pod.Phase.Terminal() || pod.GraceSeconds <= failedGraceSeconds ||
			pod.Node == nil || lifeless(pod.Node) || pod.Deleting && !pod.DeletionTime.After(soon) {
			continue
		}
		s.act(Action{
			Kind: ShortenGrace, Slice: s.in.Index, Reason: s.st.Reason, Message: s.st.Message,
			Object: pod.Name, UID: pod.UID, GraceSeconds: failedGraceSeconds,
		})
	}
}

// deleteOrphans stops pods that no Job controls any more: they would keep the
// slice's hosts for ever.
func (s *slice) deleteOrphans() {
	if s.resting == ReasonJobDeleted || s.observing() {
		return
	}
	for i := range s.in.Pods {
		pod := &s.in.Pods[i]
		if pod.orphaned() {
			s.act(Action{
				Kind: DeleteOrphanPod, Slice: s.in.Index, Reason: v1.ReasonPodDeleted, Object: pod.Name, UID: pod.UID,
				Message: "Pod " + pod.Name + " lost its Job, and makes room for the slice's new one.",
			})
		}
	}
}

// forceDelete removes pods that can or will not stop by themselves.
func (s *slice) forceDelete() {
	restarting := s.obs.JobSet.Restarting || s.obs.JobSet.Deleting
	if s.resting != "" || s.obs.Head.MainExited && !restarting || s.observing() || s.failed < notReady && !s.stopping {
		return
	}
	c := s.in.Child
	for i := range s.in.Pods {
		pod := &s.in.Pods[i]
		n := pod.Node
		if n == nil || pod.Phase.Terminal() || s.paused() && !n.Gone {
			continue
		}
		doomed := pod.Deleting || c != nil && c.UID == pod.JobUID && (c.Deleting || s.leaving())
		a := Action{Kind: ForceDeletePod, Slice: s.in.Index, Reason: s.st.Reason, Object: pod.Name, UID: pod.UID}
		switch {
		case doomed && lifeless(n):
			a.Message = "Host " + n.Name + " " + failureWords(n) + "."
		case pod.Deleting:
			stuck := pod.DeletionTime.Add(stuckAfterGrace)
			if s.now.Before(stuck) {
				s.wake(stuck)
				continue
			}
			a.Message = "Pod " + pod.Name + " on " + n.Name + " should have stopped at " + clock(pod.DeletionTime) + " and is force-deleted."
			s.event(Event{Warning: true, Slice: s.in.Index, Reason: EventPodStuck, Cause: s.st.Reason, Message: a.Message})
		default:
			continue
		}
		s.act(a)
	}
}

// releaseHold takes the hold off when its time has come. It does so in every
// mode: what was held is never left held.
func (s *slice) releaseHold() {
	c := s.in.Child
	if c == nil || !c.Held {
		if !s.leaving() {
			s.st.HoldUntil = nil
		}
		return
	}
	if hold := s.st.HoldUntil; hold != nil && s.leaving() && !s.observing() {
		if s.now.Before(hold.Time) && !s.elsewhere() {
			s.wake(hold.Time)
			return
		}
		if s.keptFromPool() || s.preemptorIsFirst() {
			s.prolong(s.now.Add(holdStep))
			s.wake(s.st.HoldUntil.Time)
			return
		}
	}
	s.st.HoldUntil = nil
	s.out.Actions = append(s.out.Actions, Action{
		Kind: ReleaseHold, Slice: s.in.Index, Reason: s.st.Reason, Message: "The slice may start again.",
		Object: c.Name, UID: c.UID,
	})
}

// elsewhere: a preempted slice can start on an idle pool before its hold ends,
// because the preemptor has all of the nodes that the slice left.
func (s *slice) elsewhere() bool {
	if s.st.Reason != v1.ReasonPreempted || s.remaining > 0 || s.fleet.idle == 0 {
		return false
	}
	if last := s.st.LastReplacementTime; last != nil && s.now.Before(last.Time) { // spacing
		s.wake(last.Time)
		return false
	}
	for i := range s.obs.Pools {
		pool := &s.obs.Pools[i]
		if pool.Name == s.st.NodePool && slices.ContainsFunc(pool.Nodes, func(n *Node) bool { return n.TPUPods == 0 }) {
			s.wake(s.now.Add(preemptorLook))
			return false
		}
	}
	return true
}

// preemptorIsFirst: pods of the preempted slice still stop, and a new leader
// must not take a node from under the preemptor.
func (s *slice) preemptorIsFirst() bool {
	return s.st.Reason == v1.ReasonPreempted && s.remaining > 0
}
