package plan

import (
	"time"

	v1 "pathways.domain/pathways-job/api/v1"
)

// scenario is a story that is told in a golden file: what happens in the
// world, what the planner makes of it, and why.
type scenario struct {
	// story says what is shown.
	story string
	// rungs of the ladder without which it would end otherwise.
	rungs []string
	// slices, vms and pools of the world; 2, 4 and 3 if 0.
	slices, vms int32
	pools       int
	// setup changes the world before it starts.
	setup func(w *world)
	// script plans what happens.
	script func(w *world)
	// unrest: the story ends, but its world has not come to rest.
	until time.Duration
}

const (
	start = 2 * time.Minute // the job runs by then, and its head for a while
)

var scenarios = map[string]scenario{
	"host-fails": {
		story: "A host of slice 0 loses power while a whole pool is idle. Its mates fall first; nothing is charged in the end.",
		rungs: []string{v1.ReasonHostFailed, "Leaving"},
		script: func(w *world) {
			w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 1), 10*time.Minute) })
		},
	},
	"host-fails-no-pool": {
		story: "A host of slice 0 dies and no other pool is free: the slice waits, and resumes on the repaired pool.",
		rungs: []string{v1.ReasonHostFailed},
		pools: 2,
		script: func(w *world) {
			w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 1), 4*time.Minute) })
		},
	},
	"host-fails-not-elastic": {
		story:  "A host dies under a job that is not elastic: its program cannot go on, so the whole job restarts, uncharged, the broken pool fenced first.",
		setup:  func(w *world) { w.job.ElasticSlices = 0 },
		script: func(w *world) { w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 1), 5*time.Minute) }) },
	},
	"host-fails-no-fences": {
		story: "Fencing is switched off: the slice is not moved while nodes of its pool would take it back; it waits for the repair.",
		setup: func(w *world) { w.policy.FencePools = false },
		script: func(w *world) {
			w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 1), 4*time.Minute) })
		},
	},
	"host-fails-dry-run": {
		story: "DryRun: the same failure is told, and nothing is done.",
		setup: func(w *world) { w.policy.Mode = DryRun },
		script: func(w *world) {
			w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 1), 30*time.Minute) })
		},
		until: 4 * time.Minute,
	},
	"not-ready-for-20s": {
		story: "A kubelet is not Ready for 20 s and returns: nothing is done.",
		script: func(w *world) {
			w.at(start, func(w *world) { w.blip(w.nodeOf(0, 2), NodeReadyFalse, 20*time.Second) })
		},
	},
	"notice": {
		story: "A node is told to terminate: the whole slice is suspended with its grace period and resumes on the idle pool.",
		rungs: []string{v1.ReasonNodeTerminating, "Leaving"},
		script: func(w *world) {
			w.stopFor = 5 * time.Second
			w.at(start, func(w *world) { w.notice(w.nodeOf(1, 3), 30*time.Second) })
		},
	},
	"notice-no-fences": {
		story: "Fencing is switched off: the slice is suspended at the notice, and held until its old pool is repaired.",
		setup: func(w *world) { w.policy.FencePools = false },
		script: func(w *world) {
			w.at(start, func(w *world) { w.notice(w.nodeOf(1, 3), 30*time.Second) })
		},
	},
	"maintenance": {
		story: "Maintenance begins at a node: as with a notice.",
		rungs: []string{v1.ReasonMaintenance},
		script: func(w *world) {
			w.at(start, func(w *world) { w.maintain(w.nodeOf(0, 0), 2*time.Minute) })
		},
	},
	"maintenance-ahead": {
		story: "Maintenance of both slices' pools comes nearer than 10 minutes, and two pools are idle: the slices move, one after the other.",
		rungs: []string{v1.ReasonMaintenance},
		pools: 4,
		script: func(w *world) {
			w.at(start, func(w *world) {
				w.planMaintenance(w.poolOfSlice(0), 12*time.Minute)
				w.planMaintenance(w.poolOfSlice(1), 12*time.Minute)
			})
		},
	},
	"preempted": {
		story: "A higher priority takes the pool of slice 1: the slice is given up as a whole, and held while the preemptor starts.",
		rungs: []string{v1.ReasonPreempted},
		pools: 2,
		script: func(w *world) {
			w.at(start, func(w *world) { w.preempt(w.poolOfSlice(1), 3*time.Minute) })
		},
	},
	"preempted-five-times": {
		story:  "Four slices are preempted at once, five times in a row: nothing is charged, and replacements are spaced.",
		slices: 4, pools: 4,
		setup: func(w *world) { w.job.MaxSliceRestarts = 0 },
		script: func(w *world) {
			for n := range 5 {
				w.at(start+time.Duration(n)*100*time.Second, func(w *world) {
					for _, pool := range w.pools {
						w.preempt(pool, 30*time.Second)
					}
				})
			}
		},
	},
	"pod-deleted": {
		story: "Someone deletes a worker pod: the slice stops as a whole and starts anew.",
		rungs: []string{v1.ReasonPodDeleted},
		script: func(w *world) {
			w.at(start, func(w *world) { w.deletePod(0) })
		},
	},
	"requested": {
		story: "A person asks for a hot-swap: the pool is kept free for as long as the slice looks for another.",
		rungs: []string{v1.ReasonRequested},
		script: func(w *world) {
			w.at(start, func(w *world) { w.replace(1) })
		},
	},
	"worker-exits-0-when-stopped": {
		story: "A worker exits 0 because its pod is stopped, so its index is complete and its Job would never start it again.",
		rungs: []string{v1.ReasonWorkerExited},
		script: func(w *world) {
			w.at(start, func(w *world) { w.exitOnStop(0) })
		},
	},
	"worker-exits-0": {
		story: "A worker exits 0 by itself: the slice is replaced, and this is charged.",
		rungs: []string{v1.ReasonWorkerFailed},
		script: func(w *world) {
			w.at(start, func(w *world) { w.ownExit(0) })
		},
	},
	"worker-fails": {
		story: "A worker crashes once: the kubelet restarts it in place, and the restart is charged after 90 s.",
		rungs: []string{v1.ReasonWorkerFailed},
		script: func(w *world) {
			w.at(start, func(w *world) { w.ownFall(0) })
		},
	},
	"worker-crash-loop": {
		story: "A worker crashes again and again: its slice is Lost and held; then another, and the whole job restarts, charged.",
		rungs: []string{"Lost"},
		setup: func(w *world) { w.jobSet.MaxRestarts = 1 },
		script: func(w *world) {
			w.at(start, func(w *world) { w.fallOf(0, 1) })
			w.at(start+time.Minute, func(w *world) { w.fallOf(0, 1) })
			w.at(start+10*time.Minute, func(w *world) { w.fallOf(1, 2) })
			w.at(start+11*time.Minute, func(w *world) { w.fallOf(1, 2) })
		},
	},
	"lost-revived": {
		story: "A Lost slice is revived by the replace-slice annotation, with a fresh budget.",
		rungs: []string{"Lost"},
		setup: func(w *world) { w.job.MaxSliceRestarts = 0 },
		script: func(w *world) {
			w.at(start, func(w *world) { w.fallOf(0, 1) })
			w.at(start+5*time.Minute, func(w *world) {
				w.truth.ownFalls[0] = 0
				w.replace(0)
			})
		},
	},
	"budget-raised": {
		story: "maxSliceRestarts is raised on the running job: the Lost slice comes back.",
		setup: func(w *world) { w.job.MaxSliceRestarts = 0 },
		script: func(w *world) {
			w.at(start, func(w *world) { w.fallOf(0, 1) })
			w.at(start+5*time.Minute, func(w *world) {
				w.note("maxSliceRestarts is raised to 3")
				w.job.MaxSliceRestarts = 3
			})
		},
	},
	"all-restarts-used": {
		story: "A job that is not elastic: the fifth restart of a slice costs a whole restart, and there is none left.",
		setup: func(w *world) { w.job.ElasticSlices = 0 },
		script: func(w *world) {
			for n := range 5 {
				w.at(start+time.Duration(n)*2*time.Minute, func(w *world) { w.fallOf(1, 2) })
			}
		},
	},
	"client-disconnects": {
		story: "Headless: the client goes and all workers exit 1; nothing is charged, ever.",
		setup: func(w *world) { w.job.Headless = true },
		script: func(w *world) {
			for n := range 4 {
				w.at(start+time.Duration(n)*2*time.Minute, func(w *world) { w.proxyRestarts() })
			}
		},
	},
	"partially-scheduled": {
		story: "Slice 0's leader lands in a pool that lacks a node: after 30 s the slice moves to a whole pool.",
		rungs: []string{v1.ReasonPartiallyScheduled},
		pools: 2, slices: 1,
		setup: func(w *world) {
			w.pools[0].nodes[3].Unschedulable = true
			w.pools[1].rival = &rival{until: w.now.Add(30 * time.Second)}
		},
		script: func(w *world) {
			w.at(10*time.Minute, func(w *world) { w.pools[0].nodes[3].Unschedulable = false })
		},
	},
	"pool-registers-slowly": {
		story: "The only pool is new and registers its nodes over three minutes: the slice that started on the first node is not killed meanwhile.",
		pools: 1, slices: 1,
		setup: func(w *world) {
			pool := w.pools[0]
			pool.nodes, pool.grow, w.grow = pool.nodes[:1], w.now.Add(time.Minute), time.Minute
		},
		script: func(*world) {},
	},
	"job-ends": {
		story: "The main program ends with 0 and all workers exit 1 in the same second: nothing is charged, nothing is replaced.",
		rungs: []string{"JobEnding"},
		setup: func(w *world) { w.job.MaxSliceRestarts, w.job.ElasticSlices = 0, 2 },
		script: func(w *world) {
			w.at(start, func(w *world) { w.finish() })
		},
	},
	"suspended": {
		story: "The job is suspended and resumed: nothing is repaired meanwhile, and all slices start anew.",
		rungs: []string{"JobEnding"},
		script: func(w *world) {
			w.at(start, func(w *world) { w.note("the JobSet is suspended"); w.jobSet.Suspended = true; w.truth.busy = false })
			w.at(start+time.Minute, func(w *world) { w.note("the JobSet is resumed"); w.jobSet.Suspended = false })
		},
	},
	"head-host-dies": {
		story: "The head's host dies: the whole job restarts on another CPU node, uncharged.",
		script: func(w *world) {
			w.at(start, func(w *world) { w.headHostDies() })
		},
	},
	"head-deleted": {
		story: "Someone deletes the head's pod: the whole job restarts, uncharged, though the deletion itself leaves no trace on the pod.",
		script: func(w *world) {
			w.at(start, func(w *world) { w.deleteHead() })
		},
	},
	"job-of-slice-deleted": {
		story:  "Someone deletes the Jobs of two slices, one without its pods: both slices resume, and nothing is charged.",
		slices: 2, pools: 2,
		script: func(w *world) {
			w.at(start, func(w *world) { w.deleteJob(0, false) })
			w.at(start+3*time.Minute, func(w *world) { w.deleteJob(1, true) })
		},
	},
	"head-and-slice-die": {
		story: "The head's host and a host of slice 0 die together: the pods on the dead hosts do not hold the restart up.",
		script: func(w *world) {
			w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 0), 20*time.Minute); w.headHostDies() })
		},
	},
	"three-of-four-pools": {
		story:  "Three of four pools do not report at once: repair pauses, and none is moved of those that return one after the other.",
		slices: 3, pools: 4,
		script: func(w *world) {
			w.at(start, func(w *world) {
				for i := range 3 {
					for _, n := range w.poolOfSlice(i).nodes {
						w.blip(n, NodeReadyUnknown, time.Duration(90+10*i)*time.Second)
					}
				}
			})
		},
	},
	"kueue-topology": {
		story: "Kueue placed the job: a failed host is told, and the slice is neither fenced nor moved.",
		setup: func(w *world) { w.job.KueueTopology = true },
		script: func(w *world) {
			w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 1), 30*time.Minute) })
		},
		until: 4 * time.Minute,
	},
	"single-host-slices": {
		story: "Slices of one VM share pools; the host of one dies, and it moves to an idle node without any fence.",
		vms:   1, pools: 4,
		script: func(w *world) {
			w.at(start, func(w *world) { w.hostDies(w.nodeOf(0, 0), 10*time.Minute) })
		},
	},
}
