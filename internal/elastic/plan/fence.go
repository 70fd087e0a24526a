package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// fenceOff fences the pool that the slice leaves, where it is not whole or
// the move asks for it.
func (s *slice) fenceOff(m *move) {
	if s.obs.Job.VMs == 1 || !s.obs.Policy.FencePools || s.pool == nil {
		return
	}
	broken := !s.pool.Whole(s.obs.Policy, s.now)
	if m.fenceFor == 0 && !broken {
		return
	}
	fence := &v1.SliceFence{Pool: s.pool.Name}
	if m.fenceFor > 0 {
		fence.Until = ptr.To(metav1.NewTime(s.now.Add(m.fenceFor)))
	}
	if s.st.Fence == nil || s.st.Fence.Pool != fence.Pool || fence.Until != nil {
		s.st.Fence = fence
	}
	s.fencePool(m.reason, fence.Pool, fence.Until != nil)
}

// fencePool puts the taint where it is missing.
func (s *slice) fencePool(reason, name string, evenWhole bool) {
	pool := s.pools[name]
	until := s.st.Fence
	if pool == nil || s.fenceDone || !s.obs.Policy.FencePools ||
		until != nil && until.Until != nil && !s.now.Before(until.Until.Time) ||
		!evenWhole && pool.Whole(s.obs.Policy, s.now) {
		return
	}
	for _, n := range pool.Nodes {
		if n.Fence == "" && !n.Gone { // one that is being deleted still attracts pods
			s.fenceDone = true
			s.act(Action{
				Kind: FencePool, Slice: s.in.Index, Reason: reason, Pool: name,
				Message: "Pool " + name + " is kept free until it is whole.",
			})
			return
		}
	}
}

// dropFence forgets the fence that the slice left behind, once it has served.
func (s *slice) dropFence() {
	fence := s.st.Fence
	if fence == nil || s.leaving() {
		return
	}
	elsewhere := s.bound > 0 && s.node.Pool != fence.Pool
	pool := s.pools[fence.Pool]
	switch {
	case pool == nil || !pool.Fenced(),
		fence.Until != nil && !s.now.Before(fence.Until.Time),
		elsewhere && s.st.Reason == v1.ReasonRequested:
		s.st.Fence = nil
	case elsewhere && fence.Until != nil && s.st.Reason == v1.ReasonMaintenance:
		s.st.Fence = &v1.SliceFence{Pool: fence.Pool}
	case fence.Until != nil:
		s.wake(fence.Until.Time)
	}
}

// stuckWithoutFence: fencing is off, and the slice's old pool would take it
// back although it is not fit for it.
func (s *slice) stuckWithoutFence(m *move) bool {
	return s.obs.Job.VMs > 1 && !s.obs.Policy.FencePools && s.pool != nil &&
		(m.fenceFor > 0 || m.awayFromBroken && !s.pool.Whole(s.obs.Policy, s.now)) && s.pool.attracts()
}

// keptFromPool: the same for a slice that was stopped; its hold lasts.
func (s *slice) keptFromPool() bool {
	if s.obs.Job.VMs == 1 || s.obs.Policy.FencePools || s.unmovable() {
		return false
	}
	pool := s.pools[s.st.NodePool]
	return pool != nil && !pool.Whole(s.obs.Policy, s.now) && pool.attracts()
}

// attracts says that the scheduler may put a pod on some node of the pool.
func (pool *Pool) attracts() bool {
	for _, n := range pool.Nodes {
		if schedulable(n) {
			return true
		}
	}
	return false
}

// FenceOwner is the PathwaysJob whose UID a fence carries.
type FenceOwner struct {
	// Active: it exists, is not being deleted, has not ended and is not
	// suspended.
	Active bool
	// Slices is its status.slices.
	Slices []v1.SliceStatus
	// Terminating: a pod of it on the pool has a deletionTimestamp.
	Terminating bool
}

// Lift says whether the fence of a pool goes now, in words why, and if it
// stays when to look again (zero: when something changes).
func Lift(pool *Pool, owner FenceOwner, policy Policy, now time.Time) (lift bool, why string, again time.Time) {
	if !policy.FencePools {
		return true, "fencing is switched off", again
	}
	if !owner.Active {
		return true, "its PathwaysJob is gone or does not run", again
	}
	whole := pool.Whole(policy, now)
	for i := range owner.Slices {
		s := &owner.Slices[i]
		if s.Fence == nil || s.Fence.Pool != pool.Name {
			continue
		}
		until := s.Fence.Until
		switch {
		case until != nil && !now.Before(until.Time):
			return true, "it was for a limited time", again
		case s.LeavingJobUID != "":
			return false, "a slice is leaving the pool", again
		case until == nil:
		case s.Reason == v1.ReasonRequested, s.Reason == v1.ReasonMaintenance:
			return false, "a slice looks for another pool", until.Time
		case whole && pool.Idle():
			return true, "the pool is whole and free", again
		default:
			return false, "the pool is not whole and free", until.Time
		}
	}
	switch {
	case !whole:
		return false, "the pool is not whole", again
	case owner.Terminating:
		return false, "pods of the job still stop there", again
	}
	return true, "the pool is whole", again
}
