package plan

import (
	"fmt"

	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// noteKilled says so, once, when a worker was killed before it had saved its
// part of the state of a slice that was stopped with notice. A program that
// is not elastic would wait for that state for ever: it starts again.
func (s *slice) noteKilled() {
	k := s.in.Killed
	if k == nil || s.was.LeavingJobUID != k.JobUID || s.was.ReadyJobUID != k.JobUID || s.resting != "" || s.ending != "" ||
		s.was.State != v1.SliceSuspending {
		return
	}
	e := s.openEntry()
	if e == nil || ptr.Deref(e.StateLost, false) {
		return
	}
	e.StateLost = ptr.To(true)
	message := s.about(fmt.Sprintf("Worker %d was killed before it had saved the slice's state: its grace period of %d s was too short.",
		k.Index, k.GraceSeconds))
	if job := &s.obs.Job; job.Headless || job.ElasticSlices > 0 {
		s.event(Event{Warning: true, Slice: s.in.Index, Reason: EventSliceStateLost, Cause: s.was.Reason, Message: message})
		return
	}
	s.want(s.was.Reason, message+" The job is not elastic. The whole job restarts; this is not charged.", false)
}
