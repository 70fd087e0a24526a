// Package cluster boots hosts with real kubelets and containers on one Linux
// machine: each host is a network namespace with a containerd, a kubelet and
// a kube-proxy of its own; the control plane is the local cluster's.
//
// Everything has fixed names, so that a cluster can be ended whatever became
// of the process that started it; so there is one on a machine.
package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

const (
	// bridge joins the hosts; Address is this machine's on it.
	bridge = "pwreal"
	subnet = "10.77.0"
	// Address is where the API server, CoreDNS, the images and the object
	// store are found from hosts and pods.
	Address = subnet + ".1"
	// imagePort serves the images, ObjectStore what gs:// stands for.
	imagePort   = 5000
	objectsPort = 4443

	// Root holds all files of the cluster, and runtimeDir its sockets, whose
	// paths must be short.
	Root       = "/var/lib/pathways-real"
	runtimeDir = "/run/pathways-real"
	// cgroupPrefix begins the names of the hosts' cgroups and namespaces.
	cgroupPrefix = "pwreal-"
)

// ObjectStore is the value of STORAGE_EMULATOR_HOST for pods.
var ObjectStore = fmt.Sprintf("http://%s:%d", Address, objectsPort)

// Labels and taints of nodes as GKE sets them.
const (
	LabelNodePool    = "cloud.google.com/gke-nodepool"
	labelAccelerator = "cloud.google.com/gke-tpu-accelerator"
	labelTopology    = "cloud.google.com/gke-tpu-topology"
	labelCount       = "cloud.google.com/gke-accelerator-count"
	labelZone        = "topology.kubernetes.io/zone"
	tpuResource      = "google.com/tpu"
)

// The shape of all slice pools: two hosts of four chips.
const (
	MachineType   = "ct5lp-hightpu-4t"
	Topology      = "2x4"
	accelerator   = "tpu-v5-lite-podslice"
	chipsPerHost  = 4
	hostsPerSlice = 2
)

// Host is one host.
type Host struct {
	Name string
	Pool string
	// Chips it has: 0 on a CPU host.
	Chips int
	// Spare: it is not booted with the cluster, but only by its name.
	Spare  bool
	number int
}

// Hosts are all hosts: one with CPUs, three slice pools, and a spare one with
// CPUs, for when the first is drained or dies.
var Hosts = hosts("cpu", "a", "b", "c")

func hosts(cpu string, pools ...string) []Host {
	all := []Host{{Name: cpu + "-0", Pool: cpu}, {Name: cpu + "-1", Pool: cpu, Spare: true}}
	for _, pool := range pools {
		for i := range hostsPerSlice {
			all = append(all, Host{Name: fmt.Sprintf("tpu-%s-%d", pool, i), Pool: "tpu-" + pool, Chips: chipsPerHost})
		}
	}
	for i := range all {
		all[i].number = i + 1
	}
	return all
}

// booted are the hosts that are booted with the cluster.
func booted() []Host {
	return slices.DeleteFunc(slices.Clone(Hosts), func(h Host) bool { return h.Spare })
}

// Find returns the host of that name.
func Find(name string) (Host, error) {
	for _, h := range Hosts {
		if h.Name == name {
			return h, nil
		}
	}
	return Host{}, fmt.Errorf("there is no host %q", name)
}

func (h Host) namespace() string { return cgroupPrefix + h.Name }
func (h Host) netns() string     { return "/run/netns/" + h.namespace() }
func (h Host) veth() string      { return fmt.Sprintf("pwreal%d", h.number) }
func (h Host) ip() string        { return fmt.Sprintf("%s.%d", subnet, 10+h.number) }
func (h Host) podCIDR() string   { return fmt.Sprintf("10.77.%d.0/24", 100+h.number) }
func (h Host) dir() string       { return filepath.Join(Root, "hosts", h.Name) }
func (h Host) run() string       { return filepath.Join(runtimeDir, h.Name) }
func (h Host) socket() string    { return filepath.Join(h.run(), "containerd.sock") }
func (h Host) cgroup() string    { return cgroupPrefix + h.Name }

// labels of the node.
func (h Host) labels() map[string]string {
	l := map[string]string{LabelNodePool: h.Pool, labelZone: "zone-a"}
	if h.Chips > 0 {
		l[labelAccelerator] = accelerator
		l[labelTopology] = Topology
		l[labelCount] = fmt.Sprint(h.Chips)
	}
	return l
}

func logFile(name string) string { return filepath.Join(Root, "logs", name+".log") }
func pidFile(name string) string { return filepath.Join(Root, "pids", name) }
func controlDir() string         { return filepath.Join(Root, "control") }

// Kubeconfig is the administrator's.
func Kubeconfig() string { return filepath.Join(controlDir(), "kubeconfig") }

// hostKubeconfig is the same for hosts, by the bridge's address.
func hostKubeconfig() string { return filepath.Join(Root, "host.kubeconfig") }

func writeFile(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o644)
}
