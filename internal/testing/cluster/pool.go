package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pathways.domain/pathways-job/internal/tpu"
)

// DefaultZone is where pools are unless they say otherwise.
const DefaultZone = "us-central2-b"

// parallelism of writes to many nodes.
const parallelism = 16

// Pool is a node pool: TPU hosts, or CPU machines for heads. The zero value of a field means its default.
type Pool struct {
	Name string
	Zone string // DefaultZone
	// MachineType and Topology are those of a TPU pool (ct5p-hightpu-4t, 2x2x2); both are empty for CPU machines.
	MachineType, Topology string
	// Hosts is the number of nodes: as many as the topology demands, or 1 CPU machine.
	Hosts int
	// CPU and Memory of each node: 64 and 256Gi for CPU machines (n2-standard-64), 208 and 448Gi for TPU hosts.
	CPU, Memory string
	// Arch is the architecture: amd64.
	Arch string
	// Spot nodes have GKE's label and taint.
	Spot bool
	// Labels and Taints are added to those that the pool has anyway.
	Labels map[string]string
	Taints []corev1.Taint
}

// TPUPool returns a whole multi-host slice pool, or a pool of one single-host slice.
func TPUPool(name, machineType, topology string) Pool {
	return Pool{Name: name, MachineType: machineType, Topology: topology}
}

// CPUPool returns a pool of machines that heads fit on.
func CPUPool(name string, hosts int) Pool {
	return Pool{Name: name, Hosts: hosts}
}

// NodeNames lists the names of the pool's nodes.
func (p Pool) NodeNames() ([]string, error) {
	n, err := p.hosts()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range n {
		names = append(names, p.Name+"-"+strconv.Itoa(i))
	}
	return names, nil
}

func (p Pool) hosts() (int, error) {
	if p.Hosts > 0 {
		return p.Hosts, nil
	}
	if p.MachineType == "" {
		return 1, nil
	}
	machine, err := tpu.ParseMachineType(p.MachineType)
	if err != nil {
		return 0, fmt.Errorf("pool %s: %w", p.Name, err)
	}
	topology, err := tpu.ParseTopology(p.Topology)
	if err != nil {
		return 0, fmt.Errorf("pool %s: %w", p.Name, err)
	}
	return machine.VMsPerSlice(topology)
}

// Nodes returns the pool's nodes, as GKE labels and taints them.
func (p Pool) Nodes() ([]*corev1.Node, error) {
	names, err := p.NodeNames()
	if err != nil {
		return nil, err
	}
	var nodes []*corev1.Node
	for _, name := range names {
		node, err := p.node(name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func (p Pool) node(name string) (*corev1.Node, error) {
	zone, arch := or(p.Zone, DefaultZone), or(p.Arch, "amd64")
	labels := map[string]string{
		tpu.LabelNodePool:              p.Name,
		corev1.LabelHostname:           name,
		corev1.LabelTopologyZone:       zone,
		corev1.LabelTopologyRegion:     zone[:max(0, len(zone)-2)],
		corev1.LabelInstanceTypeStable: or(p.MachineType, "n2-standard-64"),
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         arch,
		"kubernetes.io/role":           "node",
		KubeletLabel:                   KubeletAlive,
	}
	cpu, memory := "64", "256Gi"
	capacity := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	var taints []corev1.Taint
	if p.MachineType != "" {
		machine, err := tpu.ParseMachineType(p.MachineType)
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", p.Name, err)
		}
		chips := strconv.Itoa(machine.ChipsPerVM())
		labels[tpu.LabelAccelerator] = machine.Accelerator()
		labels[tpu.LabelTopology] = p.Topology
		labels[tpu.LabelAcceleratorCount] = chips
		taints = append(taints, corev1.Taint{Key: tpu.Resource, Value: "present", Effect: corev1.TaintEffectNoSchedule})
		capacity[tpu.Resource] = resource.MustParse(chips)
		cpu, memory = "208", "448Gi"
	}
	if p.Spot {
		labels[tpu.LabelSpot] = "true"
		taints = append(taints, corev1.Taint{Key: tpu.LabelSpot, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	var err error
	if capacity[corev1.ResourceCPU], err = resource.ParseQuantity(or(p.CPU, cpu)); err != nil {
		return nil, fmt.Errorf("pool %s: CPU %q: %w", p.Name, p.CPU, err)
	}
	if capacity[corev1.ResourceMemory], err = resource.ParseQuantity(or(p.Memory, memory)); err != nil {
		return nil, fmt.Errorf("pool %s: memory %q: %w", p.Name, p.Memory, err)
	}
	maps.Copy(labels, p.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: append(taints, p.Taints...)},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address(name)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{Architecture: arch, OperatingSystem: "linux"},
		},
	}, nil
}

// address derives an address in 10.0.0.0/9 from a node's name.
func address(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	n := h.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", n>>16&0x7f, n>>8&0xff, n&0xff)
}

// CreatePool creates a pool's nodes, and returns their names when all are Ready and schedulable.
func (c *Cluster) CreatePool(ctx context.Context, p Pool) ([]string, error) {
	nodes, err := p.Nodes()
	if err != nil {
		return nil, err
	}
	names, err := p.NodeNames()
	if err != nil {
		return nil, err
	}
	err = inParallel(ctx, nodes, func(node *corev1.Node) error {
		return c.Client.Create(ctx, node.DeepCopy())
	})
	if err != nil {
		return nil, fmt.Errorf("creating pool %s: %w", p.Name, err)
	}
	return names, c.waitSchedulable(ctx, p.Name, len(names))
}

// waitSchedulable waits until a pool has that many nodes that are Ready and carry no taint of Kubernetes.
func (c *Cluster) waitSchedulable(ctx context.Context, pool string, want int) error {
	good := 0
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var list corev1.NodeList
		if err := c.Client.List(ctx, &list, client.MatchingLabels{tpu.LabelNodePool: pool}); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		good = 0
		for _, node := range list.Items {
			if schedulable(&node) {
				good++
			}
		}
		return good >= want, nil
	})
	if err != nil {
		return fmt.Errorf("pool %s: %d of %d nodes are Ready and schedulable: %w", pool, good, want, err)
	}
	return nil
}

func schedulable(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}

// DeletePool deletes all nodes of a pool, as GKE does when it repairs one or takes spot machines away.
func (c *Cluster) DeletePool(ctx context.Context, name string) error {
	err := c.Client.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{tpu.LabelNodePool: name})
	if err != nil {
		return fmt.Errorf("deleting pool %s: %w", name, err)
	}
	return nil
}

// inParallel calls do for each item, and returns the first error.
func inParallel[T any](ctx context.Context, items []T, do func(T) error) error {
	errs := make([]error, len(items))
	workqueue.ParallelizeUntil(ctx, parallelism, len(items), func(i int) { errs[i] = do(items[i]) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
