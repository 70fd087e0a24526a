package plan

import (
	"fmt"

	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// lost: the slice has used up its budget, and stays down.
func (s *slice) lost() bool {
	if w := s.wanted; w != nil && ptr.Deref(w.Charged, false) && s.over() && !s.observing() && s.st.State != v1.SliceLost {
		// Its workers are going to be stopped, and that tells nothing.
		s.set(v1.SliceReplacing, w.Reason, w.Message)
		return true
	}
	if !s.over() || s.obs.Job.ElasticSlices == 0 {
		s.comeBack()
		return false
	}
	if s.wanted != nil || s.observing() {
		return s.st.State == v1.SliceLost && !s.allReady()
	}
	if s.st.State != v1.SliceLost {
		why := "Its workers ended too often."
		if s.mostFallen != nil {
			why = s.exitWords(s.mostFallen)
		}
		s.st.HoldUntil = nil
		s.set(v1.SliceLost, v1.ReasonWorkerFailed, fmt.Sprintf(
			"%s It has used up its restart budget (%d of %d) and stays down until the whole job restarts; the replace-slice annotation revives it.",
			why, s.restartsOf(), s.obs.Job.Budget()))
	}
	c := s.in.Child
	switch {
	case c == nil || s.paused():
	case s.leaving():
		s.giveUp()
	case c.Deleting || c.Parallelism == 0:
	case s.started || s.succeeded > 0 || c.CompletedIndexes > 0:
		// Its workers have run: parallelism 0 would complete indexes.
		s.st.LeavingJobUID, s.st.JobUID = c.UID, c.UID
		s.giveUp()
	default:
		s.act(Action{
			Kind: HoldLost, Slice: s.in.Index, Reason: s.st.Reason, Message: s.st.Message, Object: c.Name, UID: c.UID,
		})
	}
	return true
}

// revive gives a Lost slice a fresh budget, when it is asked for by name.
func (s *slice) revive() {
	if s.obs.Job.ReplaceSlice == "" || s.requested() != int(s.in.Index) || !s.over() || s.observing() {
		return
	}
	s.st.Restarts, s.st.PendingCharges, s.revived = ptr.To[int32](0), nil, true
}

// comeBack ends the hold of a slice whose budget is not used up (any more).
func (s *slice) comeBack() {
	if s.st.State == v1.SliceLost && !s.observing() {
		s.set(v1.SliceSuspended, s.st.Reason, "It has restarts left again, and starts again.")
	}
	if c := s.in.Child; c != nil && c.Parallelism == 0 && !c.Deleting {
		s.releaseLost()
	}
}

func (s *slice) releaseLost() {
	c := s.in.Child
	s.act(Action{
		Kind: ReleaseLost, Slice: s.in.Index, Reason: s.st.Reason, Message: "The slice may start again.",
		Object: c.Name, UID: c.UID, Parallelism: s.obs.Job.VMs,
	})
}
