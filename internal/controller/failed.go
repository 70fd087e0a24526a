package controller

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
)

// whatFailed returns reason and message of a job whose JobSet failed with the
// given words.
func whatFailed(o *observation, words string) (reason, message string) {
	reason, message = v1.ReasonJobSetFailed, words
	slice := sliceFailure(o, words)
	switch {
	case slice != "" && firstFailed(o, words, v1.WorkerReplicatedJob) != "":
		// The head was stopped because of it, and may have failed by that.
		reason, message = v1.ReasonSliceFailed, slice
	case firstFailure(o) != "":
		reason, message = v1.ReasonContainerFailed, firstFailure(o)
		if down := slicesDown(o); len(down) > 0 && o.main != "" {
			message += "; the client gave up while " + strings.Join(down, ", ") + " was down"
		}
	case slice != "":
		reason, message = v1.ReasonSliceFailed, slice
	case o.seen.failure != "" && o.seen.head == newestHead(o):
		reason, message = v1.ReasonContainerFailed, o.seen.failure // and its pod is gone
	}
	return reason, message + "; " + restartBudget(o)
}

// firstFailed is the index of the Job that JobSet's words call the first that
// failed, if it is one of this replicated job; else empty.
func firstFailed(o *observation, words, replicatedJob string) string {
	_, rest, _ := strings.Cut(words, "first failed job: "+o.job.Name+"-"+replicatedJob+"-")
	index, _, _ := strings.Cut(rest, ")")
	return index
}

// firstFailure is headFailure, but as it was before the pod was deleted.
func firstFailure(o *observation) string {
	if o.head != nil && o.seen.head == o.head.UID && o.seen.failure != "" {
		return o.seen.failure
	}
	return headFailure(o)
}

// restartBudget says what is left of maxRestarts when a job has failed.
func restartBudget(o *observation) string {
	budget := ptr.Deref(o.job.Spec.MaxRestarts, 0)
	if budget == 0 {
		return "maxRestarts is 0"
	}
	return fmt.Sprintf("%d of maxRestarts %d are used", ptr.Deref(jobSetStatus(o).ChargedRestarts, 0), budget)
}

// headFailure says which container of the head failed, and how; empty if none
// is known to have. The program is looked at first: the others are stopped
// when it ends.
func headFailure(o *observation) string {
	if o.head == nil {
		return ""
	}
	var first *corev1.ContainerStatus
	for _, list := range [][]corev1.ContainerStatus{o.head.Status.ContainerStatuses, o.head.Status.InitContainerStatuses} {
		for i := range list {
			s := &list[i]
			t := endState(s)
			if t == nil || t.ExitCode == 0 {
				continue
			}
			if s.Name == o.main {
				return "the head's " + exit(s.Name, t)
			}
			if first == nil || t.FinishedAt.Before(&endState(first).FinishedAt) {
				first = s
			}
		}
	}
	switch {
	case first != nil:
		return "the head's " + exit(first.Name, endState(first))
	case o.head.Status.Phase == corev1.PodFailed && o.head.Status.Message != "":
		return fmt.Sprintf("the head failed: %s: %s", o.head.Status.Reason, o.head.Status.Message)
	default:
		return ""
	}
}

// endState is how a container ended now or before its last restart.
func endState(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// sliceFailure says which slice's Job failed first, with what the elastic
// sub-controller knows of it. The cache may not know the Job as failed yet.
func sliceFailure(o *observation, words string) string {
	named := firstFailed(o, words, v1.WorkerReplicatedJob)
	index := named
	var at *batchv1.JobCondition
	for i := range o.slices {
		c, of := jobFailed(&o.slices[i]), o.slices[i].Labels[jobsetv1alpha2.JobIndexKey]
		if c != nil && (named == "" || named == of) && (at == nil || c.LastTransitionTime.Before(&at.LastTransitionTime)) {
			index, at = of, c
		}
	}
	if index == "" {
		return ""
	}
	for i := range o.job.Status.Slices {
		s := &o.job.Status.Slices[i]
		if s.Index == nil || fmt.Sprint(*s.Index) != index || s.Reason == "" {
			continue
		}
		message := fmt.Sprintf("slice %s failed (%s)", index, s.Reason)
		if s.Message != "" {
			message += ": " + s.Message
		}
		return message + fmt.Sprintf("; it restarted %d times, maxSliceRestarts is %d",
			ptr.Deref(s.Restarts, 0), ptr.Deref(o.job.Spec.Workers[0].MaxSliceRestarts, 1))
	}
	if at == nil {
		return fmt.Sprintf("slice %s failed", index)
	}
	return fmt.Sprintf("slice %s failed: %s: %s", index, at.Reason, at.Message)
}

func jobFailed(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// slicesDown names the slices that had been up and were not when the job
// failed. Those that were stopped because it failed are not meant.
func slicesDown(o *observation) []string {
	var down []string
	for i := range o.job.Status.Slices {
		s := &o.job.Status.Slices[i]
		stopped := s.Reason == plan.ReasonJobEnding || s.Reason == plan.ReasonJobEnded
		if s.Index != nil && !stopped && s.State != v1.SliceReady && s.State != v1.SlicePending && s.State != "" {
			down = append(down, fmt.Sprintf("slice %d (%s, %s)", *s.Index, s.State, s.Reason))
		}
	}
	return down
}
