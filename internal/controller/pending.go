package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

// waitsFor returns what keeps a pod of the job from running, the head's
// before the slices' in their order; nil if nothing does that is worth a word.
func waitsFor(o *observation) *verdict {
	if o.head != nil {
		if v := podObstacle(o, o.head, "the head"); v != nil {
			return v
		}
	}
	workers := slices.Clone(o.workers)
	slices.SortStableFunc(workers, func(a, b corev1.Pod) int { return sliceIndex(&a) - sliceIndex(&b) })
	for i := range workers {
		if v := podObstacle(o, &workers[i], fmt.Sprintf("slice %d", sliceIndex(&workers[i]))); v != nil {
			return v
		}
	}
	return nil
}

func sliceIndex(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Labels[jobsetv1alpha2.JobIndexKey])
	if err != nil {
		return -1
	}
	return n
}

// podObstacle is what keeps one pod from running.
func podObstacle(o *observation, pod *corev1.Pod, who string) *verdict {
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	v := &verdict{condition: v1.ConditionPending}
	if words := unschedulable(pod); words != "" {
		v.reason, v.message = v1.ReasonUnschedulable, fmt.Sprintf("no node for %s; the scheduler says: %s", who, words)
		switch {
		case tpuShape(pod) != shape{}:
			if message := noPool(pod, o.nodes, o.tpuPods); message != "" {
				v.reason, v.message = v1.ReasonNoSlicePool, message
			}
		case isHead(pod.Labels):
			if message := noHeadNode(pod, o.nodes); message != "" {
				v.reason, v.message = v1.ReasonNoHeadNode, message
			}
		}
		return v
	}
	if rejected(pod) {
		v.reason = v1.ReasonPodRejected
		v.message = fmt.Sprintf("node %s rejected %s: %s: %s", pod.Spec.NodeName, who, pod.Status.Reason, pod.Status.Message)
		return v
	}
	name, waiting, last := troubled(pod)
	switch {
	case waiting == nil:
		return nil
	case waiting.Reason == "CrashLoopBackOff" && last != nil:
		v.reason, v.message = v1.ReasonContainerCrashing, who+"'s "+exit(name, last)+"; it is started again and again"
	default:
		v.reason = v1.ReasonContainerNotStarting
		v.message = fmt.Sprintf("%s's container %s cannot start: %s", who, name, waiting.Reason)
		if waiting.Message != "" {
			v.message += ": " + waiting.Message
		}
	}
	return v
}

// unschedulable returns the scheduler's words; empty if it has none.
func unschedulable(pod *corev1.Pod) string {
	c := podCondition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || pod.Spec.NodeName != "" || !pod.DeletionTimestamp.IsZero() {
		return ""
	}
	if c.Message == "" {
		return c.Reason
	}
	return c.Message
}

// rejected says whether the kubelet refused the pod before any container of
// it was made: a port in use, or no room after all.
func rejected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" && pod.Status.Message != "" &&
		podCondition(pod, corev1.DisruptionTarget) == nil && len(pod.Status.ContainerStatuses) == 0
}

// troubled returns the first container that waits for another reason than
// being made.
func troubled(pod *corev1.Pod) (string, *corev1.ContainerStateWaiting, *corev1.ContainerStateTerminated) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return list[i].Name, w, list[i].LastTerminationState.Terminated
			}
		}
	}
	return "", nil, nil
}

// noHeadNode says that no CPU node is large enough for the head, has its
// labels, or lets it in; empty if one does, so that only the scheduler knows
// what is wrong.
func noHeadNode(pod *corev1.Pod, nodes []corev1.Node) string {
	cpu, memory := requests(&pod.Spec)
	asked := fmt.Sprintf("no node for the head: %s CPU and %s GB asked", cores(cpu), gigabytes(memory))
	var most, mostMemory int64
	var large int
	found := false
	taints := map[string]bool{}
	for i := range nodes {
		node := &nodes[i]
		if node.Labels[labelAccelerator] != "" || !hasLabels(node, pod.Spec.NodeSelector) {
			continue
		}
		c, m := node.Status.Allocatable.Cpu().MilliValue(), node.Status.Allocatable.Memory().Value()
		if c >= cpu && m >= memory {
			taint := keptOutBy(pod, node)
			if taint == "" {
				return ""
			}
			taints[taint] = true
			large++
		}
		if !found || c > most || (c == most && m > mostMemory) {
			most, mostMemory, found = c, m, true
		}
	}
	largest := "the largest CPU node"
	if len(pod.Spec.NodeSelector) > 0 {
		largest += " with " + selector(pod.Spec.NodeSelector)
	}
	switch {
	case large > 0:
		whose := "the only CPU node that has as much has"
		if large > 1 {
			whose = fmt.Sprintf("all %d CPU nodes that have as much have", large)
		}
		return fmt.Sprintf("%s, and %s a taint that it does not tolerate: %s", asked, whose, strings.Join(slices.Sorted(maps.Keys(taints)), ", "))
	case found && most >= cpu:
		return fmt.Sprintf("%s, %s has %s CPU and %s GB", asked, largest, cores(most), gigabytes(mostMemory))
	case found:
		return fmt.Sprintf("%s, %s has %s", asked, largest, cores(most))
	case len(pod.Spec.NodeSelector) > 0:
		return fmt.Sprintf("%s, and no CPU node has the labels %s", asked, selector(pod.Spec.NodeSelector))
	default:
		return asked + ", and there is no CPU node"
	}
}

// keptOutBy is the first taint of the node that keeps the pod out; empty if
// none does.
func keptOutBy(pod *corev1.Pod, node *corev1.Node) string {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(logr.Discard(), taint, false)
		})
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated {
			return taint.ToString()
		}
	}
	return ""
}

// requests is what a pod asks for: CPU in thousandths, memory in bytes.
// Sidecars run beside the containers, other init containers before them.
func requests(spec *corev1.PodSpec) (cpu, memory int64) {
	add := func(c *corev1.Container) {
		cpu += c.Resources.Requests.Cpu().MilliValue()
		memory += c.Resources.Requests.Memory().Value()
	}
	var before, beforeMemory int64
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
			continue
		}
		before = max(before, cpu+c.Resources.Requests.Cpu().MilliValue())
		beforeMemory = max(beforeMemory, memory+c.Resources.Requests.Memory().Value())
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return max(cpu, before), max(memory, beforeMemory)
}

func cores(milli int64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0"), ".")
}

func gigabytes(bytes int64) string { return strconv.FormatInt((bytes+5e8)/1e9, 10) }

func hasLabels(node *corev1.Node, labels map[string]string) bool {
	for k, v := range labels {
		if node.Labels[k] != v {
			return false
		}
	}
	return true
}

func selector(labels map[string]string) string {
	var list []string
	for k, v := range labels {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
