package v1

// Names of annotations, taints and field managers that are part of the API.
const (
	// AnnotationSliceRepair on a PathwaysJob with the value Disabled makes
	// the elastic sub-controller only observe it.
	AnnotationSliceRepair = "pathways-job.pathways.domain/slice-repair"
	// SliceRepairDisabled is the value that switches repair off for one job.
	SliceRepairDisabled = "Disabled"
	// AnnotationReplaceSlice on a PathwaysJob asks for a deliberate hot-swap
	// of the slice with that index. It is removed when taken up.
	AnnotationReplaceSlice = "pathways-job.pathways.domain/replace-slice"
	// AnnotationRestart on a PathwaysJob asks, with each new value, for a
	// whole restart that is not charged to maxRestarts.
	AnnotationRestart = "pathways-job.pathways.domain/restart"

	// ManagedByController is the value of spec.managedBy that names this
	// operator; an absent one does too.
	ManagedByController = "pathways-job.pathways.domain/controller"

	// TaintSliceDegraded fences the nodes of a slice pool that is not whole;
	// its value is the UID of the PathwaysJob that was moved off. The prefix
	// tells the cluster autoscaler that it is a state and no property of new
	// nodes.
	TaintSliceDegraded = "status-taint.cluster-autoscaler.kubernetes.io/pathways-slice-degraded"

	// FinalizerHold on a child Job holds its slice down until it is removed.
	FinalizerHold = "pathways-job.pathways.domain/hold"

	// FieldManagerController owns the status fields of the job's controller.
	FieldManagerController = "pathways-job-controller"
	// FieldManagerElastic owns the status fields of the elastic
	// sub-controller.
	FieldManagerElastic = "pathways-job-elastic"

	// HeadReplicatedJob is the replicatedJob of the head.
	HeadReplicatedJob = "pathways-head"
	// WorkerReplicatedJob is the replicatedJob of the workers.
	WorkerReplicatedJob = "worker"
	// ContainerResourceManager is the container of the resource manager.
	ContainerResourceManager = "pathways-rm"
	// ContainerProxy is the container of the IFRT proxy.
	ContainerProxy = "pathways-proxy"
	// ContainerWorker is the container of a worker.
	ContainerWorker = "pathways-worker"
	// ContainerColocatedPython is the container of the colocated Python
	// sidecar.
	ContainerColocatedPython = "colocated-python-sidecar"
)
