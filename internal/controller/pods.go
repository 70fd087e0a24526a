package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// reasonDeleted is the disruption of a pod that was deleted without one of
// Kubernetes' own reasons.
const reasonDeleted = "Deleted"

func headRuns(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp.IsZero() && pod.Status.Phase == corev1.PodRunning
}

func headSucceeded(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && pod.Status.Phase == corev1.PodSucceeded
}

// allStarted says whether all containers of the pod run, sidecars too.
func allStarted(pod *corev1.Pod) bool {
	started := 0
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].State.Running == nil && (list[i].State.Terminated == nil || list[i].State.Terminated.ExitCode != 0) {
				return false
			}
			started++
		}
	}
	return started > 0
}

func podReady(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// sliceReady says whether all workers of the slice are ready. A slice that is
// held down has parallelism 0, and is not.
func sliceReady(job *batchv1.Job) bool {
	want := ptr.Deref(job.Spec.Completions, 1)
	return job.DeletionTimestamp.IsZero() && ptr.Deref(job.Spec.Parallelism, 1) >= want && ptr.Deref(job.Status.Ready, 0) >= want
}

// disrupted returns why the pod was stopped before its program had ended by
// itself; empty if it was not. A program that has ended first has ended.
func disrupted(pod *corev1.Pod, main string) string {
	ended := endOf(pod, main)
	// Times have whole seconds; in the same second the stop is the likelier
	// cause.
	first := func(t time.Time) bool { return ended.IsZero() || !ended.Before(t.Truncate(time.Second)) }
	if c := podCondition(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue && first(c.LastTransitionTime.Time) {
		return c.Reason
	}
	if pod.DeletionTimestamp.IsZero() || failedItsJob(pod) {
		return ""
	}
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	if first(pod.DeletionTimestamp.Add(-grace)) {
		return reasonDeleted
	}
	return ""
}

// failedItsJob says whether a container has ended in a pod whose Job allows no
// restart: then it is the Job that deletes the pod.
func failedItsJob(pod *corev1.Pod) bool {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.RestartCount > 0 {
			return true
		}
	}
	return false
}

// endOf is when the program ended: the main container, or the last of all
// containers where there is no such one. Zero while it runs.
func endOf(pod *corev1.Pod, main string) time.Time {
	var last time.Time
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		switch {
		case main != "" && s.Name != main:
		case s.State.Terminated == nil:
			return time.Time{}
		case s.State.Terminated.FinishedAt.After(last):
			last = s.State.Terminated.FinishedAt.Time
		}
	}
	return last
}

// exit says how a container ended, in words.
func exit(name string, t *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("container %s ended with exit code %d", name, t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		s += " (" + t.Reason + ")"
	}
	if last := strings.TrimSpace(t.Message); last != "" {
		s += ": " + last
	}
	return s
}
