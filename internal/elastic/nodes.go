package elastic

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// Labels and taints by which nodes say that they go away.
// Source: https://cloud.google.com/kubernetes-engine/docs/how-to/tpus
const (
	labelMaintenanceTime  = "cloud.google.com/scheduled-maintenance-time"
	labelMaintenanceNow   = "cloud.google.com/active-node-maintenance"
	maintenanceOngoing    = "ONGOING"
	taintTerminating      = "cloud.google.com/impending-node-termination"
	taintOutOfService     = "node.kubernetes.io/out-of-service"
	taintShutdown         = "node.cloudprovider.kubernetes.io/shutdown"
	taintScaleDown        = "ToBeDeletedByClusterAutoscaler"
	kubernetesTaintPrefix = "node.kubernetes.io/"
)

// readyCondition returns the node's Ready condition; one that was never
// reported counts as Unknown since the node's creation.
func readyCondition(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		Reason: "NeverReported", LastTransitionTime: n.CreationTimestamp,
	}
}

// shuttingDown says whether a kubelet that is not Ready says that its node is
// being shut down (graceful node shutdown reports "node is shutting down").
func shuttingDown(c corev1.NodeCondition) bool {
	return c.Status == corev1.ConditionFalse &&
		(strings.Contains(strings.ToLower(c.Message), "shutting down") ||
			strings.Contains(strings.ToLower(c.Reason), "shutdown"))
}

func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

// schedulable says whether the scheduler may place a worker on the node, our
// fence aside: not cordoned, and without a taint by which Kubernetes or the
// cloud provider keeps pods off. gke-spot and google.com/tpu taints are
// tolerated by workers, DeletionCandidate is only a preference.
func schedulable(n *corev1.Node) bool {
	if n.Spec.Unschedulable {
		return false
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Key != v1.TaintSliceDegraded && passing(t) {
			return false
		}
	}
	return true
}

// passing says whether a taint is of the kind that comes and goes with the
// node's health, instead of telling who the node is for.
func passing(t *corev1.Taint) bool {
	switch t.Key {
	case taintShutdown, taintTerminating, taintScaleDown, v1.TaintSliceDegraded:
		return true
	}
	return strings.HasPrefix(t.Key, kubernetesTaintPrefix)
}

// maintenanceAt is the announced start of maintenance; zero if none is.
func maintenanceAt(n *corev1.Node) time.Time {
	s, err := strconv.ParseInt(n.Labels[labelMaintenanceTime], 10, 64)
	if err != nil || s <= 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

// poolSize is the number of nodes that a slice pool must have, from the
// topology and the chips that the node's labels name; 0 if they do not tell.
func poolSize(n *corev1.Node) int {
	topology, err := tpu.ParseTopology(n.Labels[tpu.LabelTopology])
	if err != nil {
		return 0
	}
	chips, err := strconv.Atoi(n.Labels[tpu.LabelAcceleratorCount])
	if err != nil || chips <= 0 {
		return 0
	}
	return topology.Chips() / chips
}

// fenceOf returns our taint on the node, or nil.
func fenceOf(n *corev1.Node) *corev1.Taint {
	for i := range n.Spec.Taints {
		if n.Spec.Taints[i].Key == v1.TaintSliceDegraded {
			return &n.Spec.Taints[i]
		}
	}
	return nil
}

// holdsTPU says whether the pod asks for TPUs and has not ended.
func holdsTPU(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].Resources
		if _, ok := r.Limits[tpu.Resource]; ok {
			return true
		}
		if _, ok := r.Requests[tpu.Resource]; ok {
			return true
		}
	}
	return false
}
