package plan

import (
	"time"

	v1 "pathways.domain/pathways-job/api/v1"
)

// do takes one action, as the operator would, with its preconditions.
func (w *world) do(a Action) {
	w.dirty = true
	if w.head != nil && w.head.MainExited && a.Kind != ReleaseHold && a.Kind != DeleteOrphanPod && !w.jobSet.Restarting && !w.jobSet.Deleting {
		w.fail("%s although the program has ended", actionWords(a))
	}
	switch a.Kind {
	case FencePool:
		for _, n := range w.pool(a.Pool).nodes {
			if n.Fence == "" {
				n.Fence, n.FencedSince = w.job.UID, w.now
			}
		}
		w.checkFence(a)
	case ClearReplaceSlice:
		w.job.ReplaceSlice = ""
	case MarkHeadDisrupted:
		if h := w.head; h != nil && h.UID == a.UID && !h.Phase.Terminal() {
			h.Disrupted = "PodDeleted"
		}
	case EvictHead, MarkHeadPodFailed, RecreateJobSet:
		w.doHead(a)
	case DeleteChildJob, HoldLost, ReleaseLost, ReleaseHold, FailChildJob:
		w.doChild(a)
	case ForceDeletePod, ShortenGrace, DeleteFailedLeaderPod, DeleteOrphanPod:
		w.doPod(a)
	default:
		w.fail("unknown action %s", a.Kind)
	}
}

func (w *world) doHead(a Action) {
	h := w.head
	w.checkRestart(a)
	switch {
	case a.Kind == RecreateJobSet:
		if a.UID == w.jobSet.UID {
			w.jobSet.Deleting = true
		}
	case h == nil || h.UID != a.UID:
	case a.Kind == EvictHead:
		if !h.Deleting {
			h.Disrupted, h.Deleting, h.DeletionTime = "EvictionByEvictionAPI", true, w.now.Add(30*time.Second)
		}
	case a.Kind == MarkHeadPodFailed:
		h.Phase, h.Disrupted, h.Ready = PodFailed, "DeletionByPodGC", false
	}
}

func (w *world) doChild(a Action) {
	var c *simChild
	for _, other := range w.child {
		if other != nil && other.UID == a.UID {
			c = other
		}
	}
	if c == nil {
		return
	}
	switch a.Kind {
	case DeleteChildJob:
		w.checkDelete(a, c)
		if a.Hold && !c.Deleting {
			c.Held = true
		}
		c.Deleting = true
	case HoldLost:
		for _, pod := range w.pods[c.slice] {
			if pod.JobUID == c.UID && pod.Phase != PodPending {
				w.fail("parallelism 0 on slice %d, whose pod %s has run", c.slice, pod.Name)
			}
		}
		c.Parallelism = 0
	case ReleaseLost:
		c.Parallelism = a.Parallelism
	case ReleaseHold:
		c.Held = false
	case FailChildJob:
		w.checkRestart(a)
		if !c.Deadline {
			c.Deadline, c.failAt = true, w.now.Add(time.Second)
		}
	}
}

func (w *world) doPod(a Action) {
	if w.head != nil && w.head.UID == a.UID {
		w.checkRestart(a)
		w.endHead()
		return
	}
	for i, pods := range w.pods {
		for k, pod := range pods {
			if pod.UID != a.UID {
				continue
			}
			switch a.Kind {
			case ShortenGrace:
				c := w.child[i]
				if c == nil || c.UID != pod.JobUID || !c.Deleting {
					w.fail("the grace of %s is shortened although its Job is not being deleted", pod.Name)
				}
				end := w.now.Add(time.Duration(a.GraceSeconds) * time.Second)
				if !pod.Deleting || pod.DeletionTime.After(end) {
					pod.Deleting, pod.DeletionTime = true, end
				}
			case DeleteOrphanPod:
				if pod.JobUID != "" {
					w.fail("pod %s has a Job, and is deleted as an orphan", pod.Name)
				}
				w.stopPod(pod, 30*time.Second)
			default:
				w.checkForceDelete(a, pod)
				w.count(pod)
				w.pods[i] = append(pods[:k:k], pods[k+1:]...)
			}
			return
		}
	}
}

// fences is the fence controller.
func (w *world) fences() bool {
	changed := false
	for _, pool := range w.pools {
		seen := Pool{Name: pool.name, Want: pool.want, Nodes: pool.nodes}
		if !seen.Fenced() {
			continue
		}
		owner := FenceOwner{
			Active: !w.jobSet.Suspended && !w.job.Ended && !w.job.Deleting, Slices: w.job.Status.Slices,
			Terminating: w.stopsOn(pool),
		}
		w.observe() // counts the pods on the nodes
		lift, why, again := Lift(&seen, owner, w.policy, w.now)
		if !again.IsZero() {
			w.wait(again)
		}
		if !lift {
			continue
		}
		for _, n := range pool.nodes {
			n.Fence = ""
		}
		w.note("fence of %s lifted: %s", pool.name, why)
		w.dirty, changed = true, true
	}
	return changed
}

func (w *world) stopsOn(pool *simPool) bool {
	for _, pods := range w.pods {
		for _, pod := range pods {
			if pod.Deleting && pod.Node != nil && pod.Node.Pool == pool.name {
				return true
			}
		}
	}
	return false
}

func (w *world) pool(name string) *simPool {
	for _, pool := range w.pools {
		if pool.name == name {
			return pool
		}
	}
	return nil
}

// state is the written state of a slice.
func (w *world) state(i int) v1.SliceStatus {
	if i < len(w.job.Status.Slices) {
		return w.job.Status.Slices[i]
	}
	return v1.SliceStatus{}
}
