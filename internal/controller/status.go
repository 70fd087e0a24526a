package controller

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

const (
	labelZone = "topology.kubernetes.io/zone"
	// maxMessage is what a condition's message may have, in bytes at worst.
	maxMessage = 8000
)

// exclusive are the conditions of which one is True.
var exclusive = []string{v1.ConditionPending, v1.ConditionRunning, v1.ConditionSuspended, v1.ConditionCompleted, v1.ConditionFailed}

// nextStatus is the controller's part of the status that follows from the
// observation.
func nextStatus(o *observation) v1.PathwaysJobStatus {
	next := *o.previous.DeepCopy()
	v := judge(o)
	next.ObservedGeneration = o.job.Generation
	next.State = v1.JobState(v.condition)
	next.ProxyAddress = o.proxyAddress
	next.Conditions = conditions(o, v)
	if endedHere(o.previous) {
		return next
	}
	next.TerminalState = ""
	if v.final {
		next.TerminalState = v.condition
		next.CompletionTime = ptr.To(metav1.NewTime(o.now).Rfc3339Copy())
		if v.at != nil {
			next.CompletionTime = v.at
		}
	}
	next.JobSet = jobSetStatus(o)
	next.Restarts = ptr.To(totalRestarts(o))
	next.StartTime = startTime(o)
	next.Head = headStatus(o)
	next.HeadDisruption = headDisruption(o)
	next.RestartRequest = restartRequest(o)
	return next
}

// conditions sets all conditions of the controller: the judged one is True,
// the others are False.
func conditions(o *observation, v verdict) []metav1.Condition {
	list := o.previous.DeepCopy().Conditions
	for _, t := range exclusive {
		c := metav1.Condition{
			Type: t, Status: metav1.ConditionFalse, Reason: "Not" + t, Message: "see condition " + v.condition,
			ObservedGeneration: o.job.Generation, LastTransitionTime: metav1.NewTime(o.now).Rfc3339Copy(),
		}
		if t == v.condition {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, v.reason, v.message
			if r := remark(o); r != "" && !v.final {
				c.Message += "; " + r
			}
			if len(c.Message) > maxMessage {
				c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + "…"
			}
		}
		meta.SetStatusCondition(&list, c)
	}
	return list
}

// jobSetStatus moves on to a new JobSet, whose creation is a whole restart if
// there was one before.
func jobSetStatus(o *observation) *v1.JobSetStatus {
	was := o.previous.JobSet
	if o.jobSet == nil {
		return was
	}
	s := &v1.JobSetStatus{UID: o.jobSet.UID, EarlierRestarts: ptr.To[int32](0), EarlierCharged: ptr.To[int32](0)}
	switch {
	case was == nil:
	case was.UID == o.jobSet.UID:
		s.EarlierRestarts, s.EarlierCharged = was.EarlierRestarts, was.EarlierCharged
	default:
		s.EarlierRestarts = ptr.To(ptr.Deref(o.previous.Restarts, 0) + 1)
		s.EarlierCharged = ptr.To(ptr.Deref(was.ChargedRestarts, 0))
	}
	s.ChargedRestarts = ptr.To(ptr.Deref(s.EarlierCharged, 0) + o.jobSet.Status.RestartsCountTowardsMax)
	return s
}

// totalRestarts counts the whole restarts of this and earlier JobSets.
func totalRestarts(o *observation) int32 {
	if o.jobSet == nil {
		return ptr.Deref(o.previous.Restarts, 0)
	}
	return ptr.Deref(jobSetStatus(o).EarlierRestarts, 0) + o.jobSet.Status.Restarts
}

// startTime is when the head's Job was first let start.
func startTime(o *observation) *metav1.Time {
	if o.previous.StartTime != nil || o.headJob == nil {
		return o.previous.StartTime
	}
	return o.headJob.Status.StartTime
}

// headStatus keeps the last head while there is no pod of it.
func headStatus(o *observation) *v1.HeadStatus {
	if o.head == nil {
		if o.previous.Head == nil {
			return nil
		}
		last := *o.previous.Head
		last.Ready = ptr.To(false)
		return &last
	}
	s := &v1.HeadStatus{
		PodName: o.head.Name, PodUID: o.head.UID, NodeName: o.head.Spec.NodeName,
		Ready: ptr.To(podReady(o.head)),
	}
	if o.headNode != nil {
		s.Zone = o.headNode.Labels[labelZone]
	}
	return s
}

// headDisruption notes a disruption that was seen.
func headDisruption(o *observation) *v1.HeadDisruption {
	was, seen := o.previous.HeadDisruption, o.seen.disruption
	if seen == nil || was != nil && was.PodUID == seen.PodUID {
		return was
	}
	return seen
}

// newestHead is the head's pod, or the last one that was seen if it is gone;
// empty if there was none.
func newestHead(o *observation) types.UID {
	switch {
	case o.head != nil:
		return o.head.UID
	case o.previous.Head != nil:
		return o.previous.Head.PodUID
	}
	return ""
}

// headWasDisrupted speaks of the newest head. A restart that was asked for is
// a disruption, too.
func headWasDisrupted(o *observation) bool {
	note, head := headDisruption(o), newestHead(o)
	return head != "" && (note != nil && note.PodUID == head || restartAsked(o))
}

// restartAsked says whether the restart annotation asked for the end of the
// newest head.
func restartAsked(o *observation) bool {
	asked := o.previous.RestartRequest
	return asked != nil && asked.TargetUID != "" && asked.TargetUID == newestHead(o)
}

// restartsAsNew: the JobSet has ended although the job has not, because its
// head was disrupted and exited.
func restartsAsNew(o *observation) bool {
	return headWasDisrupted(o) && (jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetCompleted) != nil || headEndedJobSet(o))
}

// headEndedJobSet says whether the JobSet failed because its head's Job did.
// JobSet's words name that Job, which the cache may not know as failed yet.
func headEndedJobSet(o *observation) bool {
	c := jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetFailed)
	return c != nil && (firstFailed(o, c.Message, v1.HeadReplicatedJob) != "" || o.headJob != nil && jobFailed(o.headJob) != nil)
}

// restartRequest takes up a new value of the restart annotation. The intent
// is written before anything is done, with the object that goes for it, so
// that it is done once.
func restartRequest(o *observation) *v1.RestartRequest {
	was := o.previous.RestartRequest
	value := o.job.Annotations[v1.AnnotationRestart]
	if value == "" || (was != nil && was.Value == value) || o.obstacle != nil {
		return was
	}
	request := &v1.RestartRequest{Value: value}
	switch {
	case o.previous.JobSet == nil || o.jobSet == nil || !o.jobSet.DeletionTimestamp.IsZero() || ptr.Deref(o.jobSet.Spec.Suspend, false) ||
		jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetCompleted) != nil || jobSetCondition(o.jobSet, jobsetv1alpha2.JobSetFailed) != nil:
		// Nothing runs that could be restarted.
	case evictionRestarts(o.jobSet) && headRuns(o.head):
		request.TargetUID = o.head.UID
	default:
		request.TargetUID = o.jobSet.UID
	}
	return request
}

// evictionRestarts says whether the JobSet restarts, uncharged, when its head
// is evicted.
func evictionRestarts(jobSet *jobsetv1alpha2.JobSet) bool {
	for i := range jobSet.Spec.ReplicatedJobs {
		if rj := &jobSet.Spec.ReplicatedJobs[i]; rj.Name == v1.HeadReplicatedJob {
			return rj.Template.Spec.PodFailurePolicy != nil
		}
	}
	return false
}

// sameOutcome says whether two statuses differ in words and details only.
func sameOutcome(a, b v1.PathwaysJobStatus) bool {
	for _, t := range exclusive {
		x, y := meta.FindStatusCondition(a.Conditions, t), meta.FindStatusCondition(b.Conditions, t)
		if x == nil || y == nil || x.Status != y.Status || x.Reason != y.Reason {
			return false
		}
	}
	return ptr.Deref(a.Restarts, 0) == ptr.Deref(b.Restarts, 0) &&
		ptr.Deref(a.JobSet, v1.JobSetStatus{}).UID == ptr.Deref(b.JobSet, v1.JobSetStatus{}).UID &&
		ptr.Deref(a.RestartRequest, v1.RestartRequest{}) == ptr.Deref(b.RestartRequest, v1.RestartRequest{}) &&
		ptr.Deref(a.HeadDisruption, v1.HeadDisruption{}).PodUID == ptr.Deref(b.HeadDisruption, v1.HeadDisruption{}).PodUID &&
		a.ObservedGeneration == b.ObservedGeneration
}
