package controller

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

// gap is a JobSet with fewer Jobs than it should have, or a Job with fewer
// pods.
type gap struct {
	parent client.Object
	// what is missing, in words.
	what string
	// since is since when it could be there.
	since time.Time
}

// gaps are the head's before the slices'. There are none where nothing should
// be.
func (o *observation) gaps() []gap {
	if o.jobSet == nil || !o.jobSet.DeletionTimestamp.IsZero() || ptr.Deref(o.jobSet.Spec.Suspend, false) || endedHere(o.previous) ||
		jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetCompleted) != nil || jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetFailed) != nil {
		return nil
	}
	since := latest(o.jobSet.CreationTimestamp.Time, o.pendingSince())
	if o.headJob == nil {
		return []gap{{o.jobSet, "the head's Job", since}}
	}
	var list []gap
	var pods []*corev1.Pod
	if o.head != nil {
		pods = []*corev1.Pod{o.head}
	}
	if g := o.podGap(o.headJob, "the head's pod", since, pods); g != nil {
		list = append(list, *g)
	}
	if trueCondition(o.previous) == v1.ConditionRunning {
		since = o.slicesDownSince()
	}
	return append(list, o.sliceGaps(since)...)
}

// pendingSince is since when the job is Pending; now if it was not before.
func (o *observation) pendingSince() time.Time {
	if c := meta.FindStatusCondition(o.previous.Conditions, v1.ConditionPending); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return o.now
}

// slicesDownSince is since when not all slices are Ready; now if they are.
func (o *observation) slicesDownSince() time.Time {
	c := meta.FindStatusCondition(o.job.Status.Conditions, v1.ConditionSlicesReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return o.now
	}
	return c.LastTransitionTime.Time
}

func (o *observation) sliceGaps(since time.Time) []gap {
	var list []gap
	if missing, due := o.missingSlices(); missing > 0 {
		what := "the Job of 1 slice"
		if missing > 1 {
			what = fmt.Sprintf("the Jobs of %d slices", missing)
		}
		list = append(list, gap{o.jobSet, what, latest(since, due)})
	}
	pods := map[string][]*corev1.Pod{}
	for i := range o.workers {
		job := o.workers[i].Labels[batchv1.JobNameLabel]
		pods[job] = append(pods[job], &o.workers[i])
	}
	for i := range o.slices {
		job := &o.slices[i]
		if g := o.podGap(job, "pods of slice "+job.Labels[jobsetv1alpha2.JobIndexKey], since, pods[job.Name]); g != nil {
			list = append(list, *g)
		}
	}
	return list
}

// missingSlices counts the slices without a Job, which JobSet could have made
// since then. It makes none before the head is Ready, where they depend on it.
func (o *observation) missingSlices() (missing int, due time.Time) {
	for i := range o.jobSet.Spec.ReplicatedJobs {
		rjob := &o.jobSet.Spec.ReplicatedJobs[i]
		if rjob.Name != v1.WorkerReplicatedJob {
			continue
		}
		due = o.headJob.CreationTimestamp.Time
		if len(rjob.DependsOn) > 0 || madeByPeer(o.jobSet) {
			if o.head == nil || !podReady(o.head) {
				return 0, due
			}
			due = latest(due, podCondition(o.head, corev1.PodReady).LastTransitionTime.Time)
		}
		missing = int(rjob.Replicas) - len(o.slices)
	}
	for i := range o.slices {
		due = latest(due, o.slices[i].CreationTimestamp.Time)
	}
	return missing, due
}

// podGap is nil if the Job has all pods that it should have now.
func (o *observation) podGap(job *batchv1.Job, what string, since time.Time, pods []*corev1.Pod) *gap {
	if !job.DeletionTimestamp.IsZero() || ptr.Deref(job.Spec.Suspend, false) || job.Status.CompletionTime != nil || jobFailed(job) != nil {
		return nil
	}
	since = latest(since, job.CreationTimestamp.Time, ptr.Deref(job.Status.StartTime, metav1.Time{}).Time)
	var have int32
	for _, pod := range pods {
		since = latest(since, pod.CreationTimestamp.Time)
		if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		have++
		if pod.Spec.NodeName == "" {
			since = o.now // the others may have to follow it to its node pool
		} else if c := podCondition(pod, corev1.PodScheduled); c != nil {
			since = latest(since, c.LastTransitionTime.Time)
		}
	}
	want := min(ptr.Deref(job.Spec.Parallelism, 1), ptr.Deref(job.Spec.Completions, 1)-job.Status.Succeeded)
	if max(have, job.Status.Active) >= want {
		return nil
	}
	return &gap{job, what, since}
}

func latest(t time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if other.After(t) {
			t = other
		}
	}
	return t
}
