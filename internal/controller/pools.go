package controller

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

const (
	labelAccelerator = "cloud.google.com/gke-tpu-accelerator"
	labelTopology    = "cloud.google.com/gke-tpu-topology"
	labelChips       = "cloud.google.com/gke-accelerator-count"
	labelNodePool    = "cloud.google.com/gke-nodepool"
	taintTerminating = "cloud.google.com/impending-node-termination"
	taintDrained     = "ToBeDeletedByClusterAutoscaler"
)

// shape is what makes slices interchangeable.
type shape struct{ accelerator, topology string }

func tpuShape(pod *corev1.Pod) shape {
	return shape{pod.Spec.NodeSelector[labelAccelerator], pod.Spec.NodeSelector[labelTopology]}
}

// otherLabels are what a worker's node selector asks for beside its shape: a
// reservation, spot machines. JobSet pins followers to their leader's pool;
// that is no wish of the user's.
func otherLabels(pod *corev1.Pod) map[string]string {
	labels := maps.Clone(pod.Spec.NodeSelector)
	delete(labels, labelAccelerator)
	delete(labels, labelTopology)
	if index := pod.Labels[batchv1.JobCompletionIndexAnnotation]; index != "" && index != "0" {
		delete(labels, labelNodePool)
	}
	return labels
}

// slicePool is a set of nodes that can hold one slice.
type slicePool struct {
	shape shape
	nodes int
	// want is how many nodes the shape has; 0 if the labels do not tell.
	want   int
	usable int
	used   bool
	// top is the highest priority of the pods that use it.
	top int32
}

func (p *slicePool) whole() bool { return p.want > 0 && p.nodes == p.want && p.usable == p.want }

// takeable says that the pod may have the pool of pods of lower priority.
func (p *slicePool) takeable(pod *corev1.Pod) bool {
	policy := pod.Spec.PreemptionPolicy
	return p.used && p.whole() && p.top < priority(pod) && (policy == nil || *policy != corev1.PreemptNever)
}

func priority(pod *corev1.Pod) int32 { return ptr.Deref(pod.Spec.Priority, 0) }

// noPool says why no whole pool of the pod's shape is free; empty if one is, or
// can be taken from a lower priority, so that only the scheduler can know what
// is wrong.
func noPool(pod *corev1.Pod, nodes []corev1.Node, tpuPods []corev1.Pod) string {
	want, labels := tpuShape(pod), otherLabels(pod)
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !hasLabels(&n, labels) })
	var all, used, broken int
	others := map[string]int{}
	for _, p := range poolsOf(nodes, tpuPods) {
		switch {
		case p.shape.accelerator != want.accelerator:
		case p.shape.topology != want.topology:
			others[p.shape.topology]++
		default:
			all++
			if p.takeable(pod) {
				return ""
			}
			if p.used {
				used++
			} else if !p.whole() {
				broken++
			}
		}
	}
	if all > used+broken {
		return ""
	}
	kind := want.accelerator + " " + want.topology
	if len(labels) > 0 {
		kind += " with " + selector(labels)
	}
	message := fmt.Sprintf("no whole pool of %s is free: %s", kind, count(all, used, broken))
	if len(others) > 0 {
		message += "; pools of other shapes: " + listShapes(others)
	}
	return message
}

func count(all, used, broken int) string {
	if all == 0 {
		return "there is none"
	}
	noun := "pools"
	if all == 1 {
		noun = "pool"
	}
	s := fmt.Sprintf("%d %s, %d in use", all, noun, used)
	if broken > 0 {
		s += fmt.Sprintf(", %d not whole", broken)
	}
	return s
}

func listShapes(others map[string]int) string {
	var list []string
	for topology, n := range others {
		list = append(list, fmt.Sprintf("%s (%d)", topology, n))
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return strings.Join(list, ", ")
}

// poolsOf groups TPU nodes by slice pool. Where one VM is a slice, each node
// is a pool.
func poolsOf(nodes []corev1.Node, tpuPods []corev1.Pod) map[string]*slicePool {
	used := map[string]int32{} // the highest priority by node
	for i := range tpuPods {
		p := &tpuPods[i]
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			top, ok := used[p.Spec.NodeName]
			if !ok {
				top = math.MinInt32
			}
			used[p.Spec.NodeName] = max(top, priority(p))
		}
	}
	pools := map[string]*slicePool{}
	for i := range nodes {
		node := &nodes[i]
		s := shape{node.Labels[labelAccelerator], node.Labels[labelTopology]}
		if s.accelerator == "" {
			continue
		}
		want := hostsOf(node)
		key := "pool/" + node.Labels[labelNodePool]
		if want == 1 || node.Labels[labelNodePool] == "" {
			key = "node/" + node.Name
		}
		if pools[key] == nil {
			pools[key] = &slicePool{shape: s, want: want, top: math.MinInt32}
		}
		p := pools[key]
		p.nodes++
		if top, ok := used[node.Name]; ok {
			p.used, p.top = true, max(p.top, top)
		}
		if usable(node) {
			p.usable++
		}
	}
	return pools
}

// hostsOf is the number of nodes of the node's slice, by its labels; 0 if
// they do not tell.
func hostsOf(node *corev1.Node) int {
	topology, err := tpu.ParseTopology(node.Labels[labelTopology])
	if err != nil {
		return 0
	}
	chips, err := strconv.Atoi(node.Labels[labelChips])
	if err != nil || chips < 1 {
		return 0
	}
	return topology.Chips() / chips
}

// usable says whether the node takes new pods: Ready, not cordoned, and
// without a taint that speaks of its end.
func usable(node *corev1.Node) bool {
	ready := false
	for _, c := range node.Status.Conditions {
		ready = ready || (c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue)
	}
	if !ready || node.Spec.Unschedulable || !node.DeletionTimestamp.IsZero() {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") ||
			t.Key == taintTerminating || t.Key == taintDrained || t.Key == v1.TaintSliceDegraded
	})
}
