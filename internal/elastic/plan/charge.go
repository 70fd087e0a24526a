package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Bounds of the charging rules.
const (
	// provisional is how long a restart may still be explained by a host
	// failure or a preemption.
	provisional = 90 * time.Second
	// together is how close the falls of all slices lie when their cause is
	// not theirs.
	together = 10 * time.Second
	// afterHead is how long after its head's restart workers end because of
	// it; they may be seen to end beforeHead earlier.
	afterHead  = time.Minute
	beforeHead = 10 * time.Second
	// maxPending bounds the list of charges in status.
	maxPending = 32
)

// observeFalls notes the restarts of the slice's workers since the last look,
// as charges that are not final yet where they are the workers' own.
func (s *slice) observeFalls() {
	if s.signal() {
		s.st.PendingCharges = nil
	}
	falls, at := int32(0), s.now
	if s.mostFallen != nil {
		falls = s.mostFallen.falls()
		at = s.exitTime(s.mostFallen)
	}
	if last := first(s.ended, s.exitedZero); last != nil {
		falls++
		at = s.exitTime(last)
	}
	seen := ptr.Deref(s.st.SeenRestarts, 0)
	if falls <= seen {
		return
	}
	s.st.SeenRestarts = ptr.To(falls)
	if s.signal() || s.leaving() || s.ending != "" {
		return
	}
	s.rose = true
	if s.obs.Job.Headless || !s.obs.Job.EverRunning || s.headUnsteady(at) {
		return
	}
	s.st.PendingCharges = append(clip(s.st.PendingCharges), v1.PendingCharge{
		Time: metav1.NewTime(at), Count: falls - seen,
	})
	if n := len(s.st.PendingCharges); n > maxPending {
		s.st.PendingCharges = s.st.PendingCharges[n-maxPending:]
	}
}

// exitTime is when the pod's worker container ended, by its own account.
func (s *slice) exitTime(pod *Pod) time.Time {
	if pod.Exited && !pod.ExitedAt.IsZero() && pod.ExitedAt.Before(s.now) {
		return pod.ExitedAt.Truncate(time.Second)
	}
	return s.now
}

// clip makes the next append copy, so that the observation stays as it is.
func clip(c []v1.PendingCharge) []v1.PendingCharge { return c[:len(c):len(c)] }

// headUnsteady says that a worker that ended at t may have ended because its
// client did.
func (p *planner) headUnsteady(t time.Time) bool {
	h := &p.obs.Head
	if h.UID == "" || h.Phase != PodRunning || h.MainExited {
		return true
	}
	near := func(at time.Time) bool {
		return !at.IsZero() && !t.Before(at.Add(-beforeHead)) && t.Before(at.Add(afterHead))
	}
	return p.headReplaced && near(h.Created) || near(h.ContainerRestarted)
}

// refund drops the provisional charges that turned out to be nobody's: those
// around a restart of the head, and falls of all Ready slices together.
func (p *planner) refund() {
	for i := range p.slices {
		s := &p.slices[i]
		for k := 0; k < len(s.st.PendingCharges); {
			at := s.st.PendingCharges[k].Time.Time
			switch {
			case p.headUnsteady(at):
				s.drop(at, at)
			case p.fellTogether(at):
				for j := range p.slices {
					p.slices[j].drop(at.Add(-together), at.Add(together))
				}
				k = 0
			default:
				k++
			}
		}
	}
}

// drop takes the charges between two times, both included, away.
func (s *slice) drop(from, to time.Time) {
	var kept []v1.PendingCharge
	for _, c := range s.st.PendingCharges {
		if c.Time.Time.Before(from) || c.Time.After(to) {
			kept = append(kept, c)
		}
	}
	s.st.PendingCharges = kept
}

// fellTogether says that at least two slices fell around t, and that no slice
// stood through it.
func (p *planner) fellTogether(t time.Time) bool {
	fell := 0
	for i := range p.slices {
		s := &p.slices[i]
		if s.fellNear(t) {
			fell++
		} else if s.stood(t) {
			return false
		}
	}
	return fell >= 2
}

// stood says that the slice was Ready around t. Where it went down since, the
// history tells whether that was later.
func (s *slice) stood(t time.Time) bool {
	switch {
	case s.was.State == v1.SliceReady && s.was.LastTransitionTime != nil && !s.was.LastTransitionTime.After(t):
		return true
	case s.was.FirstReadyTime == nil || s.was.FirstReadyTime.After(t):
		return false
	}
	later := false
	for _, e := range s.obs.Job.Status.History {
		if !s.owns(e) {
			continue
		}
		begin, end := e.Time.Time, s.now
		if e.DownSeconds != nil {
			end = begin.Add(time.Duration(*e.DownSeconds) * time.Second)
		}
		if !begin.After(t.Add(together)) && !end.Before(t.Add(-together)) {
			return false
		}
		later = later || begin.After(t)
	}
	return later
}

// fellNear says that the slice went down around t. Where a host failed in the
// same moment there is no charge, but the history tells.
func (s *slice) fellNear(t time.Time) bool {
	near := func(at time.Time) bool {
		d := at.Sub(t)
		return d >= -together && d <= together
	}
	return slices.ContainsFunc(s.st.PendingCharges, func(c v1.PendingCharge) bool { return near(c.Time.Time) }) ||
		slices.ContainsFunc(s.obs.Job.Status.History, func(e v1.Interruption) bool { return s.owns(e) && near(e.Time.Time) })
}

// owns says that the entry of the history is about the slice.
func (s *slice) owns(e v1.Interruption) bool { return e.Slice != nil && *e.Slice == s.in.Index }

// settleCharges makes the provisional charges final that are old enough.
func (s *slice) settleCharges() {
	due := int32(0)
	var kept []v1.PendingCharge
	for _, c := range s.st.PendingCharges {
		if end := c.Time.Add(provisional); s.now.Before(end) {
			kept = append(kept, c)
			s.wake(end)
		} else {
			due += c.Count
		}
	}
	if due > 0 {
		s.st.PendingCharges = kept
		s.st.Restarts = ptr.To(ptr.Deref(s.st.Restarts, 0) + due)
	}
}
