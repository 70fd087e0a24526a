package plan

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Next decides what the job's status says and what is done next.
func Next(o Observation, now time.Time) Decision {
	return next(&o, now, ladder)
}

// planner is Next at work.
type planner struct {
	obs    *Observation
	now    time.Time
	slices []slice
	fleet  fleet
	pools  map[string]*Pool
	// free is how many idle pools are not spoken for yet.
	free int
	// ending says why the job is ending or restarting as a whole, "" if it is
	// not; resting why it does not run at all.
	ending  string
	resting string
	// fresh: the JobSet's attempt is another than the last look's.
	fresh bool
	// headReplaced: the head's pod is younger than workers of its attempt.
	headReplaced bool

	// wanted is a whole restart that was decided, now or before.
	wanted *v1.WholeRestart
	repair v1.RepairStatus
	out    Decision
}

func next(o *Observation, now time.Time, rungs []rung) Decision {
	p := &planner{obs: o, now: now.Truncate(time.Second)}
	p.out.Slices = make([]v1.SliceStatus, len(o.Slices))
	p.out.History = append([]v1.Interruption(nil), o.Job.Status.History...)
	p.out.TotalSlices = o.Job.Slices
	if o.Job.Status.Repair != nil {
		p.repair = *o.Job.Status.Repair
	}
	p.survey()
	p.begin()
	p.recoverHead()
	p.clearOldHeads()
	for i := range p.slices {
		p.slices[i].revive()
		p.slices[i].forgive()
	}
	for i := range p.slices {
		p.slices[i].observeFalls()
	}
	p.refund()
	for i := range p.slices {
		p.slices[i].settleCharges()
	}
	p.spendBudgets()
	for i := range p.slices {
		p.slices[i].noteKilled()
	}
	for i := range p.slices {
		p.slices[i].climb(rungs)
		p.slices[i].announce()
	}
	p.restartJob()
	p.finish()
	return p.out
}

// survey looks at the pools and at every slice's pods.
func (p *planner) survey() {
	o := p.obs
	p.fleet = surveyPools(o, p.now)
	p.pauseOrResume()
	p.pools = make(map[string]*Pool, len(o.Pools))
	for i := range o.Pools {
		p.pools[o.Pools[i].Name] = &o.Pools[i]
	}
	p.slices = make([]slice, len(o.Slices))
	last := o.Job.Status.Slices
	for i := range p.slices {
		s := &p.slices[i]
		s.planner, s.in = p, &o.Slices[i]
		if i < len(last) && ptr.Deref(last[i].Index, -1) == s.in.Index {
			s.was = last[i]
		} else {
			s.was = v1.SliceStatus{Index: ptr.To(s.in.Index)}
			for j := range last {
				if ptr.Deref(last[j].Index, -1) == s.in.Index {
					s.was = last[j]
				}
			}
		}
		s.st = s.was
		s.look()
	}
}

// pauseOrResume notes when a mass failure begins and ends.
func (p *planner) pauseOrResume() {
	switch {
	case p.repair.Paused == nil && p.fleet.paused:
		p.repair.Paused = p.stamp()
		p.event(Event{Warning: true, Slice: JobLevel, Reason: EventRepairPaused, Message: p.pausedMessage()})
	case p.repair.Paused != nil && !p.fleet.paused:
		p.repair.Paused, p.repair.Resumed = nil, p.stamp()
		p.event(Event{Slice: JobLevel, Reason: EventRepairResumed, Message: "Fewer node pools look failed: slices are repaired again."})
	}
	if r := p.repair.Resumed; r != nil && !p.now.Before(r.Add(p.obs.Policy.NotReadyGrace)) {
		p.repair.Resumed = nil
	}
}

// poolOf finds the pool of a node. A pool of single-host slices is one node,
// and its name, the nodepool label, is not unique.
func (p *planner) poolOf(n *Node) *Pool {
	if p.obs.Job.VMs == 1 {
		return nil
	}
	return p.pools[n.Pool]
}

// begin finds out whether the job runs, and starts afresh after a whole
// restart.
func (p *planner) begin() {
	o := p.obs
	p.resting = restReason(o)
	p.ending = endReason(o)
	if o.JobSet.UID != "" {
		attempt := string(o.JobSet.UID) + "/" + strconv.Itoa(int(o.JobSet.Restarts))
		p.fresh = p.repair.Attempt != "" && p.repair.Attempt != attempt
		p.repair.Attempt = attempt
	}
	if p.fresh || p.resting != "" {
		p.repair.Restart = nil
	}
	for i := range p.slices {
		s := &p.slices[i]
		if p.fresh || o.JobSet.Suspended {
			s.startAfresh()
		}
		if p.resting == "" && s.st.Reason == ReasonJobSuspended {
			s.set(v1.SlicePending, "", "The job was resumed.")
		}
		c := s.in.Child
		p.headReplaced = p.headReplaced || c != nil && !o.Job.Colocated && c.Restarts == o.JobSet.Restarts &&
			c.Created.Before(o.Head.Created)
		s.jobGone = s.lostItsJob()
		s.upGone = s.jobGone && (s.st.State == v1.SliceReady || s.st.State == v1.SliceRestarting) && s.st.ReadyJobUID == s.st.JobUID
		if c != nil && s.st.JobUID != c.UID {
			s.st.JobUID, s.st.SeenRestarts = c.UID, nil
		}
		if c != nil && !s.leaving() {
			s.st.LeavingJobUID = ""
		}
	}
	p.free = p.fleet.idle
	for i := range p.slices {
		if s := &p.slices[i]; s.bound == 0 && s.in.Child != nil && s.in.Child.Parallelism > 0 {
			p.free--
		}
	}
}

// lostItsJob says that the Job of the last incarnation is no more, and that
// nobody here gave it up.
func (s *slice) lostItsJob() bool {
	c, js := s.in.Child, &s.obs.JobSet
	return s.st.JobUID != "" && s.uidOf() != s.st.JobUID && s.st.LeavingJobUID != s.st.JobUID && !s.fresh && js.UID != "" && !js.Suspended && (c == nil || c.Restarts == js.Restarts)
}

// forgive lets a slice go on whose budget was lowered below what it has used
// already: it has no restart left.
func (s *slice) forgive() {
	if s.over() && s.st.State != v1.SliceLost && s.repair.Restart == nil && s.resting == "" && s.ending == "" && !s.observing() {
		s.st.Restarts = ptr.To(s.obs.Job.Budget())
	}
}

// startAfresh forgets what a whole restart makes void.
func (s *slice) startAfresh() {
	s.st = v1.SliceStatus{
		Index: s.st.Index, State: s.st.State, Reason: s.st.Reason, Message: s.st.Message,
		LastTransitionTime: s.st.LastTransitionTime, NodePool: s.st.NodePool, Zone: s.st.Zone,
		FirstReadyTime: s.st.FirstReadyTime, DownSeconds: s.st.DownSeconds, DownSince: s.st.DownSince, JobUID: s.st.JobUID,
		SeenRestarts: s.st.SeenRestarts, Fence: s.st.Fence,
		Restarts: ptr.To[int32](0), Replacements: ptr.To[int32](0),
	}
	if s.st.State != "" && s.st.State != v1.SlicePending {
		s.set(v1.SlicePending, "", "The whole job was restarted.")
	}
}

// restReason says why nothing of the job should run, "" if it should.
func restReason(o *Observation) string {
	switch {
	case o.Job.Deleting:
		return ReasonJobDeleted
	case o.Job.Ended, o.JobSet.Ended:
		return ReasonJobEnded
	case o.JobSet.Suspended:
		return ReasonJobSuspended
	}
	return ""
}

// endReason says why the job is ending or restarting as a whole, "" if it is
// not.
func endReason(o *Observation) string {
	h := &o.Head
	switch {
	case o.JobSet.Deleting:
		return "its JobSet is being deleted"
	case o.JobSet.Restarting:
		return "its JobSet restarts it"
	case h.JobEnded:
		return "the head's Job has ended"
	case h.UID == "":
		return ""
	case h.MainExited:
		return "its program has ended"
	case h.Phase.Terminal():
		return "the head has ended"
	case h.Deleting:
		return "the head is being stopped"
	}
	for i := range o.Slices {
		c := o.Slices[i].Child
		if c != nil && c.Failed && c.Restarts == o.JobSet.Restarts {
			return fmt.Sprintf("the Job of slice %d has failed", o.Slices[i].Index)
		}
	}
	return ""
}

// observing says that no action is taken.
func (p *planner) observing() bool {
	return p.obs.Policy.Mode != Enforce || p.obs.Job.RepairDisabled
}

// wake asks to look again at t.
func (p *planner) wake(t time.Time) {
	if p.out.Wake.IsZero() || t.Before(p.out.Wake) {
		p.out.Wake = t
	}
}

func (p *planner) act(a Action) {
	if p.observing() {
		p.out.Suppressed = append(p.out.Suppressed, a)
		return
	}
	p.out.Actions = append(p.out.Actions, a)
}

func (p *planner) event(e Event) { p.out.Events = append(p.out.Events, e) }

// finish adds the slices up.
func (p *planner) finish() {
	all := true
	for i := range p.slices {
		s := &p.slices[i]
		p.out.Slices[i] = s.st
		if s.st.State == v1.SliceReady {
			p.out.ReadySlices++
		}
		all = all && s.st.State == v1.SliceReady
	}
	p.out.SliceSummary = strconv.Itoa(int(p.out.ReadySlices)) + "/" + strconv.Itoa(int(p.out.TotalSlices))
	p.clearAnnotation()
	p.startedEvent(all)
	p.out.Repair = &p.repair
	p.out.RepairPaused = p.fleet.paused
	p.out.Conditions = p.conditions()
	const most = 20
	if n := len(p.out.History); n > most {
		p.out.History = p.out.History[n-most:]
	}
	p.closeHistory()
	// Annotations are taken off before what they ask for is done, so that it
	// is done once.
	if n := len(p.out.Actions); n > 0 && p.out.Actions[n-1].Kind == ClearReplaceSlice {
		last := p.out.Actions[n-1]
		copy(p.out.Actions[1:], p.out.Actions[:n-1])
		p.out.Actions[0] = last
	}
}

// clearAnnotation takes the replace-slice annotation off once it was taken up,
// or names no slice.
func (p *planner) clearAnnotation() {
	value := p.obs.Job.ReplaceSlice
	if value == "" || p.observing() || p.resting != "" || p.ending != "" {
		return
	}
	a := Action{Kind: ClearReplaceSlice, Slice: JobLevel, Reason: v1.ReasonRequested, Message: "The request was taken up."}
	i := p.requested()
	switch {
	case i < 0:
		a.Message = fmt.Sprintf("The replace-slice annotation %q names no slice: %s.", value, p.possibleSlices())
		p.event(Event{Warning: true, Slice: JobLevel, Reason: EventBadAnnotation, Message: a.Message})
	case p.unmovable():
		a.Message = "The replace-slice annotation does nothing here: Kueue places the slices of this job."
		p.event(Event{Warning: true, Slice: JobLevel, Reason: EventBadAnnotation, Message: a.Message})
	case p.repair.Restart == nil && !p.slices[i].leaving() && !p.slices[i].revived:
		return
	}
	p.act(a)
}

func (p *planner) possibleSlices() string {
	if p.obs.Job.Slices == 1 {
		return "the job has one, 0"
	}
	return fmt.Sprintf("0 to %d are possible", p.obs.Job.Slices-1)
}

// requested is the slice that the replace-slice annotation names, or -1.
func (p *planner) requested() int {
	i, err := strconv.Atoi(p.obs.Job.ReplaceSlice)
	if err != nil || i < 0 || i >= len(p.slices) {
		return -1
	}
	return i
}

// uidOf is the UID of the slice's present incarnation.
func (s *slice) uidOf() types.UID {
	if s.in.Child == nil {
		return ""
	}
	return s.in.Child.UID
}
