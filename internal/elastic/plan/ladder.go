package plan

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Bounds of the reasons table.
const (
	// partialPatience is how long a slice may be half placed.
	partialPatience = 30 * time.Second
	// partialFence is how long at most the pool stays fenced that a half
	// placed slice left.
	partialFence = 5 * time.Minute
	// voluntaryBind is how long a slice that moves voluntarily may look for
	// another pool before it may return.
	voluntaryBind = time.Minute
	// voluntaryPause is how long a moved slice must be Ready before the next.
	voluntaryPause = 2 * time.Minute
	// voluntaryLook is how often a slice that should move voluntarily looks
	// whether it may by now: nobody tells when a pool becomes free.
	voluntaryLook = 15 * time.Second
	// preemptionHold is how long a preempted slice stays away from the nodes
	// that it frees.
	preemptionHold = time.Minute
)

// rung is one row of the reasons table: try returns whether it is the
// slice's, and has then dealt with it.
type rung struct {
	name string
	try  func(*slice) bool
}

// ladder is climbed by each slice; the first rung that holds is the last.
var ladder = []rung{
	{"JobEnding", (*slice).jobEnding},
	{"Lost", (*slice).lost},
	{"Leaving", (*slice).carryOn},
	{v1.ReasonHostFailed, (*slice).hostFailed},
	{v1.ReasonNodeTerminating, (*slice).nodeTerminating},
	{v1.ReasonMaintenance, (*slice).underMaintenance},
	{v1.ReasonPreempted, (*slice).wasPreempted},
	{v1.ReasonPodDeleted, (*slice).podDeleted},
	{v1.ReasonRequested, (*slice).wasRequested},
	{v1.ReasonWorkerExited, (*slice).workerExited},
	{v1.ReasonWorkerFailed, (*slice).workerFailed},
	{v1.ReasonPartiallyScheduled, (*slice).partiallyScheduled},
	{"Settled", (*slice).settle},
}

// climb finds the slice's rung, and does what holds on every rung.
func (s *slice) climb(rungs []rung) {
	for _, r := range rungs {
		if r.try(s) {
			break
		}
	}
	s.releaseHold()
	s.dropFence()
	s.deleteOrphans()
	s.forceDelete()
}

// jobEnding: nothing is done or charged, and holds are dropped.
func (s *slice) jobEnding() bool {
	switch {
	case s.resting != "":
		s.letGo()
		s.st.Fence, s.st.DownSince = nil, nil
		s.set(v1.SliceSuspended, s.resting, restWords[s.resting])
	case s.ending != "":
		s.letGo()
		if s.st.State == v1.SliceReady && !s.allReady() {
			s.set(v1.SliceSuspending, ReasonJobEnding, "Its workers stop with the whole job: "+s.ending+".")
		} else if s.st.State == "" {
			s.set(v1.SlicePending, ReasonJobEnding, "Not started: "+s.ending+".")
		}
	case s.in.Child != nil && s.in.Child.Restarts != s.obs.JobSet.Restarts:
		s.letGo()
		s.set(v1.SlicePending, ReasonJobEnding, "The whole job restarts: workers of its last start are being stopped.")
	default:
		return false
	}
	s.fenceForRestart()
	return true
}

// fenceForRestart keeps a whole restart from coming back to a pool with a
// failed host.
func (s *slice) fenceForRestart() {
	stale := s.in.Child != nil && s.in.Child.Restarts != s.obs.JobSet.Restarts
	if s.resting == "" && s.failed >= notReady && !s.paused() && !s.unmovable() && !s.observing() &&
		(s.wanted != nil || s.obs.JobSet.Restarting || stale) {
		s.fenceOff(&move{reason: v1.ReasonHostFailed})
	}
}

// letGo drops holds and what is not charged yet.
func (s *slice) letGo() {
	s.st.HoldUntil, s.st.PendingCharges, s.st.LeavingJobUID = nil, nil, ""
	if c := s.in.Child; c != nil && c.Parallelism == 0 && !c.Deleting && s.obs.JobSet.Suspended {
		s.releaseLost()
	}
}

// hostFailed: fence and replace; survivors get little grace.
func (s *slice) hostFailed() bool {
	if s.failed < notReady {
		return false
	}
	n := s.failedPod.Node
	why := fmt.Sprintf("Host %s (worker %d) %s.", n.Name, s.failedPod.Index, failureWords(n))
	if s.failed == notReady && !s.paused() && !s.unmovable() && s.free <= 0 && s.fleet.takeable == 0 {
		if until := n.ReadySince.Add(notReadyPatience); s.now.Before(until) {
			s.wake(until)
			s.set(v1.SliceSuspended, v1.ReasonHostFailed, why+" No other pool is free, so the slice waits for the host until "+
				clock(until)+" before it is given up. "+s.capacity())
			return true
		}
	}
	s.free--
	s.interrupt(move{reason: v1.ReasonHostFailed, state: v1.SliceReplacing, why: why, lost: true, brief: true, awayFromBroken: true})
	return true
}

// nodeTerminating: suspended now, with its full grace.
func (s *slice) nodeTerminating() bool {
	if s.terminating == nil {
		return false
	}
	s.interrupt(move{
		reason: v1.ReasonNodeTerminating, state: v1.SliceSuspending, awayFromBroken: true,
		why: fmt.Sprintf("Node %s (worker %d) is being terminated.", s.terminating.Node.Name, s.terminating.Index),
	})
	return true
}

// underMaintenance: under way, as nodeTerminating; ahead, a voluntary move.
func (s *slice) underMaintenance() bool {
	if s.maintenance != nil {
		s.interrupt(move{
			reason: v1.ReasonMaintenance, state: v1.SliceSuspending, awayFromBroken: true,
			why: fmt.Sprintf("Node %s (worker %d) is under maintenance.", s.maintenance.Node.Name, s.maintenance.Index),
		})
		return true
	}
	if s.ahead == nil || !s.mayMove() {
		return false
	}
	s.free--
	s.repair.LastVoluntaryMove = s.stamp()
	s.interrupt(move{
		reason: v1.ReasonMaintenance, state: v1.SliceSuspending, fenceFor: voluntaryBind, awayFromBroken: true,
		why: fmt.Sprintf("Maintenance of node %s (worker %d) begins at %s, and another pool is free.",
			s.ahead.Node.Name, s.ahead.Index, clock(s.ahead.Node.MaintenanceAt)),
	})
	return true
}

// mayMove says that a voluntary move of this slice does no harm now.
func (s *slice) mayMove() bool {
	job := &s.obs.Job
	at := s.ahead.Node.MaintenanceAt
	s.wake(at)
	if look := s.now.Add(voluntaryLook); look.Before(at) {
		s.wake(look)
	}
	tried := s.st.LastReplacementTime
	if s.observing() || s.unmovable() || s.paused() || !job.Resumable || s.obs.OtherVoluntaryMoves || s.free <= 0 ||
		s.repair.Restart != nil || s.st.State != v1.SliceReady || !s.allReady() ||
		tried != nil && tried.After(at.Add(-s.obs.Policy.MaintenanceLeadTime)) {
		return false
	}
	down := int32(1)
	for i := range s.slices {
		other := &s.slices[i]
		if other == s {
			continue
		}
		if other.st.State != v1.SliceReady || !other.allReady() {
			down++
			continue
		}
		last, moved := s.repair.LastVoluntaryMove, other.st.LastReplacementTime
		if last != nil && moved != nil && !moved.Before(last) {
			if next := other.st.LastTransitionTime.Add(voluntaryPause); s.now.Before(next) {
				s.wake(next)
				return false
			}
		}
	}
	return down <= max(1, job.ElasticSlices)
}

// wasPreempted: given up as a whole at once.
func (s *slice) wasPreempted() bool {
	if s.disrupted == nil {
		return false
	}
	m := move{
		reason: v1.ReasonPreempted, state: v1.SliceSuspending,
		why: fmt.Sprintf("Worker %d was disrupted: %s.", s.disrupted.Index, s.disrupted.Disrupted),
	}
	if s.preempted {
		m.hold = preemptionHold
		m.why = fmt.Sprintf("Worker %d was preempted by pods of a higher priority.", s.disrupted.Index)
	}
	s.interrupt(m)
	return true
}

// podDeleted: someone deleted a pod of the slice, or its Job.
func (s *slice) podDeleted() bool {
	var why string
	switch {
	case s.upGone:
		s.followNewJob()
		return true
	case s.deleted != nil:
		why = fmt.Sprintf("Pod %s (worker %d) was deleted.", s.deleted.Name, s.deleted.Index)
	case s.in.Child != nil && s.in.Child.Deleting:
		why = "Its Job was deleted."
	case s.missing():
		why = fmt.Sprintf("%d of its %d pods were deleted.", s.obs.Job.VMs-s.present, s.obs.Job.VMs)
	default:
		return false
	}
	s.interrupt(move{reason: v1.ReasonPodDeleted, state: v1.SliceSuspending, why: why})
	return true
}

// followNewJob deals with a slice whose Job someone deleted: JobSet creates
// another by itself, and there is nothing left to give up.
func (s *slice) followNewJob() {
	m := move{reason: v1.ReasonPodDeleted, why: "Its Job was deleted."}
	if s.endsJob(&m) {
		s.want(m.reason, "Slice "+itoa(s.in.Index)+": "+m.why+" "+s.endWords(&m), false)
		s.stayPut(m, s.restartWords())
		return
	}
	s.st.Replacements = ptr.To(ptr.Deref(s.st.Replacements, 0) + 1)
	s.set(v1.SliceSuspended, m.reason, m.why+" JobSet creates it again, and the slice resumes by itself.")
}

// wasRequested: the replace-slice annotation.
func (s *slice) wasRequested() bool {
	if s.obs.Job.ReplaceSlice == "" || s.requested() != int(s.in.Index) || s.in.Child == nil || s.revived ||
		s.observing() || s.paused() || s.unmovable() {
		return false
	}
	m := move{reason: v1.ReasonRequested, state: v1.SliceSuspending, why: "The replace-slice annotation asked for it."}
	if s.free > 0 {
		m.fenceFor = voluntaryBind
	}
	s.interrupt(m)
	return true
}

// workerExited: an index has completed because its pod was being stopped.
func (s *slice) workerExited() bool {
	c := s.in.Child
	if c == nil || s.exitedZero != nil || s.succeeded == 0 && c.CompletedIndexes == 0 && !c.Complete {
		return false
	}
	s.interrupt(move{
		reason: v1.ReasonWorkerExited, state: v1.SliceReplacing,
		why: "A worker exited with 0 while it was being stopped, so its Job would never start it again.",
	})
	return true
}

// workerFailed: a worker ended by itself. The kubelet restarts it in place;
// where that cannot be, the slice is replaced.
func (s *slice) workerFailed() bool {
	switch {
	case s.ended != nil:
		s.interrupt(move{reason: v1.ReasonWorkerFailed, state: v1.SliceReplacing, why: s.exitWords(s.ended), survives: true})
	case s.exitedZero != nil:
		s.interrupt(move{
			reason: v1.ReasonWorkerFailed, state: v1.SliceReplacing, survives: true,
			why: fmt.Sprintf("Worker %d exited with 0 although the job goes on.", s.exitedZero.Index),
		})
	case s.rose:
		s.wake(s.now.Add(time.Second)) // it may be Ready again already
		s.set(v1.SliceRestarting, v1.ReasonWorkerFailed, s.exitWords(s.mostFallen)+" It is restarted in place. "+s.budgetWords())
	case s.down != nil:
		s.set(v1.SliceRestarting, v1.ReasonWorkerFailed, s.exitWords(s.down)+" It is restarted in place. "+s.budgetWords())
	default:
		return false
	}
	return true
}

// partiallyScheduled: some pods are bound and others cannot be.
func (s *slice) partiallyScheduled() bool {
	c := s.in.Child
	if c == nil || s.obs.Job.VMs == 1 || c.Parallelism == 0 {
		return false
	}
	if s.badLeader != nil && s.live < s.obs.Job.VMs {
		s.interrupt(move{
			reason: v1.ReasonPartiallyScheduled, state: v1.SliceReplacing, fenceFor: partialFence,
			why:    fmt.Sprintf("The leader pod %s has failed and keeps JobSet from starting the others.", s.badLeader.Name),
			leader: s.badLeader,
		})
		return true
	}
	if s.bound == 0 || s.unbound == 0 || s.unschedulable.IsZero() || s.nominated {
		return false
	}
	if until := s.unschedulable.Add(partialPatience); s.now.Before(until) {
		s.wake(until)
		return false
	}
	why := fmt.Sprintf("%d of its %d workers are placed in pool %s, and the others do not fit there.",
		s.bound, s.obs.Job.VMs, s.node.Pool)
	if s.free <= 0 {
		s.set(s.waiting(), v1.ReasonPartiallyScheduled, why+" No other whole pool is free, so the slice waits. "+s.capacity())
		return true
	}
	s.free--
	s.interrupt(move{reason: v1.ReasonPartiallyScheduled, state: v1.SliceReplacing, why: why, fenceFor: partialFence, survives: true})
	return true
}

// waiting is the state of a slice that is down and waits: one that was never
// Ready since the job's start stays Pending.
func (s *slice) waiting() v1.SliceState {
	if s.st.State == v1.SlicePending || s.st.State == "" {
		return v1.SlicePending
	}
	return v1.SliceSuspended
}

// settle: nothing is wrong that the ladder knows; say what the pods do.
func (s *slice) settle() bool {
	switch {
	case s.allReady():
		s.resume()
	case s.failed == unsteady:
		s.wake(s.steadyAt)
		n := s.failedPod.Node
		s.set(s.waiting(), v1.ReasonHostFailed, fmt.Sprintf("Host %s (worker %d) %s. If it does not return until %s, the slice is moved.",
			n.Name, s.failedPod.Index, failureWords(n), clock(s.steadyAt)))
	case s.waiting() == v1.SlicePending:
		s.pend()
	case s.wasUp() && s.bound > 0:
		s.stayDown()
	default:
		s.awaitStart()
	}
	return true
}

// stayDown: the incarnation was Ready, and is not for no reason above.
func (s *slice) stayDown() {
	if s.st.State == v1.SliceRestarting {
		return
	}
	if s.st.State == v1.SliceSuspended && s.st.Reason == v1.ReasonHostFailed {
		s.set(s.st.State, s.st.Reason, fmt.Sprintf("Its host is back, and %d of %d workers are Ready.", s.ready, s.obs.Job.VMs))
		return
	}
	why := fmt.Sprintf("%d of %d workers are Ready.", s.ready, s.obs.Job.VMs)
	if s.mixed {
		why = "Its workers run in more than one pool."
	}
	s.set(v1.SliceRestarting, ReasonWorkerNotReady, why)
}

// awaitStart: the slice was given up, and its next incarnation is not Ready
// yet.
func (s *slice) awaitStart() {
	reason := s.st.Reason
	switch {
	case s.in.Child == nil || s.in.Child.Deleting:
		s.set(s.moving(), reason, "It starts again as soon as JobSet has created its Job again.")
	case s.present == 0:
		s.set(s.moving(), reason, "Its pods are being created.")
	case s.bound > 0:
		s.st.NodePool, s.st.Zone = s.node.Pool, s.node.Zone
		s.set(s.moving(), reason, fmt.Sprintf("It starts in pool %s.", s.node.Pool))
	case s.fleet.idle > 0 || s.fleet.takeable > 0:
		s.set(s.moving(), reason, "It waits for the scheduler to place it on a free pool.")
	default:
		s.set(v1.SliceSuspended, reason, s.capacity()+" It resumes by itself once one is.")
	}
}

// moving is the state in which a given-up slice looks for its next pool.
func (s *slice) moving() v1.SliceState {
	switch s.st.Reason {
	case v1.ReasonHostFailed, v1.ReasonWorkerExited, v1.ReasonWorkerFailed, v1.ReasonPartiallyScheduled:
		return v1.SliceReplacing
	}
	return v1.SliceSuspended
}

// restartsOf is the number of charged restarts.
func (s *slice) restartsOf() int32 { return ptr.Deref(s.st.Restarts, 0) }
