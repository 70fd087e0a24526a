package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Decision is what Next makes of an Observation.
type Decision struct {
	// Slices, Repair, ReadySlices, TotalSlices, SliceSummary and History are
	// the status fields of the same names.
	Slices       []v1.SliceStatus
	Repair       *v1.RepairStatus
	ReadySlices  int32
	TotalSlices  int32
	SliceSummary string
	History      []v1.Interruption
	// Conditions are SlicesReady and Healthy, complete.
	Conditions []metav1.Condition

	// Actions to take after the status is written, in this order. When one
	// fails, the later ones of the same slice must wait.
	Actions []Action
	// Suppressed are the actions that DryRun, Off or the annotation kept
	// from being taken.
	Suppressed []Action
	// Events to emit after the write, one for each transition.
	Events []Event
	// RepairPaused: too many pools look failed at once.
	RepairPaused bool
	// Wake is when to look again if nothing changes before; zero for never.
	Wake time.Time
}

// ActionKind is what to do.
type ActionKind string

// The kinds of actions. Each is idempotent.
const (
	// FencePool: put our taint, with the job's UID as value, on every node of
	// Pool that exists and does not carry it.
	FencePool ActionKind = "FencePool"
	// DeleteChildJob: foreground, with UID precondition; with Hold, our
	// finalizer is put on it before.
	DeleteChildJob ActionKind = "DeleteChildJob"
	// ReleaseHold: take our finalizer off the child Job.
	ReleaseHold ActionKind = "ReleaseHold"
	// ShortenGrace: delete the pod with GraceSeconds, with UID precondition.
	ShortenGrace ActionKind = "ShortenGrace"
	// ForceDeletePod: grace 0, with UID precondition. Of the head, too.
	ForceDeletePod ActionKind = "ForceDeletePod"
	// DeleteFailedLeaderPod: a leader pod in phase Failed makes JobSet refuse
	// followers; delete it, with UID precondition.
	DeleteFailedLeaderPod ActionKind = "DeleteFailedLeaderPod"
	// DeleteOrphanPod: no Job controls the pod; delete it, with UID
	// precondition.
	DeleteOrphanPod ActionKind = "DeleteOrphanPod"
	// HoldLost: parallelism 0 on the fresh child Job.
	HoldLost ActionKind = "HoldLost"
	// ReleaseLost: parallelism back to the number of VMs.
	ReleaseLost ActionKind = "ReleaseLost"
	// FailChildJob: activeDeadlineSeconds 1 on the child Job; the JobSet's
	// failure policy restarts the whole job, charged, or fails it. Read head
	// pod and head Job live before.
	FailChildJob ActionKind = "FailChildJob"
	// EvictHead: Eviction API on the head pod; the whole job restarts,
	// uncharged. Read head pod and head Job live before.
	EvictHead ActionKind = "EvictHead"
	// RecreateJobSet: delete the JobSet, so that it is created again with the
	// remaining maxRestarts. Read head pod and head Job live before.
	RecreateJobSet ActionKind = "RecreateJobSet"
	// MarkHeadPodFailed: phase Failed with DisruptionTarget True in the head
	// pod's status, as PodGC does.
	MarkHeadPodFailed ActionKind = "MarkHeadPodFailed"
	// MarkHeadDisrupted: DisruptionTarget True in the head pod's status, which
	// a plain deletion lacks, so that the pod failure policy does not take its
	// end for a failure. Read the head Job live before.
	MarkHeadDisrupted ActionKind = "MarkHeadDisrupted"
	// ClearReplaceSlice: take the replace-slice annotation off.
	ClearReplaceSlice ActionKind = "ClearReplaceSlice"
)

// JobLevel is the Slice of actions and events that are about no slice.
const JobLevel int32 = -1

// Action is one thing to do.
type Action struct {
	Kind ActionKind
	// Slice it is for, or JobLevel.
	Slice int32
	// Reason as in the slice's status; Message a sentence for people.
	Reason  string
	Message string

	// Pool of FencePool.
	Pool string
	// Object is the name, and UID the precondition, of the Job or pod.
	Object string
	UID    types.UID
	// Hold of DeleteChildJob.
	Hold bool
	// GraceSeconds of ShortenGrace; Parallelism of ReleaseLost.
	GraceSeconds int64
	Parallelism  int32
}

// Event is a Kubernetes event on the PathwaysJob, and what counters count.
type Event struct {
	// Warning or else Normal.
	Warning bool
	// Slice it is about, or JobLevel.
	Slice int32
	// Reason is the event's (SliceSuspended, SliceHotSwapped, ...), Cause the
	// slice's (HostFailed, ...).
	Reason  string
	Cause   string
	Message string
	// Down is for how long the slice was not Ready, for SliceResumed,
	// SliceHotSwapped and SliceRestarted.
	Down time.Duration
	// Charged is set on JobRestarting when it is charged to maxRestarts.
	Charged bool
}

// Reasons of events.
const (
	EventSlicesStarted   = "SlicesStarted"   // all slices are Ready for the first time, or again after a whole restart
	EventSliceSuspended  = "SliceSuspended"  // a slice is being stopped with its grace period
	EventSliceReplacing  = "SliceReplacing"  // a slice is being moved
	EventSliceFailing    = "SliceFailing"    // a worker ended and is restarted in place
	EventSliceWaiting    = "SliceWaiting"    // a slice is down and nothing is done about it yet
	EventSliceResumed    = "SliceResumed"    // Ready again on the pool it had
	EventSliceHotSwapped = "SliceHotSwapped" // Ready again on another pool
	EventSliceRestarted  = "SliceRestarted"  // Ready again after a restart in place
	EventSliceStateLost  = "SliceStateLost"  // a worker was killed before it had saved its part of the slice's state
	EventSliceLost       = "SliceLost"       // its restart budget is used up
	EventJobRestarting   = "JobRestarting"   // a whole restart was asked for
	EventHeadDisrupted   = "HeadDisrupted"   // the head's host is lost or its pod is being stopped
	EventRepairPaused    = "RepairPaused"    // too many pools look failed at once
	EventRepairResumed   = "RepairResumed"   // fewer do again
	EventWouldAct        = "WouldAct"        // DryRun: what would be done
	EventPodStuck        = "PodStuck"        // a pod outlived its grace period and is force-deleted
	EventBadAnnotation   = "BadAnnotation"   // the replace-slice annotation names no slice
)
