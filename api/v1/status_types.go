package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// JobState is the state of a job in one word, for people and columns only:
// nothing branches on it.
type JobState string

const (
	// JobPending means: not all that must run runs yet.
	JobPending JobState = "Pending"
	// JobRunning means: the head runs.
	JobRunning JobState = "Running"
	// JobSuspended means: nothing runs, on purpose.
	JobSuspended JobState = "Suspended"
	// JobCompleted means: the program ended with success.
	JobCompleted JobState = "Completed"
	// JobFailed means: the job ended without success.
	JobFailed JobState = "Failed"
)

// PathwaysJobStatus is what the operator observed.
//
// It has two writers, each with a server-side-apply field manager of its own
// and fields that the other never writes: the job's controller and the
// elastic sub-controller. The latter owns slices, repair, readySlices, totalSlices,
// sliceSummary, history, and the conditions SlicesReady and Healthy.
type PathwaysJobStatus struct {
	// observedGeneration is the generation of the spec that this status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// state is the job's state in one word: Pending, Running, Suspended,
	// Completed or Failed. For people; programs read the conditions.
	// +optional
	State JobState `json:"state,omitempty"`

	// conditions are Pending, Running, Suspended (one of them is True until
	// the job ends), Completed, Failed, SlicesReady and Healthy.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// terminalState is Completed or Failed once the job has ended.
	// +optional
	TerminalState string `json:"terminalState,omitempty"`

	// restarts is how often the whole job was restarted, for whatever reason.
	// +optional
	Restarts *int32 `json:"restarts,omitempty"`

	// slices is the state of each slice, by index.
	// +optional
	// +listType=map
	// +listMapKey=index
	Slices []SliceStatus `json:"slices,omitempty"`

	// repair is what the elastic sub-controller remembers about the job as a
	// whole.
	// +optional
	Repair *RepairStatus `json:"repair,omitempty"`

	// readySlices is the number of slices that are Ready.
	// +optional
	ReadySlices *int32 `json:"readySlices,omitempty"`

	// totalSlices is the number of slices that the job asks for.
	// +optional
	TotalSlices *int32 `json:"totalSlices,omitempty"`

	// sliceSummary is readySlices/totalSlices, for example 3/4.
	// +optional
	SliceSummary string `json:"sliceSummary,omitempty"`

	// history holds the last 20 interruptions, oldest first. Events live for
	// an hour, this lasts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []Interruption `json:"history,omitempty"`

	// head is where the head runs, or, while there is no pod of it, where it
	// ran last.
	// +optional
	Head *HeadStatus `json:"head,omitempty"`

	// proxyAddress is what a client sets as JAX_BACKEND_TARGET, for example
	// grpc://job-pathways-head-0-0.job.default.svc:29000.
	// +optional
	ProxyAddress string `json:"proxyAddress,omitempty"`

	// startTime is when the job's pods were first let start.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the job completed or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// jobSet is the JobSet that runs the job.
	// +optional
	JobSet *JobSetStatus `json:"jobSet,omitempty"`

	// restartRequest is the whole restart last asked for by annotation.
	// +optional
	RestartRequest *RestartRequest `json:"restartRequest,omitempty"`

	// headDisruption is the last disruption of the head.
	// +optional
	HeadDisruption *HeadDisruption `json:"headDisruption,omitempty"`
}

// SliceState is what a slice is doing.
type SliceState string

const (
	// SlicePending means: not ready since the job's start or restart.
	SlicePending SliceState = "Pending"
	// SliceReady means: all workers are Ready, on healthy nodes, in one pool.
	SliceReady SliceState = "Ready"
	// SliceSuspending means: its workers are being stopped with their grace period.
	SliceSuspending SliceState = "Suspending"
	// SliceSuspended means: it is down and waits - for capacity, for a silent
	// host (its pods may still run), for room for its other half, for the end
	// of a hold or of RepairPaused - and resumes by itself, unless the job
	// itself is suspended or has ended.
	SliceSuspended SliceState = "Suspended"
	// SliceRestarting means: a worker failed and is being restarted in place.
	SliceRestarting SliceState = "Restarting"
	// SliceReplacing means: its host failed and it is being moved to another pool.
	SliceReplacing SliceState = "Replacing"
	// SliceLost means: its restart budget is used up; it stays down until the next
	// whole restart.
	SliceLost SliceState = "Lost"
)

// SliceStatus is the state of one slice.
type SliceStatus struct {
	// index of the slice, from 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	Index *int32 `json:"index,omitempty"`

	// jobUID is the UID of the slice's child Job that this entry speaks of.
	// +optional
	JobUID types.UID `json:"jobUID,omitempty"`

	// state of the slice: Pending, Ready, Suspending, Suspended, Restarting,
	// Replacing or Lost.
	// +required
	State SliceState `json:"state,omitempty"`

	// reason of the state in one word, for example HostFailed.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says what happened and what comes next.
	// +optional
	Message string `json:"message,omitempty"`

	// restarts is the number of restarts charged to maxSliceRestarts since
	// the last whole restart.
	// +optional
	Restarts *int32 `json:"restarts,omitempty"`

	// replacements is how often the slice was moved or started anew since the
	// last whole restart.
	// +optional
	Replacements *int32 `json:"replacements,omitempty"`

	// nodePool is the one that the slice runs on; while its state is Pending,
	// Suspended, Replacing or Lost, the last one that it was placed on.
	// +optional
	NodePool string `json:"nodePool,omitempty"`

	// zone of nodePool.
	// +optional
	Zone string `json:"zone,omitempty"`

	// lastTransitionTime is when the state last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// firstReadyTime is when the slice was Ready for the first time.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`

	// downSeconds is for how many seconds in all the slice was not Ready,
	// since it was first Ready.
	// +optional
	DownSeconds *int64 `json:"downSeconds,omitempty"`

	// downSince is since when the slice is not Ready; absent while it is, and
	// before it was first Ready.
	// +optional
	DownSince *metav1.Time `json:"downSince,omitempty"`

	// readyJobUID is the UID of the child Job that was last Ready: with it,
	// state in memory is lost.
	// +optional
	ReadyJobUID types.UID `json:"readyJobUID,omitempty"`

	// leavingJobUID is the UID of the child Job that was given up: while it
	// exists, its deletion is carried through.
	// +optional
	LeavingJobUID types.UID `json:"leavingJobUID,omitempty"`

	// holdUntil is until when the slice is kept from being started again.
	// +optional
	HoldUntil *metav1.Time `json:"holdUntil,omitempty"`

	// fence is the node pool that was fenced when the slice left it.
	// +optional
	Fence *SliceFence `json:"fence,omitempty"`

	// replacementsInRow is how often the slice was replaced without having
	// been Ready for 10 minutes in between; it spaces replacements.
	// +optional
	ReplacementsInRow *int32 `json:"replacementsInRow,omitempty"`

	// lastReplacementTime is when the slice was last replaced.
	// +optional
	LastReplacementTime *metav1.Time `json:"lastReplacementTime,omitempty"`

	// seenRestarts is how many restarts of the present jobUID's workers are
	// accounted for already, charged or not.
	// +optional
	SeenRestarts *int32 `json:"seenRestarts,omitempty"`

	// pendingCharges are restarts that become charges (restarts) after 90
	// seconds, unless a host failure or a preemption explains them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PendingCharges []PendingCharge `json:"pendingCharges,omitempty"`
}

// SliceFence is a fence that a slice left behind.
type SliceFence struct {
	// pool is the name of the node pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	Pool string `json:"pool,omitempty"`

	// until is when the fence is lifted at the latest; absent: not before the
	// pool is whole again.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// PendingCharge is a restart that is not charged for good yet.
type PendingCharge struct {
	// time at which the restart was seen.
	// +required
	Time metav1.Time `json:"time,omitzero"`

	// count of restarts seen at that time.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
}

// RepairStatus is what the elastic sub-controller must remember about the job
// as a whole.
type RepairStatus struct {
	// attempt is the start of the whole job that slices speak of: the UID of
	// its JobSet and the JobSet's number of restarts.
	// +optional
	Attempt string `json:"attempt,omitempty"`

	// restart is a whole restart that was decided and has not begun yet.
	// +optional
	Restart *WholeRestart `json:"restart,omitempty"`

	// paused is since when too many node pools look failed at once, so that
	// nothing is repaired.
	// +optional
	Paused *metav1.Time `json:"paused,omitempty"`

	// resumed is when fewer did again. Hosts that were not back by then get
	// their grace anew.
	// +optional
	Resumed *metav1.Time `json:"resumed,omitempty"`

	// lastVoluntaryMove is when last a slice was moved ahead of a
	// maintenance.
	// +optional
	LastVoluntaryMove *metav1.Time `json:"lastVoluntaryMove,omitempty"`
}

// WholeRestart is a restart of the whole job, head included.
type WholeRestart struct {
	// time at which it was decided.
	// +required
	Time metav1.Time `json:"time,omitzero"`

	// reason of the restart, for example HostFailed.
	// +required
	// +kubebuilder:validation:MinLength=1
	Reason string `json:"reason,omitempty"`

	// message says why.
	// +optional
	Message string `json:"message,omitempty"`

	// charged says whether it counts towards maxRestarts.
	// +optional
	Charged *bool `json:"charged,omitempty"`
}

// Interruption is one entry of the job's history.
type Interruption struct {
	// time at which the interruption began.
	// +required
	Time metav1.Time `json:"time,omitzero"`

	// slice that was interrupted; absent for the head or the whole job.
	// +optional
	Slice *int32 `json:"slice,omitempty"`

	// reason of the interruption, for example HostFailed or HeadDisrupted.
	// +required
	Reason string `json:"reason,omitempty"`

	// fromPool is the node pool (for the head, the node) that it ran on.
	// +optional
	FromPool string `json:"fromPool,omitempty"`

	// toPool is the node pool (for the head, the node) that it runs on now.
	// +optional
	ToPool string `json:"toPool,omitempty"`

	// downSeconds is how many seconds it was down; absent while it still is.
	// +optional
	DownSeconds *int64 `json:"downSeconds,omitempty"`

	// stateLost says that a worker was killed before it had saved its part of the slice's state, because its grace
	// period was too short for that.
	// +optional
	StateLost *bool `json:"stateLost,omitempty"`
}

// HeadStatus says where the head runs.
type HeadStatus struct {
	// podName of the head.
	// +optional
	PodName string `json:"podName,omitempty"`

	// podUID of the head.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`

	// nodeName that the head runs on.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// zone that the head runs in.
	// +optional
	Zone string `json:"zone,omitempty"`

	// ready says whether all containers of the head are ready.
	// +optional
	Ready *bool `json:"ready,omitempty"`
}
