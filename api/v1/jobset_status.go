package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// JobSetStatus says which JobSet runs the job, and what the job's earlier
// JobSets have used up: a JobSet that was deleted under a running job, or
// that ended although the job did not, is created again.
type JobSetStatus struct {
	// uid of the JobSet.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// earlierRestarts is the number of whole restarts before this JobSet was
	// created, its own creation included.
	// +optional
	EarlierRestarts *int32 `json:"earlierRestarts,omitempty"`

	// earlierCharged is how many of those were counted against maxRestarts.
	// +optional
	EarlierCharged *int32 `json:"earlierCharged,omitempty"`

	// chargedRestarts is the number of whole restarts counted against
	// maxRestarts so far, by this JobSet and earlier ones.
	// +optional
	ChargedRestarts *int32 `json:"chargedRestarts,omitempty"`
}

// RestartRequest is a whole restart that was asked for by annotation.
type RestartRequest struct {
	// value of the restart annotation that was taken up last.
	// +optional
	Value string `json:"value,omitempty"`

	// targetUID is the UID of the object that goes for it: the head's pod
	// where its JobSet restarts the job after an eviction, the JobSet
	// elsewhere. Absent if there was nothing to restart.
	// +optional
	TargetUID types.UID `json:"targetUID,omitempty"`
}

// HeadDisruption is a disruption of the head that was seen before its pod was
// gone. A head that exits with 0 because of one has not completed the job.
type HeadDisruption struct {
	// podUID of the head's pod.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`

	// reason of the disruption, as the pod tells it, for example
	// EvictionByEvictionAPI; Deleted where the pod was just deleted.
	// +optional
	Reason string `json:"reason,omitempty"`

	// time at which it was seen.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}
