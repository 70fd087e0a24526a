package v1

// Condition types of a PathwaysJob. All are set from the first reconcile.
const (
	// ConditionPending is True while something that must run does not run
	// yet; its message says what it waits for.
	ConditionPending = "Pending"
	// ConditionRunning is True while the job runs: all containers of its head
	// run, and since the head's pod was made, enough slices were Ready at once:
	// all of them, or all but elasticSlices (but one at least) of an elastic
	// job. Slices that are lost later do not end it: SlicesReady and Healthy
	// tell of those. A restart of the whole job or a suspension does.
	ConditionRunning = "Running"
	// ConditionSuspended is True while the job is suspended as a whole, from
	// the moment that its JobSet is told to stop, by whomever.
	ConditionSuspended = "Suspended"
	// ConditionCompleted is True once the program has ended with success.
	ConditionCompleted = "Completed"
	// ConditionFailed is True once the job has ended without success, or can
	// never run; its message names what ended it.
	ConditionFailed = "Failed"
	// ConditionSlicesReady is True while every slice is Ready. Written by the
	// elastic sub-controller.
	ConditionSlicesReady = "SlicesReady"
	// ConditionHealthy is True while the head is Ready and no more slices are
	// unavailable than elasticSlices. Written by the elastic sub-controller.
	ConditionHealthy = "Healthy"
)

// Reasons of a slice's state, and of interruptions in the history. The ladder
// of internal/elastic/plan looks for them in this order.
const (
	// ReasonHostFailed: a node of the slice is gone, out of service, shut
	// down, or not Ready for longer than its grace.
	ReasonHostFailed = "HostFailed"
	// ReasonNodeTerminating: a node of the slice gave notice that it stops.
	ReasonNodeTerminating = "NodeTerminating"
	// ReasonMaintenance: a node of the slice is under maintenance, or will be
	// soon.
	ReasonMaintenance = "Maintenance"
	// ReasonPreempted: a worker pod was preempted or evicted.
	ReasonPreempted = "Preempted"
	// ReasonPodDeleted: someone deleted a worker pod.
	ReasonPodDeleted = "PodDeleted"
	// ReasonRequested: the replace-slice annotation asked for it.
	ReasonRequested = "Requested"
	// ReasonWorkerExited: a worker exited with 0 while it was being stopped,
	// so its Job would never bring it back.
	ReasonWorkerExited = "WorkerExited"
	// ReasonWorkerFailed: a worker container ended by itself.
	ReasonWorkerFailed = "WorkerFailed"
	// ReasonPartiallyScheduled: some workers are placed and others cannot be.
	ReasonPartiallyScheduled = "PartiallyScheduled"
	// ReasonHeadDisrupted: the head's host failed, or its pod was evicted,
	// preempted or deleted.
	ReasonHeadDisrupted = "HeadDisrupted"
	// ReasonHeadFailed: a container of the head failed; the whole job restarts,
	// charged to maxRestarts, or has failed. In the history only.
	ReasonHeadFailed = "HeadFailed"
)
