package plan

import (
	"time"

	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// slice is one slice while Next works on it: what was observed, what was
// written last, and what will be written.
type slice struct {
	*planner
	in  *Slice
	was v1.SliceStatus
	st  v1.SliceStatus
	facts
	// jobGone: the Job of its last incarnation was deleted by someone else;
	// upGone: and that one was up.
	jobGone, upGone bool
	// rose: a worker fell since the last look, and it is the workers' own
	// doing.
	rose bool
	// fenceDone guards against two fence actions for one slice.
	fenceDone bool
	// revived: the replace-slice annotation gave it a fresh budget.
	revived bool
}

// facts are what the pods of a slice add up to. Unless it says otherwise, a
// field is about the pods of the present child Job.
type facts struct {
	ready, bound, unbound, live int32
	// present are those that exist, terminal or not.
	present int32
	// remaining are pods of any incarnation that are not terminal.
	remaining int32
	// stopping: a pod of any incarnation has a deletionTimestamp.
	stopping bool
	// started: some container has run.
	started bool
	// node that stands for the pool and zone; mixed: more than one pool.
	node  *Node
	mixed bool
	pool  *Pool

	// failed is the worst failure of a host of a pod that is not terminal,
	// failedPod that pod; steadyAt is when an unsteady host becomes notReady.
	failed    failure
	failedPod *Pod
	steadyAt  time.Time

	terminating *Pod
	maintenance *Pod
	ahead       *Pod
	aheadAt     time.Time // when the next maintenance comes into the lead time
	disrupted   *Pod
	preempted   bool
	deleted     *Pod

	succeeded  int32
	exitedZero *Pod // succeeded by itself
	ended      *Pod // Failed by its worker container's non-zero exit
	badLeader  *Pod // Failed without that, index 0
	down       *Pod // its worker container has ended and does not run
	mostFallen *Pod
	nominated  bool
	// unschedulable is since when the first of the unbound pods is.
	unschedulable time.Time
}

func (s *slice) look() {
	f := &s.facts
	*f = facts{}
	for i := range s.in.Pods {
		pod := &s.in.Pods[i]
		if !pod.Phase.Terminal() {
			f.remaining++
			f.stopping = f.stopping || pod.Deleting
		}
		if s.in.Child == nil || pod.JobUID != s.in.Child.UID {
			continue
		}
		f.count(pod, s.planner)
	}
	if f.node != nil {
		f.pool = s.poolOf(f.node)
	}
	if !f.aheadAt.IsZero() && s.obs.Policy.MaintenanceLeadTime > 0 {
		s.wake(f.aheadAt.Truncate(time.Second).Add(time.Second))
	}
}

func (f *facts) count(pod *Pod, p *planner) {
	policy, now := p.obs.Policy, p.now
	f.present++
	if pod.Phase != PodPending {
		f.started = true
	}
	if pod.Disrupted != "" {
		f.disrupted = first(f.disrupted, pod)
		f.preempted = f.preempted || pod.Disrupted == "PreemptionByScheduler"
	}
	if pod.Deleting {
		f.deleted = first(f.deleted, pod)
	}
	if n := pod.falls(); n > 0 && (f.mostFallen == nil || n > f.mostFallen.falls()) {
		f.mostFallen = pod
	}
	switch pod.Phase {
	case PodSucceeded:
		f.succeeded++
		if !pod.Deleting && pod.Disrupted == "" {
			f.exitedZero = first(f.exitedZero, pod)
		}
		return
	case PodFailed:
		if pod.Exited && pod.ExitCode != 0 && !pod.Deleting && pod.Disrupted == "" {
			f.ended = first(f.ended, pod)
		} else if pod.Index == 0 && pod.Disrupted == "" {
			f.badLeader = first(f.badLeader, pod)
		}
		return
	}
	f.live++
	if pod.Down && !pod.Deleting {
		f.down = first(f.down, pod)
	}
	n := pod.Node
	if n == nil {
		f.unbound++
		f.nominated = f.nominated || pod.Nominated
		if !pod.Unschedulable.IsZero() && (f.unschedulable.IsZero() || pod.Unschedulable.Before(f.unschedulable)) {
			f.unschedulable = pod.Unschedulable
		}
		return
	}
	f.bound++
	if f.node == nil {
		f.node = n
	} else if n.Pool != f.node.Pool {
		f.mixed = true
	}
	if n.plain() {
		if pod.Ready && !pod.Deleting {
			f.ready++
		}
		return
	}
	bad, until := p.judge(n)
	if bad > f.failed {
		f.failed, f.failedPod = bad, pod
	}
	if bad == unsteady && (f.steadyAt.IsZero() || until.Before(f.steadyAt)) {
		f.steadyAt = until
	}
	if terminating(n) {
		f.terminating = first(f.terminating, pod)
	}
	if n.MaintenanceOngoing {
		f.maintenance = first(f.maintenance, pod)
	}
	if maintenanceAhead(n, policy, now) {
		f.ahead = first(f.ahead, pod)
	} else if lead := n.MaintenanceAt.Add(-policy.MaintenanceLeadTime); lead.After(now) &&
		(f.aheadAt.IsZero() || lead.Before(f.aheadAt)) {
		f.aheadAt = lead
	}
	if bad == sound && pod.Ready && !pod.Deleting {
		f.ready++
	}
}

// falls is how often the pod's worker container has ended by itself: a
// restart that the kubelet still waits with counts already.
func (pod *Pod) falls() int32 {
	if pod.Down && !pod.Deleting && !pod.Phase.Terminal() {
		return pod.Restarts + 1
	}
	return pod.Restarts
}

// orphaned says that the pod's Job was deleted without it, and that nobody
// stops it.
func (pod *Pod) orphaned() bool { return pod.JobUID == "" && !pod.Deleting }

func first(a, b *Pod) *Pod {
	if a != nil {
		return a
	}
	return b
}

// allReady says that the slice is Ready: all its pods, on healthy nodes, in
// one pool.
func (s *slice) allReady() bool {
	c := s.in.Child
	return c != nil && !c.Deleting && s.ready == s.obs.Job.VMs && (!s.mixed || s.obs.Job.VMs == 1)
}

// signal says that something outside explains why workers end: a host that
// fails or goes, a preemption, a deletion that is not our own.
func (s *slice) signal() bool {
	deleted := s.jobGone || s.deleted != nil || s.missing() || s.in.Child != nil && s.in.Child.Deleting
	return s.failed > sound || s.terminating != nil || s.maintenance != nil || s.disrupted != nil ||
		deleted && !s.leaving()
}

// leaving says that the present child Job was given up.
func (s *slice) leaving() bool {
	return s.in.Child != nil && s.st.LeavingJobUID == s.in.Child.UID
}

// wasUp says that the present incarnation, or one that someone has just
// deleted, has been Ready, so that it had state to lose.
func (s *slice) wasUp() bool {
	return s.upGone || s.in.Child != nil && s.st.ReadyJobUID == s.in.Child.UID
}

// missing says that pods of an incarnation that was Ready are no more: they
// were deleted and went while nobody looked. The Job controller would make
// new ones, but only after its back-off. Other rungs deal with indexes that
// have completed, and with a leader that keeps the others away.
func (s *slice) missing() bool {
	c := s.in.Child
	return s.wasUp() && c != nil && s.present < s.obs.Job.VMs && c.Parallelism > 0 && c.CompletedIndexes == 0 && !c.Complete && s.badLeader == nil
}

// over says that the slice has used up its budget.
func (s *slice) over() bool {
	budget := s.obs.Job.Budget()
	return budget >= 0 && ptr.Deref(s.st.Restarts, 0) > budget
}

// inflexibleRestarts is the budget of a slice of a job that is not elastic.
const inflexibleRestarts = 4

// Budget is how often a slice may restart between whole restarts; -1 is for
// ever.
func (j *Job) Budget() int32 {
	switch {
	case j.Headless:
		return -1
	case j.ElasticSlices > 0:
		return j.MaxSliceRestarts
	}
	return inflexibleRestarts
}
