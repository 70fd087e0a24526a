package plan

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// The invariants: what must hold at every step, and what must hold at rest.

// healthy says that nothing at all is wrong with a slice.
func (w *world) healthy(i int32) bool {
	c, ready := w.child[i], int32(0)
	if c == nil || c.Deleting {
		return false
	}
	for _, pod := range w.pods[i] {
		n := pod.Node
		if pod.JobUID != c.UID || n == nil || pod.Deleting || pod.Disrupted != "" || !pod.Ready ||
			!usable(n, Policy{}, w.now) || !w.hidden[n].dead.IsZero() {
			return false
		}
		ready++
	}
	return ready == w.job.VMs
}

// overBudget counts the slices that used up their budget by themselves.
func (w *world) overBudget() int32 {
	over := int32(0)
	for _, n := range w.truth.ownFalls {
		if budget := w.job.Budget(); budget >= 0 && n > budget {
			over++
		}
	}
	return over
}

// checkMove: no slice is moved while too many pools look failed, unless its
// node is gone; and a broken pool is fenced before it is left.
func (w *world) checkMove(a Action, c *simChild) {
	gone, broken := false, (*simPool)(nil)
	for _, pod := range w.pods[c.slice] {
		if n := pod.Node; n != nil && pod.JobUID == c.UID {
			gone = gone || n.Gone
			broken = w.pool(n.Pool)
		}
	}
	failed, pools := 0, 0
	for _, pool := range w.observe().Pools {
		bad := false
		for _, n := range pool.Nodes {
			bad = bad || n.Ready != NodeReadyTrue && !n.ShuttingDown
		}
		if bad {
			failed++
		}
		if len(pool.Nodes) > 0 {
			pools++
		}
	}
	if failed > 2 && failed*100 > pools*w.policy.MaxUnhealthyPools && !gone {
		w.fail("slice %d is deleted although repair is paused: %s", c.slice, a.Message)
	}
	if broken == nil || w.job.VMs == 1 || !w.policy.FencePools || a.Reason != v1.ReasonHostFailed && a.Reason != v1.ReasonNodeTerminating {
		return
	}
	seen := Pool{Want: broken.want, Nodes: broken.nodes}
	for _, n := range broken.nodes {
		if n.Fence == "" && !seen.Whole(w.policy, w.now) {
			w.fail("slice %d leaves %s, which is not whole and not fenced", c.slice, broken.name)
		}
	}
}

func (w *world) checkDelete(a Action, c *simChild) {
	if !c.Deleting {
		w.checkMove(a, c)
	}
	if !w.healthy(c.slice) {
		return
	}
	switch a.Reason {
	case v1.ReasonRequested, v1.ReasonMaintenance:
	case v1.ReasonWorkerFailed:
		if w.truth.ownFalls[c.slice] <= w.job.Budget() {
			w.fail("slice %d is healthy and within its budget, and is deleted: %s", c.slice, a.Message)
		}
	default:
		w.fail("slice %d is healthy, and is deleted: %s %s", c.slice, a.Reason, a.Message)
	}
}

// checkRestart judges an action that restarts the whole job.
func (w *world) checkRestart(a Action) {
	job := &w.job
	if w.head != nil && w.head.MainExited {
		w.fail("%s although the program has ended", a.Kind)
	}
	switch {
	case a.Kind == FailChildJob:
		if w.overBudget() <= job.ElasticSlices {
			w.fail("charged restart, but only %d slices fell more often than they may: %v", w.overBudget(), w.truth.ownFalls)
		}
	case a.Reason == v1.ReasonHeadDisrupted:
		if w.head != nil && w.head.Node != nil && w.head.Node.Ready == NodeReadyTrue && !w.head.Node.Gone {
			w.fail("%s although the head's host is well", a.Kind)
		}
	case job.ElasticSlices > 0 || job.Headless:
		w.fail("%s for a slice's fault: %s", a.Kind, a.Message)
	}
	w.truth.cause = true
}

// checkHeadRestarts: nobody restarts the job without a cause.
func (w *world) checkHeadRestarts() {
	if !w.truth.cause {
		w.fail("the whole job restarted without a cause")
	}
	w.truth.cause = false
	if w.jobSet.RestartsCharged > w.jobSet.MaxRestarts {
		w.fail("%d charged restarts of %d", w.jobSet.RestartsCharged, w.jobSet.MaxRestarts)
	}
}

func (w *world) checkForceDelete(a Action, pod *simPod) {
	n := pod.Node
	if n == nil || a.Kind == DeleteFailedLeaderPod || lifeless(n) {
		return
	}
	if !pod.Deleting || w.now.Before(pod.DeletionTime.Add(stuckAfterGrace)) {
		w.fail("pod %s on %s, a living node, is force-deleted", pod.Name, n.Name)
	}
}

func (w *world) checkFence(a Action) {
	if w.job.VMs == 1 || !w.policy.FencePools {
		w.fail("pool %s is fenced", a.Pool)
	}
}

// check is called after every step.
func (w *world) check() {
	for i, pods := range w.pods {
		var running types.UID
		for _, pod := range pods {
			n := pod.Node
			if n == nil || pod.byHand || pod.Phase != PodRunning || n.Gone || n.Ready != NodeReadyTrue || !w.hidden[n].dead.IsZero() {
				continue
			}
			if running != "" && running != pod.JobUID {
				w.fail("two incarnations of slice %d run at once: %s and %s", i, running, pod.JobUID)
			}
			running = pod.JobUID
		}
	}
}

// checkRest is called when nothing happens any more.
func (w *world) checkRest() {
	for _, pool := range w.pools {
		seen := Pool{Nodes: pool.nodes}
		if seen.Fenced() {
			w.fail("at rest %s is fenced", pool.name)
		}
	}
	if w.job.Ended {
		return
	}
	if w.job.ReplaceSlice != "" {
		w.fail("at rest the replace-slice annotation is still there")
	}
	if w.head == nil || !w.head.Ready {
		w.fail("at rest the head is not Ready")
	}
	for i, c := range w.child {
		st := w.state(i)
		switch {
		case c == nil || c.Held || c.Deleting:
			w.fail("at rest slice %d has no Job, or one that is held or being deleted", i)
		case st.State == v1.SliceLost:
			if w.truth.ownFalls[i] <= w.job.Budget() || c.Parallelism != 0 {
				w.fail("at rest slice %d is Lost: %s", i, st.Message)
			}
		case st.State != v1.SliceReady || !w.healthy(int32(i)):
			w.fail("at rest slice %d is %s (%s): %s", i, st.State, st.Reason, st.Message)
		case st.DownSince != nil || st.HoldUntil != nil || st.Fence != nil || st.LeavingJobUID != "" || st.Reason != "":
			w.fail("at rest slice %d is Ready, and still remembers %+v", i, st)
		}
	}
	for _, e := range w.job.Status.History {
		if e.Slice == nil || w.state(int(*e.Slice)).State == v1.SliceReady {
			if e.DownSeconds == nil {
				w.fail("at rest the history has an open entry: %+v", e)
			}
		}
	}
	if w.job.Status.Repair.Restart != nil {
		w.fail("at rest a whole restart is still wanted: %s", w.job.Status.Repair.Restart.Message)
	}
	if ptr.Deref(w.job.Status.ReadySlices, 0) != w.job.Slices && w.overBudget() == 0 {
		w.fail("at rest %s slices are Ready", w.job.Status.SliceSummary)
	}
}
