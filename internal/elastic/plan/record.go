package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

func (p *planner) stamp() *metav1.Time { return ptr.To(metav1.NewTime(p.now)) }

// set puts the slice into a state other than Ready.
func (s *slice) set(state v1.SliceState, reason, message string) {
	if s.st.State != state {
		if s.st.State == v1.SliceReady && s.st.DownSince == nil {
			s.st.DownSince = s.stamp()
		}
		s.st.State, s.st.LastTransitionTime = state, s.stamp()
	}
	s.st.Reason, s.st.Message = reason, message
}

// resume notes that the slice is Ready.
func (s *slice) resume() {
	st := &s.st
	uid := s.uidOf()
	if st.State == v1.SliceReady && st.ReadyJobUID == uid && st.Reason == "" && st.NodePool == s.node.Pool {
		return
	}
	if st.FirstReadyTime == nil {
		st.FirstReadyTime = s.stamp()
	}
	if st.DownSince != nil {
		st.DownSeconds = ptr.To(s.downFor() + int64(s.now.Sub(st.DownSince.Time).Seconds()))
	}
	if st.State != v1.SliceReady {
		st.State, st.LastTransitionTime = v1.SliceReady, s.stamp()
	}
	st.ReadyJobUID, st.LeavingJobUID, st.HoldUntil, st.DownSince = uid, "", nil, nil
	st.Reason, st.Message = "", ""
	st.NodePool, st.Zone = s.node.Pool, s.node.Zone
	if st.Restarts == nil {
		st.Restarts = ptr.To[int32](0)
	}
	if st.Replacements == nil {
		st.Replacements = ptr.To[int32](0) // one that was replaced before it was Ready has some
	}
}

// announce compares the slice with what was written last, and writes the
// history and the events.
func (s *slice) announce() {
	was, st := &s.was, &s.st
	if st.State == was.State && st.Reason == was.Reason && st.LeavingJobUID == was.LeavingJobUID {
		return
	}
	switch {
	case st.State == v1.SliceReady:
		if was.State != v1.SliceReady {
			s.announceReady()
		} else if st.Reason != "" && st.Reason != was.Reason && s.obs.Policy.Mode == DryRun {
			s.event(Event{Slice: s.in.Index, Reason: EventWouldAct, Cause: st.Reason, Message: s.about(st.Message)})
		}
		return
	case s.resting != "" || s.ending != "" || s.fresh || st.Reason == ReasonJobEnding:
		return
	}
	s.noteDown()
	if s.repair.Restart != nil {
		return // one event tells of the restart of the whole job
	}
	if event, warning := s.downEvent(); event != "" {
		s.event(Event{Warning: warning, Slice: s.in.Index, Reason: event, Cause: st.Reason, Message: s.about(st.Message)})
	}
}

func (s *slice) about(message string) string {
	return "Slice " + itoa(s.in.Index) + ": " + message
}

// downEvent names the event of a slice that goes down, or whose reason is
// another now.
func (s *slice) downEvent() (reason string, warning bool) {
	was, st := &s.was, &s.st
	left := st.LeavingJobUID != "" && st.LeavingJobUID != was.LeavingJobUID
	changed := st.Reason != was.Reason || was.State == v1.SliceReady
	switch {
	case st.State == v1.SliceLost:
		if was.State != v1.SliceLost {
			return EventSliceLost, true
		}
	case st.Reason == "":
	case left && st.State == v1.SliceSuspending:
		return EventSliceSuspended, false
	case left, st.State == v1.SliceReplacing && changed:
		return EventSliceReplacing, true
	case s.obs.Policy.Mode == DryRun && changed && len(s.out.Suppressed) > 0:
		return EventWouldAct, false
	case st.State == v1.SliceRestarting && (changed || was.State != st.State):
		return EventSliceFailing, true
	case changed && st.State == v1.SliceSuspended, changed && st.Reason == v1.ReasonPartiallyScheduled:
		return EventSliceWaiting, true
	}
	return "", false
}

// noteDown opens an entry of the history, or corrects the open one.
func (s *slice) noteDown() {
	if s.st.DownSince == nil || s.st.Reason == "" {
		return
	}
	if e := s.openEntry(); e != nil {
		e.Reason = s.st.Reason
		return
	}
	if s.was.DownSince != nil {
		return // its entry is too old to be kept
	}
	s.out.History = append(s.out.History, v1.Interruption{
		Time: *s.st.DownSince, Slice: ptr.To(s.in.Index), Reason: s.st.Reason, FromPool: s.was.NodePool,
	})
}

func (s *slice) openEntry() *v1.Interruption {
	i := slices.IndexFunc(s.out.History, func(e v1.Interruption) bool {
		return s.owns(e) && e.DownSeconds == nil
	})
	if i < 0 {
		return nil
	}
	return &s.out.History[i]
}

// announceReady closes the history's entry and tells which way the slice came
// back.
func (s *slice) announceReady() {
	from, cause := s.was.NodePool, s.was.Reason
	if s.was.DownSince == nil {
		return // its first start; startedEvent tells of that
	}
	down := s.now.Sub(s.was.DownSince.Time)
	if e := s.openEntry(); e != nil {
		from, cause = e.FromPool, e.Reason
		e.ToPool, e.DownSeconds = s.st.NodePool, ptr.To(int64(down.Seconds()))
	}
	if s.was.State == v1.SlicePending {
		return
	}
	e := Event{Slice: s.in.Index, Cause: cause, Down: down}
	switch {
	case s.was.State == v1.SliceRestarting && cause != ReasonWorkerNotReady:
		e.Reason = EventSliceRestarted
		e.Message = fmt.Sprintf("Ready again in pool %s, restarted in place; it was down for %s.", s.st.NodePool, seconds(down))
	case from != s.st.NodePool:
		e.Reason = EventSliceHotSwapped
		e.Message = fmt.Sprintf("Ready again, moved from pool %s to pool %s; it was down for %s.", from, s.st.NodePool, seconds(down))
	default:
		e.Reason = EventSliceResumed
		e.Message = fmt.Sprintf("Ready again in pool %s; it was down for %s.", s.st.NodePool, seconds(down))
	}
	if cause != "" {
		e.Message += " Reason: " + cause + "."
	}
	e.Message = s.about(e.Message)
	s.event(e)
}

func seconds(d time.Duration) string { return d.Truncate(time.Second).String() }

// startedEvent is the one event of the start of all slices.
func (p *planner) startedEvent(all bool) {
	if !all {
		return
	}
	for i := range p.slices {
		if was := p.slices[i].was.State; was == v1.SlicePending || was == "" {
			p.event(Event{
				Slice: JobLevel, Reason: EventSlicesStarted,
				Message: "All slices are Ready: " + p.out.SliceSummary + ".",
			})
			return
		}
	}
}

// conditions are SlicesReady and Healthy.
func (p *planner) conditions() []metav1.Condition {
	reason, message := p.readyMessage()
	if p.resting != "" {
		reason, message = p.resting, restWords[p.resting]
	}
	if p.fleet.paused {
		message += " " + p.pausedMessage()
	}
	var kept []metav1.Condition
	for _, t := range []string{v1.ConditionSlicesReady, v1.ConditionHealthy} {
		if c := meta.FindStatusCondition(p.obs.Job.Status.Conditions, t); c != nil {
			kept = append(kept, *c)
		}
	}
	put := func(t string, ok bool, reason, message string) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&kept, metav1.Condition{
			Type: t, Status: status, Reason: reason, Message: message,
			ObservedGeneration: p.obs.Job.Generation, LastTransitionTime: metav1.NewTime(p.now),
		})
	}
	put(v1.ConditionSlicesReady, p.resting == "" && p.out.ReadySlices == p.obs.Job.Slices, reason, message)
	ok, reason, message := p.health()
	put(v1.ConditionHealthy, ok, reason, message)
	return kept
}

// health: the head is Ready and no more slices are down than may be.
func (p *planner) health() (ok bool, reason, message string) {
	if p.resting != "" {
		return false, p.resting, restWords[p.resting]
	}
	down, may := p.obs.Job.Slices-p.out.ReadySlices, p.obs.Job.ElasticSlices
	slicesDown := pluralAre(int(down), "slice") + " down, and " + itoa(may) + " may be (elasticSlices)."
	switch {
	case p.ending != "":
		return false, ReasonJobEnding, "The job is ending or restarting: " + p.ending + "."
	case !p.obs.Head.Ready:
		return false, ReasonHeadNotReady, "The head is not Ready."
	case down > may:
		return false, ReasonSlicesDown, slicesDown + " The client waits for them."
	case down > 0:
		return true, ReasonHealthy, "The head is Ready; " + slicesDown
	}
	return true, ReasonHealthy, "The head and all slices are Ready."
}
