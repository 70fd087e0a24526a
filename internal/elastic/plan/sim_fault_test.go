package plan

import (
	"strconv"
	"time"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Faults that a test injects.

// at plans a fault.
func (w *world) at(after time.Duration, do func(w *world)) {
	w.faults = append(w.faults, fault{at: epoch.Add(after), do: do})
}

// later plans one relative to now.
func (w *world) later(after time.Duration, do func(w *world)) {
	w.faults = append(w.faults, fault{at: w.now.Add(after), do: do})
}

// strike injects the faults whose time has come.
func (w *world) strike() bool {
	changed := false
	for i := 0; i < len(w.faults); i++ {
		if do := w.faults[i].do; do != nil && w.reached(w.faults[i].at) {
			w.faults[i].do = nil
			do(w)
			w.dirty, changed = true, true
		}
	}
	return changed
}

func (w *world) running(i int) []*simPod {
	var pods []*simPod
	for _, pod := range w.pods[i] {
		if pod.Phase == PodRunning && !pod.Down && !pod.Deleting && pod.Node != nil && !pod.Node.Gone && w.hidden[pod.Node].dead.IsZero() {
			pods = append(pods, pod)
		}
	}
	return pods
}

// fall ends a worker container.
func (w *world) fall(pod *simPod, code int32, message string) {
	pod.Ready, pod.Down, pod.Exited, pod.ExitCode, pod.ExitMessage = false, true, true, code, message
	pod.ExitedAt = w.now
	pod.stage = w.now.Add(time.Duration(1+w.rng.IntN(5)) * time.Second)
}

// ownFall is a fault of the slice's own.
func (w *world) ownFall(i int) {
	pods := w.running(i)
	if len(pods) == 0 || !w.truth.busy {
		return
	}
	w.fallOf(i, pods[w.rng.IntN(len(pods))].Index)
}

// fallOf lets one worker of a slice fall by itself.
func (w *world) fallOf(i int, index int32) {
	for _, pod := range w.running(i) {
		if pod.Index == index {
			w.truth.ownFalls[i]++
			w.note("worker %d of slice %d exits with 1", index, i)
			w.fall(pod, 1, "out of memory")
		}
	}
}

// ownExit is a worker that ends with 0 although it should not.
func (w *world) ownExit(i int) {
	pods := w.running(i)
	if len(pods) == 0 || !w.truth.busy {
		return
	}
	w.truth.ownFalls[i]++
	w.note("worker %d of slice %d exits with 0", pods[0].Index, i)
	pods[0].Phase, pods[0].Ready, pods[0].Exited, pods[0].ExitCode = PodSucceeded, false, true, 0
}

// exitOnStop is a worker that exits 0 because its pod is deleted, at once.
func (w *world) exitOnStop(i int) {
	pods := w.running(i)
	if len(pods) == 0 {
		return
	}
	w.note("worker %d of slice %d is stopped, exits with 0, and its pod is gone", pods[0].Index, i)
	pods[0].Phase, pods[0].Exited, pods[0].ExitCode = PodSucceeded, true, 0
	w.count(pods[0])
	for k, pod := range w.pods[i] {
		if pod == pods[0] {
			w.pods[i] = append(w.pods[i][:k:k], w.pods[i][k+1:]...)
			return
		}
	}
}

// hostDies: its pods' processes are gone, and their mates lose their
// interconnect.
func (w *world) hostDies(n *Node, repair time.Duration) {
	m := w.hidden[n]
	if n.Gone || !m.dead.IsZero() {
		return
	}
	w.note("host %s dies", n.Name)
	m.dead, m.stopped, m.returns = w.now, true, time.Time{}
	if pool := w.pool(n.Pool); pool != nil && pool.repair.IsZero() {
		pool.repair = w.now.Add(repair)
	}
	w.matesFall(n)
	w.later(20*time.Second, func(w *world) { w.matesFall(n) })
}

func (w *world) matesFall(n *Node) {
	for i, pods := range w.pods {
		hit := false
		for _, pod := range pods {
			hit = hit || pod.Node == n && !pod.Phase.Terminal() && !pod.byHand
		}
		if !hit {
			continue
		}
		for _, pod := range w.running(i) {
			w.fall(pod, 1, "interconnect lost")
		}
	}
}

// blip: the kubelet does not report for a while, and the pods go on.
func (w *world) blip(n *Node, ready NodeReady, d time.Duration) {
	m := w.hidden[n]
	if n.Gone || !m.dead.IsZero() || n.Ready != NodeReadyTrue {
		return
	}
	w.note("node %s is not Ready for %s", n.Name, d)
	n.Ready, n.ReadySince, m.returns = ready, w.now, w.now.Add(d)
}

// notice: the node ends soon, and its pool is recreated.
func (w *world) notice(n *Node, in time.Duration) {
	if n.Gone || n.Terminating {
		return
	}
	w.note("node %s is told to terminate", n.Name)
	n.Terminating = true
	w.hidden[n].finishes = w.now.Add(in)
}

func (w *world) maintain(n *Node, d time.Duration) {
	if n.Gone {
		return
	}
	w.note("maintenance of %s begins", n.Name)
	n.MaintenanceOngoing = true
	w.hidden[n].finishes = w.now.Add(d)
}

// planMaintenance of a whole pool.
func (w *world) planMaintenance(pool *simPool, in time.Duration) {
	w.note("maintenance of %s is planned in %s", pool.name, in)
	for _, n := range pool.nodes {
		n.MaintenanceAt = w.now.Add(in)
	}
	nodes := pool.nodes
	w.later(in, func(w *world) {
		for _, n := range nodes {
			w.maintain(n, time.Minute)
		}
	})
}

func (w *world) deletePod(i int) {
	for _, pod := range w.running(i) {
		w.note("someone deletes pod of worker %d of slice %d", pod.Index, i)
		w.stopPod(pod, 30*time.Second)
		return
	}
}

// deleteJob deletes a slice's Job by hand, in background: it is gone at once,
// and its pods stop, or become orphans.
func (w *world) deleteJob(i int, orphan bool) {
	c := w.child[i]
	if c == nil || c.Held || c.Deleting || c.Restarts != w.jobSet.Restarts {
		return
	}
	w.note("someone deletes the Job of slice %d, orphans: %t", i, orphan)
	w.child[i] = nil
	for _, pod := range w.pods[i] {
		if pod.JobUID != c.UID {
			continue
		}
		pod.byHand = true
		if orphan {
			pod.JobUID = ""
		} else if !pod.Deleting {
			w.stopPod(pod, 30*time.Second)
		}
	}
}

func (w *world) evictPod(i int) {
	for _, pod := range w.running(i) {
		w.note("worker %d of slice %d is evicted", pod.Index, i)
		pod.Disrupted = "EvictionByEvictionAPI"
		w.stopPod(pod, 30*time.Second)
		return
	}
}

// preempt lets a higher priority take a pool for a while.
func (w *world) preempt(pool *simPool, d time.Duration) {
	if pool.rival != nil || len(pool.nodes) < int(pool.want) {
		return
	}
	w.note("a higher priority takes %s", pool.name)
	pool.rival = &rival{until: w.now.Add(d)}
	for i := range w.pods {
		for _, pod := range w.running(i) {
			if pod.Node.Pool == pool.name {
				pod.Disrupted = "PreemptionByScheduler"
				w.stopPod(pod, 30*time.Second)
				if w.job.VMs > 1 {
					break // the scheduler preempts pod by pod
				}
			}
		}
	}
}

func (w *world) replace(i int) {
	if w.job.Ended {
		return
	}
	w.note("a person asks for slice %d to be replaced", i)
	w.job.ReplaceSlice = strconv.Itoa(i)
}

func (w *world) headHostDies() {
	h := w.head
	if h == nil || h.Node == nil || h.Deleting || h.Phase.Terminal() || !w.hidden[h.Node].dead.IsZero() {
		return
	}
	w.note("the head's host %s dies", h.Node.Name)
	w.truth.cause = true
	w.hidden[h.Node].dead = w.now
	w.hidden[h.Node].returns = w.now.Add(10 * time.Minute)
}

func (w *world) evictHead() { w.stopHead("the head is evicted", "EvictionByEvictionAPI") }

// deleteHead deletes its pod by hand, which leaves no condition.
func (w *world) deleteHead() { w.stopHead("someone deletes the head's pod", "") }

func (w *world) stopHead(note, disrupted string) {
	h := w.head
	if h == nil || h.Node == nil || h.Deleting || h.Phase.Terminal() || !h.PodFailurePolicy {
		return
	}
	w.note("%s", note)
	w.truth.cause = true
	h.Disrupted, h.Deleting, h.DeletionTime = disrupted, true, w.now.Add(30*time.Second)
	for i := range w.pods {
		for _, pod := range w.running(i) {
			w.fall(pod, 1, "client gone")
		}
	}
}

// proxyRestarts: all workers exit with it.
func (w *world) proxyRestarts() {
	h := w.head
	if h == nil || !h.Ready {
		return
	}
	w.note("the proxy restarts")
	h.ContainerRestarted = w.now
	for i := range w.pods {
		for _, pod := range w.running(i) {
			w.fall(pod, 1, "client gone")
		}
	}
}

// allFall: all slices at once, for a reason that is nobody's.
func (w *world) allFall() {
	ready := 0
	for i := range w.pods {
		if w.healthy(int32(i)) && w.state(i).State == v1.SliceReady { // not given up already
			ready++
		}
	}
	if ready < 2 || ready < len(w.pods) {
		return
	}
	w.note("all workers exit with 1")
	for i := range w.pods {
		for _, pod := range w.running(i) {
			w.fall(pod, 1, "collective timed out")
		}
	}
}

// finish: the program ends with 0, and all workers exit 1 with it.
func (w *world) finish() {
	h := w.head
	if h == nil || !h.Ready || h.Deleting {
		return
	}
	w.note("the main program ends with 0")
	h.MainExited = true
	for i := range w.pods {
		for _, pod := range w.running(i) {
			pod.Phase, pod.Ready, pod.Exited, pod.ExitCode, pod.ExitedAt = PodFailed, false, true, 1, w.now
		}
	}
	w.later(5*time.Second, func(w *world) {
		if h == w.head && !h.Phase.Terminal() {
			h.Phase, h.Ready = PodSucceeded, false
		}
	})
}

func (w *world) cordon(n *Node, d time.Duration) {
	n.Unschedulable = true
	w.later(d, func(*world) { n.Unschedulable = false })
}
