package plan

import (
	"fmt"
	"time"
)

// The Job and JobSet controllers, and the scheduler.

// jobs is the Job controller and the garbage collector.
func (w *world) jobs() bool {
	changed := false
	for i, c := range w.child {
		if c == nil {
			continue
		}
		changed = w.oneJob(i, c) || changed
	}
	return changed
}

func (w *world) oneJob(i int, c *simChild) bool {
	changed := false
	for _, pod := range w.pods[i] {
		if pod.JobUID == c.UID && pod.Phase.Terminal() && !pod.counted {
			w.count(pod)
			changed = true
		}
	}
	if c.Deadline && !c.Failed && w.reached(c.failAt) {
		c.Failed, changed = true, true
		w.note("Job of slice %d has failed: DeadlineExceeded", i)
	}
	stop := c.Deleting || c.Failed || c.Parallelism == 0 || w.jobSet.Suspended
	if stop {
		for _, pod := range w.pods[i] {
			if pod.JobUID == c.UID && !pod.Deleting {
				w.stopPod(pod, 30*time.Second)
				changed = true
			}
		}
		if c.Deleting && !c.Held && len(w.pods[i]) == 0 {
			w.child[i] = nil
			return true
		}
		return changed
	}
	if c.Complete || !w.reached(c.backoff) {
		return changed
	}
	return w.createPods(i, c) || changed
}

// count is the Job controller's accounting of an ended pod.
func (w *world) count(pod *simPod) {
	c := w.child[pod.slice]
	if pod.counted || c == nil || c.UID != pod.JobUID {
		return
	}
	pod.counted = true
	if pod.Phase == PodSucceeded {
		if c.done == nil {
			c.done = map[int32]bool{}
		}
		c.done[pod.Index] = true
		if c.CompletedIndexes++; c.CompletedIndexes == w.job.VMs {
			c.Complete = true
		}
		return
	}
	c.fails++
	c.backoff = w.now.Add(10 * time.Second << min(c.fails-1, 5))
}

// createPods makes the leader, and its followers once it is bound. A Failed
// leader keeps the followers from being created (rule 13).
func (w *world) createPods(i int, c *simChild) bool {
	have := map[int32]bool{}
	var leader *simPod
	failedLeader := false
	for _, pod := range w.pods[i] {
		if pod.JobUID != c.UID {
			continue
		}
		if pod.Phase == PodFailed {
			failedLeader = failedLeader || pod.Index == 0
			continue
		}
		have[pod.Index] = true
		if pod.Index == 0 {
			leader = pod
		}
	}
	changed := false
	for index := range w.job.VMs {
		if have[index] || c.done[index] || index > 0 && (failedLeader || leader == nil || leader.Node == nil) {
			continue
		}
		w.pods[i] = append(w.pods[i], &simPod{
			Pod: Pod{
				Name: fmt.Sprintf("worker-%d-%d-%d", i, index, w.uid), UID: w.id("pod"), JobUID: c.UID, Index: index,
				GraceSeconds: 30,
			},
			slice: int32(i), created: w.now,
		})
		changed = true
	}
	return changed
}

func (w *world) stopPod(pod *simPod, grace time.Duration) {
	pod.Deleting, pod.DeletionTime = true, w.now.Add(grace)
}

// jobSets is the JobSet controller.
func (w *world) jobSets() bool {
	js := &w.jobSet
	empty := w.head == nil
	for _, c := range w.child {
		empty = empty && c == nil
	}
	switch {
	case js.Ended:
		if !w.job.Ended {
			w.job.Ended = true
			return true
		}
		return w.stopAll(nil)
	case js.Deleting:
		if !empty {
			return w.stopAll(nil)
		}
		charged := js.RestartsCharged
		*js = JobSet{UID: w.id("jobset"), MaxRestarts: js.MaxRestarts - charged}
		w.restarted()
		return true
	case js.Suspended:
		return w.stopAll(nil)
	case js.Restarting:
		old := func(restarts int32) bool { return restarts != js.Restarts }
		if w.stopAll(old) {
			return true
		}
		for _, c := range w.child {
			if c != nil && old(c.Restarts) {
				return false
			}
		}
		if w.head != nil && w.head.counted {
			return false
		}
		js.Restarting = false
		return true
	}
	return w.runJobSet()
}

// stopAll deletes the head and the child Jobs (of an old attempt).
func (w *world) stopAll(old func(int32) bool) bool {
	changed := false
	if h := w.head; h != nil && !h.Deleting && (old == nil || h.counted) {
		h.Deleting, h.JobEnded, h.DeletionTime = true, true, w.now.Add(30*time.Second)
		changed = true
	}
	for _, c := range w.child {
		if c != nil && !c.Deleting && (old == nil || old(c.Restarts)) && !w.jobSet.Suspended {
			c.Deleting = true
			changed = true
		}
	}
	return changed
}

// runJobSet applies the failure policy, creates what is missing, and ends.
func (w *world) runJobSet() bool {
	js, h := &w.jobSet, w.head
	if h != nil && h.Phase.Terminal() && !h.counted {
		h.counted, h.JobEnded = true, true
		switch {
		case h.Phase == PodSucceeded:
			js.Ended = true
			w.note("JobSet has completed")
		case h.Disrupted != "" && h.PodFailurePolicy:
			w.restart(false)
		default:
			w.restart(true)
		}
		return true
	}
	for _, c := range w.child {
		if c != nil && c.Failed && !w.anyPods(c) {
			w.restart(true)
			return true
		}
	}
	if h == nil {
		w.head = &simHead{Head: Head{
			Name: "head", UID: w.id("head"), Created: w.now, PodFailurePolicy: !w.job.Headless,
		}, exitZero: false}
		return true
	}
	changed := false
	for i, c := range w.child {
		if c == nil && h.Ready {
			w.child[i] = &simChild{slice: int32(i), ChildJob: ChildJob{
				Name: fmt.Sprintf("job-worker-%d", i), UID: w.id("childjob"), Restarts: js.Restarts, Created: w.now,
				Parallelism: w.job.VMs,
			}}
			changed = true
		}
	}
	return changed
}

func (w *world) anyPods(c *simChild) bool {
	for _, pod := range w.pods[c.slice] {
		if pod.JobUID == c.UID {
			return true
		}
	}
	return false
}

func (w *world) restart(charged bool) {
	js := &w.jobSet
	if charged {
		if js.RestartsCharged >= js.MaxRestarts {
			js.Ended = true
			w.note("JobSet has failed: all %d restarts are used", js.MaxRestarts)
			return
		}
		js.RestartsCharged++
	}
	js.Restarts++
	js.Restarting = true
	if w.head != nil {
		w.head.counted = true
	}
	w.note("JobSet restarts everything, charged: %t", charged)
	w.restarted()
}

func (w *world) restarted() {
	clear(w.truth.ownFalls)
	w.truth.headRestarts++
	w.checkHeadRestarts()
}

// schedule is the scheduler.
func (w *world) schedule() bool {
	changed := false
	if h := w.head; h != nil && h.Node == nil && !h.Deleting {
		for _, k := range w.rng.Perm(len(w.heads)) {
			if n := w.heads[k]; schedulable(n) {
				h.Node, h.stage, changed = n, w.now.Add(time.Second), true
				break
			}
		}
	}
	for _, i := range w.rng.Perm(len(w.pods)) {
		for _, pod := range w.pods[i] {
			if pod.Node != nil || pod.Deleting || pod.Phase.Terminal() {
				continue
			}
			if n := w.place(i, pod); n != nil {
				pod.Node, pod.Unschedulable, pod.stage, changed = n, time.Time{}, w.now.Add(time.Second), true
			} else if pod.Unschedulable.IsZero() {
				pod.Unschedulable, changed = w.now, true
			}
		}
	}
	return changed
}

// place finds a node: for a leader in any pool without pods of another slice,
// for a follower in the leader's.
func (w *world) place(i int, pod *simPod) *Node {
	for _, k := range w.rng.Perm(len(w.pools)) {
		pool := w.pools[k]
		if pool.rival != nil || w.job.VMs > 1 && !w.admits(pool, i, pod) {
			continue
		}
		for _, n := range pool.nodes {
			if schedulable(n) && !w.taken(n) {
				return n
			}
		}
	}
	return nil
}

func (w *world) admits(pool *simPool, i int, pod *simPod) bool {
	mine := false
	for j, pods := range w.pods {
		for _, other := range pods {
			if other.Node == nil || other.Node.Pool != pool.name {
				if j == i && other.Node != nil {
					return false // pinned to where the slice is
				}
				continue
			}
			if j != i {
				return false
			}
			mine = mine || other.Index == 0 && other.JobUID == pod.JobUID && !other.Phase.Terminal()
		}
	}
	return pod.Index == 0 || mine
}

func (w *world) taken(n *Node) bool {
	for _, pods := range w.pods {
		for _, pod := range pods {
			if pod.Node == n && !pod.Phase.Terminal() {
				return true
			}
		}
	}
	return false
}
