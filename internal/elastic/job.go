package elastic

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// begun says whether the job's controller has written a status, which this
// one adds to.
func begun(job *v1.PathwaysJob) bool { return job.Status.ObservedGeneration > 0 }

// finished says whether the job has Completed or Failed.
func finished(job *v1.PathwaysJob) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionCompleted) ||
		meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionFailed)
}

// obstructed says whether something stands in the way of the job's start.
func obstructed(job *v1.PathwaysJob) bool {
	c := meta.FindStatusCondition(job.Status.Conditions, v1.ConditionPending)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason != v1.ReasonStarting && c.Reason != v1.ReasonRestarting
}

// suspended says whether the job is suspended as a whole.
func suspended(job *v1.PathwaysJob) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionSuspended)
}

// repairDisabled says whether the job's annotation switches repair off.
func repairDisabled(job *v1.PathwaysJob) bool {
	return job.Annotations[v1.AnnotationSliceRepair] == v1.SliceRepairDisabled
}

// ours says whether this operator manages the job.
func ours(job *v1.PathwaysJob) bool {
	by := job.Spec.ManagedBy
	return by == nil || *by == v1.ManagedByController
}

// everRunning says whether the job was Running at some time: it is, or was
// restarted, or each of its slices was Ready once.
func everRunning(job *v1.PathwaysJob) bool {
	if meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionRunning) || ptr.Deref(job.Status.Restarts, 0) > 0 {
		return true
	}
	for _, s := range job.Status.Slices {
		if s.ReadyJobUID == "" {
			return false
		}
	}
	return len(job.Status.Slices) > 0
}

// anySliceDown says whether a slice is known not to be Ready.
func anySliceDown(job *v1.PathwaysJob) bool {
	for _, s := range job.Status.Slices {
		if s.State != v1.SliceReady {
			return true
		}
	}
	return false
}

// resumable says whether Pathways can save the state of the job's slices.
func resumable(job *v1.PathwaysJob) bool {
	for _, c := range job.Spec.CustomComponents {
		if c.ComponentType == v1.ComponentColocatedPythonSidecar {
			return false
		}
	}
	return job.Spec.PathwaysDir != ""
}
