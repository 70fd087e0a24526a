package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// maxNote is what an event's note may have, in bytes.
const maxNote = 1024

// transition is one thing to tell.
type transition struct {
	kind, reason, action, note string
}

// announce emits the events of a status that was just written.
func (r *Reconciler) announce(o *observation, next v1.PathwaysJobStatus) {
	for _, e := range transitions(o, next) {
		note := e.note
		if len(note) > maxNote {
			note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
		}
		r.recorder.Eventf(o.job, nil, e.kind, e.reason, e.action, "%s", note)
	}
}

// transitions compares what was written before with what is written now: one
// event for each thing that happened in between.
func transitions(o *observation, next v1.PathwaysJobStatus) []transition {
	var list []transition
	add := func(kind, reason, action, format string, args ...any) {
		list = append(list, transition{kind, reason, action, fmt.Sprintf(format, args...)})
	}
	restarted := ptr.Deref(next.Restarts, 0) > ptr.Deref(o.previous.Restarts, 0)
	switch {
	case o.previous.JobSet == nil && next.JobSet != nil && (o.created || !madeByPeer(o.jobSet)):
		// The write of the status that creating it led to may have failed.
		add(corev1.EventTypeNormal, v1.EventJobSetCreated, "Create", "created JobSet %s", o.job.Name)
	case o.previous.JobSet == nil && next.JobSet != nil:
		add(corev1.EventTypeNormal, v1.EventJobSetAdopted, "Adopt", "found JobSet %s of this job", o.job.Name)
	case restarted && o.previous.JobSet.UID != next.JobSet.UID:
		add(corev1.EventTypeNormal, v1.EventJobRestarted, "Restart", "restart %d of the whole job: its JobSet was created again", *next.Restarts)
	case restarted:
		add(corev1.EventTypeNormal, v1.EventJobRestarted, "Restart", "restart %d of the whole job; %d of maxRestarts %d are used",
			*next.Restarts, ptr.Deref(next.JobSet.ChargedRestarts, 0), ptr.Deref(o.job.Spec.MaxRestarts, 0))
	}
	was, is := trueCondition(o.previous), trueCondition(next)
	message := meta.FindStatusCondition(next.Conditions, is).Message
	reason := meta.FindStatusCondition(next.Conditions, is).Reason
	switch {
	case was == is && (is != v1.ConditionPending || reasonOf(o.previous, was) == reason || calmReason(reason)):
	case is == v1.ConditionRunning:
		add(corev1.EventTypeNormal, v1.EventJobRunning, "Observe", "%s", message)
		if far := slicesElsewhere(o); far != "" {
			add(corev1.EventTypeWarning, v1.EventZonesDiffer, "Observe", "%s", far)
		}
	case is == v1.ConditionSuspended:
		add(corev1.EventTypeNormal, v1.EventJobSuspended, "Observe", "%s", message)
	case is == v1.ConditionCompleted:
		add(corev1.EventTypeNormal, v1.EventJobCompleted, "Observe", "%s", message)
	case is == v1.ConditionFailed:
		add(corev1.EventTypeWarning, v1.EventJobFailed, "Observe", "%s", message)
	case was == v1.ConditionSuspended && calmReason(reason):
		add(corev1.EventTypeNormal, v1.EventJobResumed, "Observe", "%s", message)
	case !calmReason(reason):
		add(corev1.EventTypeWarning, v1.EventJobPending, "Observe", "%s", message)
	}
	return list
}

// calmReason: nothing stands in the job's way.
func calmReason(reason string) bool {
	return reason == v1.ReasonStarting || reason == v1.ReasonRestarting
}

// trueCondition is the one of the exclusive conditions that is True.
func trueCondition(s v1.PathwaysJobStatus) string {
	for _, t := range exclusive {
		if meta.IsStatusConditionTrue(s.Conditions, t) {
			return t
		}
	}
	return ""
}

func reasonOf(s v1.PathwaysJobStatus, condition string) string {
	if c := meta.FindStatusCondition(s.Conditions, condition); c != nil {
		return c.Reason
	}
	return ""
}

func suspendedByUser(s v1.PathwaysJobStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v1.ConditionSuspended) && reasonOf(s, v1.ConditionSuspended) == v1.ReasonSuspendedByUser
}

// slicesElsewhere says which slices are in another zone than the head.
func slicesElsewhere(o *observation) string {
	if o.headNode == nil || o.headNode.Labels[labelZone] == "" {
		return ""
	}
	zone := o.headNode.Labels[labelZone]
	var list []string
	for _, index := range slices.Sorted(maps.Keys(o.sliceZones)) {
		if other := o.sliceZones[index]; other != "" && other != zone {
			list = append(list, fmt.Sprintf("slice %d runs in zone %s", index, other))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("the head runs in zone %s, but %s: all traffic between them crosses zones", zone, strings.Join(list, ", "))
}
