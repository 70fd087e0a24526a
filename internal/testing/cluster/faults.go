package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Taints by which hardware announces that it goes away.
var (
	// TaintImpendingTermination says that the node is being terminated gracefully.
	TaintImpendingTermination = corev1.Taint{Key: "cloud.google.com/impending-node-termination", Effect: corev1.TaintEffectNoSchedule}
	// TaintOutOfService says that the node is gone for good.
	TaintOutOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	// TaintShutdown says that the machine is shut down.
	TaintShutdown = corev1.Taint{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule}
)

// Labels by which GKE announces maintenance.
const (
	LabelScheduledMaintenance = "cloud.google.com/scheduled-maintenance-time"
	LabelActiveMaintenance    = "cloud.google.com/active-node-maintenance"
)

// KillHost makes a host fall silent, as by a loss of power: its lease is no longer renewed, its pods freeze, and
// after the grace period the node is Unknown.
func (c *Cluster) KillHost(ctx context.Context, node string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) { delete(n.Labels, KubeletLabel) })
}

// ReviveHost brings a killed host back.
func (c *Cluster) ReviveHost(ctx context.Context, node string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) { setLabel(n, KubeletLabel, KubeletAlive) })
}

// DeleteHost deletes a node's object.
func (c *Cluster) DeleteHost(ctx context.Context, node string) error {
	err := c.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	if err != nil {
		return fmt.Errorf("deleting node %s: %w", node, err)
	}
	return nil
}

// SetNotReady makes a live kubelet say that its node is not Ready, with this message ("node is shutting down").
func (c *Cluster) SetNotReady(ctx context.Context, node, message string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[NotReady] = message
	})
}

// SetReady ends what SetNotReady began.
func (c *Cluster) SetReady(ctx context.Context, node string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) { delete(n.Annotations, NotReady) })
}

// Taint puts a taint on a node.
func (c *Cluster) Taint(ctx context.Context, node string, taint corev1.Taint) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
		n.Spec.Taints = append(n.Spec.Taints, taint)
	})
}

// Untaint takes the taints of that key away from a node.
func (c *Cluster) Untaint(ctx context.Context, node, key string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	})
}

// Cordon makes a node unschedulable; Uncordon ends that.
func (c *Cluster) Cordon(ctx context.Context, node string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
}

// Uncordon makes a node schedulable again.
func (c *Cluster) Uncordon(ctx context.Context, node string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) { n.Spec.Unschedulable = false })
}

// Notice announces that a node is about to be terminated gracefully.
func (c *Cluster) Notice(ctx context.Context, node string) error {
	return c.Taint(ctx, node, TaintImpendingTermination)
}

// ScheduleMaintenance announces maintenance of a node at a time.
func (c *Cluster) ScheduleMaintenance(ctx context.Context, node string, at time.Time) error {
	return c.SetLabel(ctx, node, LabelScheduledMaintenance, strconv.FormatInt(at.Unix(), 10))
}

// StartMaintenance says that a node's maintenance is going on.
func (c *Cluster) StartMaintenance(ctx context.Context, node string) error {
	return c.SetLabel(ctx, node, LabelActiveMaintenance, "ONGOING")
}

// SetLabel sets a label of a node; an empty value takes it away.
func (c *Cluster) SetLabel(ctx context.Context, node, key, value string) error {
	return c.ChangeNode(ctx, node, func(n *corev1.Node) {
		if value == "" {
			delete(n.Labels, key)
			return
		}
		setLabel(n, key, value)
	})
}

func setLabel(n *corev1.Node, key, value string) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[key] = value
}

// ChangeNode changes a node's metadata or spec, as often as somebody else changes it at the same time.
func (c *Cluster) ChangeNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node := &corev1.Node{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		change(node)
		return c.Client.Update(ctx, node)
	})
	if err != nil {
		return fmt.Errorf("changing node %s: %w", name, err)
	}
	return nil
}

// NodeReady returns the status of a node's condition Ready, and its reason.
func (c *Cluster) NodeReady(ctx context.Context, name string) (corev1.ConditionStatus, string, error) {
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return "", "", fmt.Errorf("reading node %s: %w", name, err)
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status, cond.Reason, nil
		}
	}
	return corev1.ConditionUnknown, "", nil
}

// WaitNodeReady waits until a node's condition Ready has that status.
func (c *Cluster) WaitNodeReady(ctx context.Context, name string, want corev1.ConditionStatus, timeout time.Duration) error {
	var got corev1.ConditionStatus
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		var err error
		got, _, err = c.NodeReady(ctx, name)
		return got == want, err
	})
	if err != nil {
		return fmt.Errorf("node %s: Ready is %s, not %s: %w", name, got, want, err)
	}
	return nil
}

// Exit is how a container of a running pod ends.
type Exit struct {
	Container string // the first one if empty
	Code      int
	Message   string // termination message
}

// ExitContainer makes a container of a running pod exit once. The pod's restartPolicy says what follows.
func (c *Cluster) ExitContainer(ctx context.Context, pod client.ObjectKey, exit Exit) error {
	p := &corev1.Pod{}
	if err := c.Client.Get(ctx, pod, p); err != nil {
		return fmt.Errorf("reading pod %s: %w", pod, err)
	}
	name := or(exit.Container, p.Spec.Containers[0].Name)
	restarts, found := int32(0), false
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if s.Name == name && s.State.Running != nil {
			restarts, found = s.RestartCount, true
		}
	}
	if !found {
		return fmt.Errorf("pod %s has no running container %s", pod, name)
	}
	return c.AnnotatePod(ctx, pod, map[string]string{
		ExitContainer: name,
		ExitCode:      strconv.Itoa(exit.Code),
		ExitMessage:   exit.Message,
		ExitTimes:     strconv.Itoa(int(restarts) + 1),
	})
}

// AnnotatePod sets annotations of a pod; an empty value takes one away.
func (c *Cluster) AnnotatePod(ctx context.Context, pod client.ObjectKey, annotations map[string]string) error {
	values := map[string]any{}
	for k, v := range annotations {
		values[k] = v
		if v == "" {
			values[k] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		return fmt.Errorf("annotating pod %s: %w", pod, err)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := c.Client.Patch(ctx, p, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotating pod %s: %w", pod, err)
	}
	return nil
}
