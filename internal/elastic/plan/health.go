package plan

import "time"

// Bounds of design/elastic.md.
const (
	// notReadyPatience is how long a node that is only NotReady is waited for
	// where no other pool could take the slice.
	notReadyPatience = 5 * time.Minute
	// stuckAfterGrace is how long after its grace period a pod on a live node
	// is force-deleted.
	stuckAfterGrace = time.Minute
	// failedGraceSeconds is the grace that the survivors of a failed slice
	// get at most: its state is lost already.
	failedGraceSeconds = 10
)

// failure is how badly a node has failed, in rising order.
type failure uint8

const (
	sound    failure = iota
	unsteady         // Ready False, within its grace
	notReady         // Ready False beyond its grace, or Unknown
	dead             // gone, out of service or shut down
)

// failureOf judges a node; until is when an unsteady one becomes notReady.
func failureOf(n *Node, p Policy, now time.Time) (f failure, until time.Time) {
	switch {
	case n.Gone, n.OutOfService, n.Shutdown:
		return dead, time.Time{}
	case n.Ready == NodeReadyUnknown:
		return notReady, time.Time{}
	case n.Ready == NodeReadyFalse && !n.ShuttingDown:
		if until = n.ReadySince.Add(p.NotReadyGrace); now.Before(until) {
			return unsteady, until
		}
		return notReady, time.Time{}
	}
	return sound, time.Time{}
}

// judge is failureOf, but for hosts that are not back yet when a mass failure
// or an outage of the API server is over: they are about to return, and get
// their grace anew.
func (p *planner) judge(n *Node) (f failure, until time.Time) {
	f, until = failureOf(n, p.obs.Policy, p.now)
	if f != notReady {
		return f, until
	}
	over := p.obs.Answering
	if resumed := p.repair.Resumed; resumed != nil && resumed.After(over) {
		over = resumed.Time
	}
	if anew := over.Add(p.obs.Policy.NotReadyGrace); !over.IsZero() && p.now.Before(anew) {
		return unsteady, anew
	}
	return f, until
}

// lifeless says that nothing runs on the node any more, so that its pods may
// be force-deleted at once.
func lifeless(n *Node) bool {
	return n.Gone || n.OutOfService || n.Shutdown || n.Ready == NodeReadyUnknown
}

// terminating says that the node gave notice that it stops.
func terminating(n *Node) bool {
	return n.Terminating || n.Deleting || n.Ready == NodeReadyFalse && n.ShuttingDown
}

// maintenanceAhead says that a maintenance of the node is scheduled within
// the lead time. Times in the past are ignored.
func maintenanceAhead(n *Node, p Policy, now time.Time) bool {
	return p.MaintenanceLeadTime > 0 && n.MaintenanceAt.After(now) &&
		n.MaintenanceAt.Sub(now) < p.MaintenanceLeadTime
}

// usable says that the node is Ready, schedulable but for our fence, and
// without a notice.
func usable(n *Node, p Policy, now time.Time) bool {
	return n.Ready == NodeReadyTrue && !n.Gone && !n.Unschedulable && !n.OutOfService && !n.Shutdown &&
		!terminating(n) && !n.MaintenanceOngoing && !maintenanceAhead(n, p, now)
}

// schedulable says that the scheduler may put pods on the node.
func schedulable(n *Node) bool {
	return n.Ready == NodeReadyTrue && !n.Gone && !n.Unschedulable && !n.OutOfService && !n.Shutdown &&
		!n.Terminating && !n.Deleting && n.Fence == ""
}

// Whole says that the pool has as many nodes as its topology demands, all
// usable; our own fence aside.
func (pool *Pool) Whole(p Policy, now time.Time) bool {
	if len(pool.Nodes) < int(pool.Want) {
		return false
	}
	for _, n := range pool.Nodes {
		if !usable(n, p, now) {
			return false
		}
	}
	return true
}

// Idle says that no pod on the pool holds TPUs.
func (pool *Pool) Idle() bool {
	for _, n := range pool.Nodes {
		if n.TPUPods > 0 {
			return false
		}
	}
	return true
}

// Fenced says that a node of the pool carries our taint.
func (pool *Pool) Fenced() bool {
	for _, n := range pool.Nodes {
		if n.Fence != "" {
			return true
		}
	}
	return false
}

// looksFailed counts a node's pool for the mass-failure rule: a node that is
// there and not Ready, for however short a time. A node that shuts down or is
// gone is no sign of a fault in the network or the control plane.
func looksFailed(n *Node) bool {
	return !n.Gone && (n.OutOfService || n.Ready == NodeReadyUnknown || n.Ready == NodeReadyFalse && !n.ShuttingDown)
}

// fleet is what the pools add up to.
type fleet struct {
	// fitting pools of the job's shape; broken ones are not whole, idle ones
	// can take a slice now, takeable ones by preempting a lower priority.
	fitting, broken, idle, takeable int
	// fenced: fitting, and kept free by our taint.
	fenced int
	// paused: too many pools look failed at once.
	paused         bool
	failed, counts int
}

func surveyPools(o *Observation, now time.Time) fleet {
	var f fleet
	for i := range o.Pools {
		pool := &o.Pools[i]
		if len(pool.Nodes) == 0 {
			continue
		}
		f.counts++
		f.add(pool, o, now)
	}
	f.paused = f.failed > 2 && f.failed*100 > o.Policy.MaxUnhealthyPools*f.counts
	return f
}

// add judges one pool, in one pass over its nodes.
func (f *fleet) add(pool *Pool, o *Observation, now time.Time) {
	failed, fenced, used := false, false, false
	whole := len(pool.Nodes) >= int(pool.Want)
	top := int32(-1 << 31)
	for _, n := range pool.Nodes {
		if n.TPUPods > 0 {
			used, top = true, max(top, n.TopPriority)
		}
		if !n.plain() {
			failed = failed || looksFailed(n)
			fenced = fenced || n.Fence != ""
			whole = whole && usable(n, o.Policy, now)
		}
	}
	if failed {
		f.failed++
	}
	if !pool.Fits {
		return
	}
	f.fitting++
	switch {
	case !whole:
		f.broken++
	case fenced:
		f.fenced++
	case !used:
		f.idle++
	case top < o.Job.Priority:
		f.takeable++
	}
}

// plain says that there is nothing to say about the node: the usual case, kept
// short because a decision looks at all nodes of the cluster.
func (n *Node) plain() bool {
	return n.Ready == NodeReadyTrue && !n.Gone && !n.Deleting && !n.OutOfService && !n.Shutdown && !n.Terminating &&
		!n.Unschedulable && !n.MaintenanceOngoing && n.Fence == "" && n.MaintenanceAt.IsZero()
}
