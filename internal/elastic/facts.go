package elastic

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
)

// goneFor is how long a live read that found no node is trusted; a node that
// comes back within it is seen in the cache first.
const goneFor = 10 * time.Second

// liveNodes remembers which nodes a live read found gone, so that a slice
// that lost many nodes does not read each of them at every look.
type liveNodes struct {
	mu   sync.Mutex
	gone map[string]time.Time
}

func newLiveNodes() *liveNodes { return &liveNodes{gone: map[string]time.Time{}} }

func (l *liveNodes) get(ctx context.Context, live client.Reader, name string, now time.Time) (*plan.Node, error) {
	l.mu.Lock()
	at, ok := l.gone[name]
	l.mu.Unlock()
	if ok && now.Sub(at) < goneFor {
		return &plan.Node{Name: name, Gone: true, Ready: plan.NodeReadyUnknown, ReadySince: at}, nil
	}
	var n corev1.Node
	err := live.Get(ctx, client.ObjectKey{Name: name}, &n)
	if err == nil {
		return nodeFacts(&n), nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading node %s live: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, at := range l.gone {
		if now.Sub(at) >= goneFor {
			delete(l.gone, other)
		}
	}
	l.gone[name] = now
	return &plan.Node{Name: name, Gone: true, Ready: plan.NodeReadyUnknown, ReadySince: now}, nil
}

// childFacts is a child Job as the planner sees it.
func childFacts(j *batchv1.Job) *plan.ChildJob {
	restarts, _ := strconv.ParseInt(j.Labels[restartAttemptLabel], 10, 32)
	return &plan.ChildJob{
		Name:             j.Name,
		UID:              j.UID,
		Restarts:         int32(restarts),
		Created:          j.CreationTimestamp.Time,
		Deleting:         !j.DeletionTimestamp.IsZero(),
		Held:             controllerutil.ContainsFinalizer(j, v1.FinalizerHold),
		Parallelism:      ptr.Deref(j.Spec.Parallelism, 1),
		Suspended:        ptr.Deref(j.Spec.Suspend, false),
		Complete:         jobIs(j, batchv1.JobComplete) || jobIs(j, batchv1.JobSuccessCriteriaMet),
		Failed:           jobIs(j, batchv1.JobFailed) || jobIs(j, batchv1.JobFailureTarget),
		CompletedIndexes: j.Status.Succeeded,
		Deadline:         j.Spec.ActiveDeadlineSeconds != nil,
	}
}

func jobIs(j *batchv1.Job, t batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == t && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// podFacts is a worker pod as the planner sees it, but for its node.
func podFacts(p *corev1.Pod) plan.Pod {
	index, _ := strconv.ParseInt(p.Labels[completionIndexLabel], 10, 32)
	facts := plan.Pod{
		Name:          p.Name,
		UID:           p.UID,
		Index:         int32(index),
		Phase:         phase(p),
		Ready:         podReady(p),
		GraceSeconds:  ptr.Deref(p.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds),
		Disrupted:     disruption(p),
		Unschedulable: unschedulableSince(p),
		Nominated:     p.Status.NominatedNodeName != "",
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		facts.JobUID = owner.UID
	}
	if p.DeletionTimestamp != nil {
		facts.Deleting, facts.DeletionTime = true, p.DeletionTimestamp.Time
	}
	worker := containerStatus(p, v1.ContainerWorker)
	if worker == nil {
		return facts
	}
	facts.Restarts = worker.RestartCount
	facts.Down = worker.State.Running == nil && lastEnd(worker) != nil
	if end := lastEnd(worker); end != nil {
		facts.Exited, facts.ExitCode, facts.ExitMessage = true, end.ExitCode, strings.TrimSpace(end.Message)
	}
	return facts
}

func phase(p *corev1.Pod) plan.Phase {
	switch p.Status.Phase {
	case corev1.PodRunning:
		return plan.PodRunning
	case corev1.PodSucceeded:
		return plan.PodSucceeded
	case corev1.PodFailed:
		return plan.PodFailed
	default:
		return plan.PodPending
	}
}

func podCondition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func podReady(p *corev1.Pod) bool {
	c := podCondition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// disruption is the reason of the pod's DisruptionTarget condition, or "".
func disruption(p *corev1.Pod) string {
	c := podCondition(p, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue {
		return ""
	}
	if c.Reason == "" {
		return string(corev1.DisruptionTarget)
	}
	return c.Reason
}

func unschedulableSince(p *corev1.Pod) time.Time {
	c := podCondition(p, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// containerStatus returns the status of a container or sidecar, or nil.
func containerStatus(p *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// lastEnd is how the container ended last, or nil if it never did.
func lastEnd(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// headFacts is the head as the planner sees it, but for its node. Its pod p
// and its Job j may be nil; main names the container of the user's program,
// "" if there is none.
func headFacts(p *corev1.Pod, j *batchv1.Job, js *jobsetv1alpha2.JobSet, main string) plan.Head {
	var facts plan.Head
	if rj := replicatedJob(js, v1.HeadReplicatedJob); rj != nil {
		facts.PodFailurePolicy = rj.Template.Spec.PodFailurePolicy != nil
	}
	facts.JobEnded = j != nil && headJobEnded(j)
	if j != nil {
		facts.JobCreated, facts.JobDeleting = j.CreationTimestamp.Time, !j.DeletionTimestamp.IsZero()
	}
	if p == nil {
		return facts
	}
	facts.Name, facts.UID = p.Name, p.UID
	facts.Phase, facts.Ready = phase(p), podReady(p)
	facts.Created = p.CreationTimestamp.Time
	facts.Disrupted = disruption(p)
	if p.DeletionTimestamp != nil {
		facts.Deleting, facts.DeletionTime = true, p.DeletionTimestamp.Time
	}
	for _, name := range []string{v1.ContainerResourceManager, v1.ContainerProxy, main} {
		status := containerStatus(p, name)
		if name == "" || status == nil {
			continue
		}
		final := name == main && mainEnded(p, status)
		facts.MainExited = facts.MainExited || final
		if end := lastEnd(status); end != nil && !final && end.FinishedAt.After(facts.ContainerRestarted) {
			facts.ContainerRestarted = end.FinishedAt.Time
		}
	}
	return facts
}

// headJobEnded says whether the head Job has ended or is about to.
func headJobEnded(j *batchv1.Job) bool {
	return !j.DeletionTimestamp.IsZero() ||
		jobIs(j, batchv1.JobComplete) || jobIs(j, batchv1.JobFailed) ||
		jobIs(j, batchv1.JobFailureTarget) || jobIs(j, batchv1.JobSuccessCriteriaMet)
}

// mainEnded says whether the main container has ended and is not restarted.
func mainEnded(p *corev1.Pod, c *corev1.ContainerStatus) bool {
	end := c.State.Terminated
	if end == nil {
		return false
	}
	switch p.Spec.RestartPolicy {
	case corev1.RestartPolicyAlways:
		return false
	case corev1.RestartPolicyOnFailure:
		return end.ExitCode == 0
	default:
		return true
	}
}
