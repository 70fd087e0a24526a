package controller

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

// verdict is the one condition of a job that is True.
type verdict struct {
	condition string
	reason    string
	message   string
	// final: the job has ended and never starts again.
	final bool
	// at is when it ended, where somebody else knows that.
	at *metav1.Time
	// again is when to look again without an event; 0 is after lookAgain.
	again time.Duration
}

// judge goes down the conditions; the first that holds is True. Each step
// looks at the observation only.
func judge(o *observation) verdict {
	for _, step := range []func(*observation) *verdict{ended, completed, failed, endedBefore, blocked, suspended, running} {
		if v := step(o); v != nil {
			return *v
		}
	}
	return pending(o)
}

// endedHere says whether this operator has seen the job end: that is final,
// whatever becomes of its JobSet.
func endedHere(s v1.PathwaysJobStatus) bool {
	return s.TerminalState != "" && s.ObservedGeneration > 0
}

func ended(o *observation) *verdict {
	if !endedHere(o.previous) {
		return nil
	}
	return endedAs(o.previous)
}

// endedBefore trusts a terminal state that another operator wrote only where
// no JobSet is left: google/pathways-job writes Failed after any error, while
// its JobSet may run later.
func endedBefore(o *observation) *verdict {
	if o.previous.TerminalState == "" || o.jobSet != nil || o.obstacle != nil {
		return nil
	}
	return endedAs(o.previous)
}

func endedAs(s v1.PathwaysJobStatus) *verdict {
	v := &verdict{condition: v1.ConditionFailed, reason: v1.ReasonEndedBefore, final: true, at: s.CompletionTime}
	if s.TerminalState == string(v1.JobCompleted) {
		v.condition = v1.ConditionCompleted
	}
	v.message = fmt.Sprintf("the job had ended as %s before this operator saw it", s.TerminalState)
	if c := meta.FindStatusCondition(s.Conditions, v.condition); c != nil && c.Status == metav1.ConditionTrue && c.Reason != "" && s.ObservedGeneration > 0 {
		v.reason, v.message = c.Reason, c.Message
	}
	return v
}

func completed(o *observation) *verdict {
	c := jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetCompleted)
	if c == nil || headWasDisrupted(o) {
		return nil
	}
	message := "the program ended with success"
	if o.main != "" {
		message = fmt.Sprintf("the program in container %s ended with success", o.main)
	}
	return &verdict{condition: v1.ConditionCompleted, reason: v1.ReasonSucceeded, message: message, final: true, at: &c.LastTransitionTime}
}

func failed(o *observation) *verdict {
	c := jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetFailed)
	if c == nil || restartsAsNew(o) {
		return nil
	}
	reason, message := whatFailed(o, c.Message)
	return &verdict{condition: v1.ConditionFailed, reason: reason, message: message, final: true, at: &c.LastTransitionTime}
}

// blocked is what keeps the JobSet from being there, or from being known.
func blocked(o *observation) *verdict { return o.obstacle }

// suspended follows the JobSet's spec: its own condition lags.
func suspended(o *observation) *verdict {
	if o.jobSet == nil || !ptr.Deref(o.jobSet.Spec.Suspend, false) || !o.jobSet.DeletionTimestamp.IsZero() || restartsAsNew(o) {
		return nil
	}
	v := &verdict{condition: v1.ConditionSuspended}
	switch queue := o.job.Labels[labelQueue]; {
	case queue != "":
		v.reason = v1.ReasonQueued
		v.message = fmt.Sprintf("Kueue has not admitted the job; it waits in queue %s", queue)
	case ptr.Deref(o.job.Spec.Suspend, false):
		v.reason = v1.ReasonSuspendedByUser
		v.message = "spec.suspend is true; set it to false to let the job run"
	default:
		v.reason = v1.ReasonSuspendedByOther
		v.message = "the JobSet was suspended, and not by spec.suspend of the PathwaysJob"
	}
	if n := stillRunning(o); n > 0 {
		v.message += fmt.Sprintf("; %d of its pods are still being stopped", n)
	}
	return v
}

// stillRunning counts head and slices that have active pods.
func stillRunning(o *observation) int32 {
	var n int32
	if o.headJob != nil {
		n += o.headJob.Status.Active
	}
	for i := range o.slices {
		n += o.slices[i].Status.Active
	}
	return n
}

func running(o *observation) *verdict {
	if o.jobSet == nil || !o.jobSet.DeletionTimestamp.IsZero() || restartsAsNew(o) || o.head == nil {
		return nil
	}
	wasRunning := meta.IsStatusConditionTrue(o.previous.Conditions, v1.ConditionRunning) &&
		o.previous.Head != nil && o.previous.Head.PodUID == o.head.UID
	switch {
	case wasRunning && headSucceeded(o.head) && !headWasDisrupted(o): // JobSet is about to say that the job has completed
	case !headRuns(o.head):
		return nil
	case !wasRunning && (!allStarted(o.head) || readySlices(o) < neededSlices(o.job)):
		return nil
	}
	message := "the head runs and the slices have started"
	if o.proxyAddress != "" && o.main == "" {
		message += "; clients connect to " + o.proxyAddress
	}
	if o.refused != nil {
		message += "; but " + o.refused.message
	}
	return &verdict{condition: v1.ConditionRunning, reason: v1.ReasonRunning, message: message}
}

// neededSlices is how many slices must be Ready at once for the job to count
// as running: all, or all but elasticSlices and at least one.
func neededSlices(job *v1.PathwaysJob) int32 {
	return max(1, numSlices(job)-ptr.Deref(job.Spec.Controller.ElasticSlices, 0))
}

func numSlices(job *v1.PathwaysJob) int32 {
	if len(job.Spec.Workers) == 0 {
		return 0
	}
	return job.Spec.Workers[0].NumSlices
}

// readySlices counts the slices whose workers are all ready. JobSet's own
// count takes a slice that is held down for a ready one.
func readySlices(o *observation) int32 {
	var n int32
	for i := range o.slices {
		if sliceReady(&o.slices[i]) {
			n++
		}
	}
	return n
}

// pending is what is left: something must run and does not.
func pending(o *observation) verdict {
	v := verdict{condition: v1.ConditionPending, reason: v1.ReasonStarting}
	switch slices := numSlices(o.job); slices {
	case 1:
		v.message = "the head and 1 slice are starting"
	default:
		v.message = fmt.Sprintf("the head and %d slices are starting", slices)
	}
	switch {
	case o.jobSet == nil:
		v.message = "its JobSet is being created"
	case !o.jobSet.DeletionTimestamp.IsZero():
		v.reason, v.message = v1.ReasonRestarting, "its JobSet is being deleted; it is created again once that is gone"
	case restartsAsNew(o):
		v.reason, v.message = v1.ReasonRestarting, "the head ended because it was disrupted, so the job has neither completed nor failed: its JobSet is created again"
	case o.refused != nil:
		v.reason, v.message = o.refused.reason, o.refused.message
	case waitsFor(o) != nil:
		obstacle := waitsFor(o)
		v.reason, v.message = obstacle.reason, obstacle.message
	case o.head != nil && headWasDisrupted(o) && (!o.head.DeletionTimestamp.IsZero() || !headRuns(o.head)):
		v.reason, v.message = v1.ReasonRestarting, disruptionWords(o)
	case headFails(o):
		v.reason, v.message = v1.ReasonContainerFailed, o.seen.failure+"; "+restartBudget(o)
	case totalRestarts(o) > 0:
		v.reason = v1.ReasonRestarting
		v.message = fmt.Sprintf("restart %d of the whole job: %s", totalRestarts(o), v.message)
	case reasonOf(o.previous, v1.ConditionPending) == v1.ReasonRestarting:
		v.reason = v1.ReasonRestarting // JobSet has not counted it yet
	}
	return v
}

// disruptionWords say what follows from the disruption of the head.
func disruptionWords(o *observation) string {
	switch {
	case restartAsked(o):
		return "the restart annotation asked for it; the whole job restarts"
	case o.headJob == nil || !metav1.IsControlledBy(o.head, o.headJob):
		return "the head's Job was deleted; the head starts again"
	}
	return "the head was disrupted; the whole job restarts"
}

// headFails: the program failed by itself, and JobSet is about to restart the
// job. Where that cannot be, it says so in a moment.
func headFails(o *observation) bool {
	return o.head != nil && o.seen.failure != "" && !headWasDisrupted(o) && ptr.Deref(o.job.Spec.MaxRestarts, 0) > 0 &&
		(o.head.Status.Phase == corev1.PodFailed || o.headJob != nil && jobFailed(o.headJob) != nil)
}

// remark is what a person should know whatever the state is.
func remark(o *observation) string {
	var remarks []string
	if o.job.Spec.Suspend != nil && o.job.Labels[labelQueue] != "" {
		remarks = append(remarks, "spec.suspend is not applied: the job belongs to a Kueue queue; set spec.active of its Workload instead")
	}
	if o.jobSet != nil && madeByPeer(o.jobSet) {
		remarks = append(remarks, "its JobSet was made by google/pathways-job and keeps that spec until a whole restart creates it again")
	}
	return strings.Join(remarks, "; ")
}

// madeByPeer says whether google/pathways-job made the JobSet: with a startup
// policy. JobSet's own default is AnyOrder.
func madeByPeer(jobSet *jobsetv1alpha2.JobSet) bool {
	return jobSet.Spec.StartupPolicy != nil && jobSet.Spec.StartupPolicy.StartupPolicyOrder == jobsetv1alpha2.InOrder
}

// jobSetCondition returns the condition if it is True.
func jobSetCondition(jobSet *jobsetv1alpha2.JobSet, t jobsetv1alpha2.JobSetConditionType) *metav1.Condition {
	if jobSet == nil {
		return nil
	}
	c := meta.FindStatusCondition(jobSet.Status.Conditions, string(t))
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}
