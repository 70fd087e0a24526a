package plan

import "time"

// Kubelets, the node controller, the cloud, and rivals of higher priority.

// kubelets lets pods start, restart and stop on living nodes.
func (w *world) kubelets() bool {
	changed := w.headKubelet()
	for i := range w.pods {
		kept := w.pods[i][:0:0]
		for _, pod := range w.pods[i] {
			gone, moved := w.podStep(pod)
			changed = changed || gone || moved
			if gone {
				w.count(pod)
			} else {
				kept = append(kept, pod)
			}
		}
		w.pods[i] = kept
	}
	return changed
}

// podStep takes a pod one step further.
func (w *world) podStep(pod *simPod) (gone, changed bool) {
	n := pod.Node
	if n == nil {
		return pod.Deleting, false
	}
	m := w.hidden[n]
	if n.Gone || !m.dead.IsZero() {
		return w.orphan(pod, n)
	}
	switch {
	case pod.Phase.Terminal():
		return pod.Deleting, false
	case pod.Deleting:
		if pod.stopAt.IsZero() {
			pod.stopAt = w.now.Add(w.stopFor)
		}
		if pod.DeletionTime.Before(pod.stopAt) {
			pod.stopAt = pod.DeletionTime
		}
		if !w.reached(pod.stopAt) {
			return false, false
		}
		pod.Ready, pod.Down, pod.Exited, pod.ExitCode, pod.Phase = false, false, true, 143, PodFailed
		if w.exitZero && pod.stopAt.Before(pod.DeletionTime) {
			pod.ExitCode, pod.Phase = 0, PodSucceeded
		}
		return false, true
	case pod.Phase == PodRunning && pod.Ready && !pod.Down, !w.reached(pod.stage):
		return false, false
	case pod.Phase == PodPending:
		pod.Phase, pod.stage = PodRunning, w.now.Add(time.Second)
	case pod.Down:
		pod.Down, pod.stage = false, w.now.Add(time.Second)
		pod.Restarts++
	default:
		pod.Ready = true
	}
	return false, true
}

// orphan is a pod without a kubelet: the taint manager deletes it after 300 s,
// and PodGC removes it once its node has been gone for a while.
func (w *world) orphan(pod *simPod, n *Node) (gone, changed bool) {
	m := w.hidden[n]
	if n.Gone {
		if pod.gcAt.IsZero() {
			pod.gcAt = w.now.Add(50 * time.Second)
		}
		return w.reached(pod.gcAt), false
	}
	if !m.dead.IsZero() && !pod.Deleting && w.reached(m.dead.Add(345*time.Second)) {
		w.stopPod(pod, 30*time.Second)
		pod.Disrupted = "DeletionByTaintManager"
		return false, true
	}
	return false, false
}

func (w *world) headKubelet() bool {
	h := w.head
	if h == nil {
		return false
	}
	n := h.Node
	if n == nil {
		if h.Deleting {
			w.endHead()
		}
		return h.Deleting
	}
	if n.Gone || !w.hidden[n].dead.IsZero() {
		return false
	}
	switch {
	case h.Phase.Terminal() && h.Deleting:
		w.endHead()
	case h.Phase.Terminal():
		return false
	case h.Deleting:
		if h.stopAt.IsZero() {
			h.stopAt = w.now.Add(w.stopFor)
		}
		if !w.reached(h.stopAt) {
			return false
		}
		h.Phase, h.Ready = PodFailed, false
	case h.Ready, !w.reached(h.stage):
		return false
	case h.Phase == PodPending:
		h.Phase, h.stage = PodRunning, w.now.Add(time.Second)
	default:
		h.Ready = true
	}
	return true
}

// endHead removes the head's pod object; its Job has seen its end before.
func (w *world) endHead() {
	h := w.head
	if h.Phase.Terminal() && !h.counted && !h.JobEnded {
		w.runJobSet()
	}
	w.head = nil
	w.dirty = true
}

// nodeControl is the node controller: a dead kubelet's lease runs out.
func (w *world) nodeControl() bool {
	changed := false
	for _, n := range w.allNodes() {
		m := w.hidden[n]
		switch {
		case !m.dead.IsZero() && n.Ready != NodeReadyUnknown && w.reached(m.dead.Add(40*time.Second)):
			n.Ready, n.ReadySince, changed = NodeReadyUnknown, w.now, true
			w.note("node %s is Unknown", n.Name)
		case !m.returns.IsZero() && w.reached(m.returns):
			n.Ready, n.ReadySince, m.returns, m.dead, changed = NodeReadyTrue, w.now, time.Time{}, time.Time{}, true
			w.note("node %s is Ready again", n.Name)
		case !m.finishes.IsZero() && w.reached(m.finishes):
			pool := w.pool(n.Pool)
			w.deleteNodes(pool)
			changed = true
		}
	}
	return changed
}

func (w *world) allNodes() []*Node {
	all := append([]*Node(nil), w.heads...)
	for _, pool := range w.pools {
		all = append(all, pool.nodes...)
	}
	return all
}

// deleteNodes takes all nodes of a pool away; new ones register later.
func (w *world) deleteNodes(pool *simPool) {
	if len(pool.nodes) == 0 {
		return
	}
	w.note("the nodes of %s are deleted", pool.name)
	for _, n := range pool.nodes {
		n.Gone = true
	}
	pool.nodes, pool.repair, pool.rival = nil, time.Time{}, nil
	pool.grow = w.now.Add(w.grow + 30*time.Second)
	w.dirty = true
}

// cloud repairs pools as a whole, and registers new nodes one by one.
func (w *world) cloud() bool {
	changed := false
	for _, pool := range w.pools {
		if !pool.repair.IsZero() && w.reached(pool.repair) {
			w.deleteNodes(pool)
			changed = true
		}
		if len(pool.nodes) < int(pool.want) && !pool.grow.IsZero() && w.reached(pool.grow) {
			w.addNode(pool)
			changed = true
			if pool.grow = w.now.Add(w.grow); len(pool.nodes) == int(pool.want) {
				pool.grow = time.Time{}
				w.note("%s is whole again", pool.name)
			}
		}
	}
	return changed
}

// rivals come and go; a rival takes all nodes of its pool.
func (w *world) rivals() bool {
	changed := false
	for _, pool := range w.pools {
		if pool.rival != nil && w.reached(pool.rival.until) {
			pool.rival, changed = nil, true
			w.note("%s is given back by the higher priority", pool.name)
		}
	}
	return changed
}
