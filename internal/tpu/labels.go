package tpu

// Names that GKE puts on TPU nodes, and that pods ask for.
// Source: https://cloud.google.com/kubernetes-engine/docs/how-to/tpus
const (
	// LabelAccelerator on a node names its TPU generation and form.
	LabelAccelerator = "cloud.google.com/gke-tpu-accelerator"
	// LabelTopology on a node is the shape, in chips, of the slice that it
	// belongs to.
	LabelTopology = "cloud.google.com/gke-tpu-topology"
	// LabelAcceleratorCount on a node is its number of chips.
	LabelAcceleratorCount = "cloud.google.com/gke-accelerator-count"
	// LabelNodePool on a node names its pool; a multi-host slice is one pool.
	LabelNodePool = "cloud.google.com/gke-nodepool"
	// LabelSpot on a node, with the value true, says that it may be taken
	// away at short notice; a taint of the same name and value goes with it.
	LabelSpot = "cloud.google.com/gke-spot"
	// Resource is what a container requests chips by; a taint of that name,
	// with the value present, keeps other pods off TPU nodes.
	Resource = "google.com/tpu"
)
