package v1

// Reasons of the conditions Pending, Running, Suspended, Completed and Failed.
// The one condition that is True has one of the reasons below; while it is
// True, the others are False with the reason Not<Type>.
const (
	// ReasonStarting (Pending): the JobSet exists, its pods are being made,
	// placed and started, and nothing stands in their way.
	ReasonStarting = "Starting"
	// ReasonRestarting (Pending): the whole job is being restarted.
	ReasonRestarting = "Restarting"
	// ReasonReadFailed (Pending, Running or Suspended): the API server did not
	// answer a read that is needed to go on; nothing is created or changed
	// meanwhile, and the read is tried again.
	ReasonReadFailed = "ReadFailed"
	// ReasonCreateRefused (Pending): the API server refused the JobSet, for
	// example because of a quota or an admission webhook; the message says
	// whether trying again can help.
	ReasonCreateRefused = "CreateRefused"
	// ReasonNameInUse (Pending): an earlier JobSet of the same name is still
	// being deleted, or a Service that is not the job's has the name of the
	// subdomain that its pods need.
	ReasonNameInUse = "NameInUse"
	// ReasonNoSlicePool (Pending): no whole node pool of the slices' shape is
	// free.
	ReasonNoSlicePool = "NoSlicePool"
	// ReasonNoHeadNode (Pending): no CPU node is large enough for the head, has
	// the labels that it asks for, and no taint that keeps it out.
	ReasonNoHeadNode = "NoHeadNode"
	// ReasonUnschedulable (Pending): the scheduler finds no node for a pod;
	// the message has its words.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPodsRefused (Pending): the API server refuses pods or child Jobs of
	// the job, for example because of a quota, the namespace's pod security
	// standard, a missing ServiceAccount or an invalid template; the message
	// has its words. A job that runs already stays Running, and tells it in
	// that condition's message.
	ReasonPodsRefused = "PodsRefused"
	// ReasonJobsMissing (Pending): JobSet has not created child Jobs of the job
	// for two minutes, and no event tells why; its controller may not run.
	ReasonJobsMissing = "JobsMissing"
	// ReasonContainerNotStarting (Pending): a container of a placed pod cannot
	// start, for example because its image cannot be pulled; the message has
	// the kubelet's words.
	ReasonContainerNotStarting = "ContainerNotStarting"
	// ReasonContainerCrashing (Pending): a container of the head or of a
	// worker ends again and again; the message has its exit code and last
	// words.
	ReasonContainerCrashing = "ContainerCrashing"
	// ReasonPodRejected (Pending): the kubelet of its node rejected a pod; the
	// message has its words.
	ReasonPodRejected = "PodRejected"

	// ReasonRunning (Running): the head runs and enough slices have started.
	ReasonRunning = "Running"

	// ReasonSuspendedByUser (Suspended): spec.suspend of the PathwaysJob.
	ReasonSuspendedByUser = "SuspendedByUser"
	// ReasonQueued (Suspended): Kueue has not admitted the job, or has
	// preempted it.
	ReasonQueued = "Queued"
	// ReasonSuspendedByOther (Suspended): somebody else suspended the JobSet.
	ReasonSuspendedByOther = "SuspendedByOther"

	// ReasonSucceeded (Completed): the program ended with success.
	ReasonSucceeded = "Succeeded"

	// ReasonContainerFailed (Failed or Pending): a container of the head ended
	// with an error. Failed, if maxRestarts is used up.
	ReasonContainerFailed = "ContainerFailed"
	// ReasonSliceFailed (Failed): a slice used up its restarts, and
	// maxRestarts is used up.
	ReasonSliceFailed = "SliceFailed"
	// ReasonJobSetFailed (Failed): the JobSet failed; the message has its
	// words.
	ReasonJobSetFailed = "JobSetFailed"
	// ReasonJobSetNotOwned (Failed): a JobSet of the job's name belongs to
	// somebody else. It is left alone. This failure is not final: once that
	// JobSet is gone, the job starts, and until then terminalState is empty.
	ReasonJobSetNotOwned = "JobSetNotOwned"
	// ReasonEndedBefore (Completed or Failed): the job had ended before this
	// operator saw it first, says its terminalState.
	ReasonEndedBefore = "EndedBefore"

	// A job that no JobSet can be made of is Failed with one of the reasons
	// of the renderer: InvalidName, InvalidWorkers, InvalidTopology,
	// MainContainerNotFound, InvalidTemplate, InvalidComponent.
)

// Reasons of a condition that is False because another one is True.
const (
	// ReasonNotPending (none): Pending is False; another condition is True.
	ReasonNotPending = "NotPending"
	// ReasonNotRunning (none): Running is False; another condition is True.
	ReasonNotRunning = "NotRunning"
	// ReasonNotSuspended (none): Suspended is False; another condition is
	// True.
	ReasonNotSuspended = "NotSuspended"
	// ReasonNotCompleted (none): Completed is False; another condition is
	// True.
	ReasonNotCompleted = "NotCompleted"
	// ReasonNotFailed (none): Failed is False; another condition is True.
	ReasonNotFailed = "NotFailed"
)

// Events of the job's controller, on the PathwaysJob. Each follows the write
// that it reports.
const (
	// EventJobSetCreated (Normal): the JobSet was created, or created again.
	EventJobSetCreated = "JobSetCreated"
	// EventJobSetAdopted (Normal): a JobSet of the job was found that this
	// operator did not create.
	EventJobSetAdopted = "JobSetAdopted"
	// EventJobPending (Warning): something new keeps the job from running.
	EventJobPending = "JobPending"
	// EventJobRunning (Normal): the condition Running became True.
	EventJobRunning = "JobRunning"
	// EventJobSuspended (Normal): the condition Suspended became True.
	EventJobSuspended = "JobSuspended"
	// EventJobResumed (Normal): the condition Suspended became False.
	EventJobResumed = "JobResumed"
	// EventJobRestarted (Normal): the whole job was restarted.
	EventJobRestarted = "JobRestarted"
	// EventJobCompleted (Normal): the condition Completed became True.
	EventJobCompleted = "JobCompleted"
	// EventJobFailed (Warning): the condition Failed became True.
	EventJobFailed = "JobFailed"
	// EventZonesDiffer (Warning): the head and a slice run in different zones.
	EventZonesDiffer = "ZonesDiffer"
)
