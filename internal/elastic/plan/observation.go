// Package plan is the pure core of the elastic sub-controller: Next turns
// what was observed of one PathwaysJob into what its status must say and what
// must be done. It has no client, no clock and no context, and counts in
// integers; all times are passed in.
package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Observation is all that Next knows. Next changes nothing in it.
type Observation struct {
	Policy Policy
	Job    Job
	JobSet JobSet
	Head   Head

	// OldHeads are pods of the head beside Head: those of earlier Jobs.
	OldHeads []Pod

	// Slices by index; as many as Job.Slices.
	Slices []Slice

	// Pools are all slice pools of the cluster, of every shape: those that
	// Fits marks are where the job's slices can go, and all of them count for
	// the mass-failure rule.
	Pools []Pool

	// OtherVoluntaryMoves says that a slice of another job on pools of this
	// shape is being moved ahead of a maintenance right now.
	OtherVoluntaryMoves bool

	// Answering is since when the API server answers again after an outage in
	// which no host could report; zero if none is known of.
	Answering time.Time
}

// Mode is what the operator may do.
type Mode string

// Modes, as --elastic-mode spells them.
const (
	Enforce Mode = "Enforce"
	DryRun  Mode = "DryRun"
	Off     Mode = "Off"
)

// Policy is the operator's configuration.
type Policy struct {
	Mode Mode
	// NotReadyGrace is how long a node may be Ready False before it counts as
	// failed.
	NotReadyGrace time.Duration
	// MaintenanceLeadTime is how long before a scheduled maintenance a slice
	// is moved voluntarily; 0 switches that off.
	MaintenanceLeadTime time.Duration
	// MaxUnhealthyPools is the percentage of all slice pools that may look
	// failed at once before repair pauses.
	MaxUnhealthyPools int
	// FencePools allows taints on the nodes of broken pools.
	FencePools bool
}

// DefaultPolicy is the policy of the manager's default flags.
func DefaultPolicy() Policy {
	return Policy{
		Mode:                Enforce,
		NotReadyGrace:       30 * time.Second,
		MaintenanceLeadTime: 10 * time.Minute,
		MaxUnhealthyPools:   40,
		FencePools:          true,
	}
}

// Job is the PathwaysJob: its spec as far as it matters, and its last status.
type Job struct {
	UID types.UID
	// Generation is what the conditions' observedGeneration becomes.
	Generation int64
	// Slices is numSlices; VMs is the number of VMs (pods) per slice.
	Slices int32
	VMs    int32
	// ElasticSlices is 0 for a job that is not elastic, and never more than
	// Slices.
	ElasticSlices    int32
	MaxSliceRestarts int32
	// Shape is the slice's shape for messages, e.g. "tpu-v5p-slice 4x4x4".
	Shape string
	// Priority is the one below which the worker pods may preempt others.
	Priority int32
	// Headless: the client is outside.
	Headless bool
	// Colocated: the head shares the host of worker 0 of slice 0.
	Colocated bool
	// Resumable: Pathways can save the slices' state (a pathwaysDir, and no
	// colocated Python sidecar).
	Resumable bool
	// KueueTopology: Kueue assigned the nodes; then nothing is fenced or
	// moved.
	KueueTopology bool
	// RepairDisabled: the slice-repair annotation is Disabled.
	RepairDisabled bool
	// ReplaceSlice is the value of the replace-slice annotation, "" if absent.
	ReplaceSlice string
	// Deleting: the PathwaysJob has a deletionTimestamp.
	Deleting bool
	// Ended: the PathwaysJob is Completed or Failed.
	Ended bool
	// EverRunning: the condition Running was True at some time.
	EverRunning bool

	// Status is the last status, as written; Next reads only the fields that
	// the elastic sub-controller owns.
	Status v1.PathwaysJobStatus
}

// JobSet of the job; the zero value is one that does not exist.
type JobSet struct {
	UID types.UID
	// Suspended is spec.suspend, not the condition.
	Suspended bool
	// Deleting: it has a deletionTimestamp.
	Deleting bool
	// Ended: Completed or Failed.
	Ended bool
	// Restarting: the condition RestartingJobSet is True.
	Restarting bool
	// Restarts is status.restarts: the number of whole restarts of this
	// JobSet.
	Restarts int32
	// RestartsCharged is status.restartsCountTowardsMax, MaxRestarts the
	// spec's failurePolicy.maxRestarts.
	RestartsCharged int32
	MaxRestarts     int32
}

// Phase of a pod.
type Phase uint8

// Phases, as Kubernetes has them.
const (
	PodPending Phase = iota
	PodRunning
	PodSucceeded
	PodFailed
)

// Terminal says that no container of the pod runs or will run.
func (p Phase) Terminal() bool { return p == PodSucceeded || p == PodFailed }

// Head is the head's pod and Job; the zero value is a head that does not
// exist.
type Head struct {
	Name string
	UID  types.UID
	// Node is nil while the pod is not bound.
	Node  *Node
	Phase Phase
	Ready bool
	// Created is the pod's creationTimestamp.
	Created time.Time
	// Deleting: the pod has a deletionTimestamp, which is DeletionTime
	// (the moment at which its grace period ends).
	Deleting     bool
	DeletionTime time.Time
	// Disrupted is the reason of a True DisruptionTarget condition, or "".
	Disrupted string
	// Requested: the restart annotation asked for its end.
	Requested bool
	// MainExited: the main container has terminated and is not restarted.
	MainExited bool
	// ContainerRestarted is when last one of its containers resource manager,
	// proxy or main ended and was or will be restarted; zero if none ever did.
	ContainerRestarted time.Time
	// JobEnded: the head Job is Complete or Failed, or has a FailureTarget or
	// SuccessCriteriaMet condition, or is being deleted.
	JobEnded bool
	// JobCreated is the head Job's creationTimestamp.
	JobCreated time.Time
	// JobDeleting: the head Job is being deleted.
	JobDeleting bool
	// PodFailurePolicy: an eviction of the pod restarts the JobSet uncharged
	// (rule 9); false (D3), and the JobSet must be created again.
	PodFailurePolicy bool
}

// Slice is one index of the worker replicatedJob.
type Slice struct {
	Index int32
	// Child is the slice's child Job, nil while there is none.
	Child *ChildJob
	// Pods of the slice by label, those of earlier incarnations too.
	Pods []Pod
	// Killed is a worker of the incarnation that was given up last which did
	// not end within its grace period; nil if there is none.
	Killed *KilledWorker
}

// KilledWorker is a worker that was killed when its grace period was over.
type KilledWorker struct {
	// JobUID is the UID of the child Job that it belonged to.
	JobUID types.UID
	// Index is its completion index.
	Index int32
	// GraceSeconds is its pod's spec.terminationGracePeriodSeconds.
	GraceSeconds int64
}

// ChildJob is the child Job of one slice: one incarnation.
type ChildJob struct {
	Name string
	UID  types.UID
	// Restarts is the label restart-attempt: the JobSet's count of restarts
	// that it belongs to.
	Restarts int32
	Created  time.Time
	Deleting bool
	// Held: our hold finalizer is on it.
	Held bool
	// Parallelism is spec.parallelism; 0 for a slice that is held as Lost.
	Parallelism int32
	// Suspended is spec.suspend.
	Suspended bool
	// Complete and Failed are its conditions; Failed includes FailureTarget.
	Complete bool
	Failed   bool
	// CompletedIndexes is how many indexes have succeeded.
	CompletedIndexes int32
	// Deadline: spec.activeDeadlineSeconds is set.
	Deadline bool
}

// Pod is one worker pod.
type Pod struct {
	Name string
	UID  types.UID
	// JobUID is the UID of the child Job that controls it; "" for an orphan,
	// whose Job was deleted without it.
	JobUID types.UID
	// Index is the completion index: the VM of the slice; 0 is the leader.
	Index int32
	// Node that it is bound to, nil while it is not bound.
	Node *Node

	Phase Phase
	// Ready is the pod's Ready condition.
	Ready bool

	// Deleting: it has a deletionTimestamp, which is DeletionTime (the moment
	// at which its grace period ends).
	Deleting     bool
	DeletionTime time.Time
	// GraceSeconds is spec.terminationGracePeriodSeconds.
	GraceSeconds int64
	// Disrupted is the reason of a True DisruptionTarget condition, or "".
	Disrupted string

	// Unschedulable is since when the scheduler has called it unschedulable;
	// zero if it does not.
	Unschedulable time.Time
	// Nominated: status.nominatedNodeName is set.
	Nominated bool

	// Restarts is the worker container's restartCount.
	Restarts int32
	// Down: the worker container has ended and does not run again yet.
	Down bool
	// Exited: ExitedAt (finishedAt; zero if unknown), ExitCode and
	// ExitMessage are of the worker container's last end, present or
	// previous.
	Exited      bool
	ExitedAt    time.Time
	ExitCode    int32
	ExitMessage string
}

// NodeReady is a Node's Ready condition.
type NodeReady uint8

// Values of a Node's Ready condition.
const (
	NodeReadyTrue NodeReady = iota
	NodeReadyFalse
	NodeReadyUnknown
)

// Node is one TPU node (or, for the head, a CPU node).
type Node struct {
	Name string
	// Pool is the label cloud.google.com/gke-nodepool, "" if absent.
	Pool string
	Zone string

	// Gone: a live read says that there is no such Node.
	Gone bool
	// Deleting: it has a deletionTimestamp.
	Deleting bool

	Ready NodeReady
	// ReadySince is when Ready last changed.
	ReadySince time.Time
	// ShuttingDown: Ready is False because the kubelet shuts the node down.
	ShuttingDown bool

	// OutOfService and Shutdown are the taints node.kubernetes.io/out-of-service
	// and node.cloudprovider.kubernetes.io/shutdown.
	OutOfService bool
	Shutdown     bool
	// Terminating is the taint cloud.google.com/impending-node-termination.
	Terminating bool
	// Unschedulable: cordoned, or with a node.kubernetes.io/* or
	// ToBeDeletedByClusterAutoscaler taint (the taints above count by
	// themselves).
	Unschedulable bool

	// MaintenanceOngoing: active-node-maintenance=ONGOING.
	MaintenanceOngoing bool
	// MaintenanceAt is the scheduled-maintenance-time; zero if there is none.
	MaintenanceAt time.Time

	// Fence is the value of our taint, "" if it is not there.
	Fence types.UID
	// FencedSince is the taint's timeAdded.
	FencedSince time.Time

	// TPUPods is the number of pods, terminating ones too, that are bound to
	// it, not terminal, and hold TPUs; TopPriority the highest of their
	// priorities.
	TPUPods     int32
	TopPriority int32
}

// Pool is a slice pool: the TPU nodes with one nodepool label, or one node
// where a slice has a single VM.
type Pool struct {
	// Name is the nodepool label (of a single node without one: its name).
	Name string
	// Want is the number of nodes that its topology demands.
	Want int32
	// Fits: of the job's shape, and its selectors and tolerations accept it.
	Fits bool
	// Nodes that exist. Shared between observations; nobody changes them.
	Nodes []*Node
}
