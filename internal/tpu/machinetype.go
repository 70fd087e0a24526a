// Package tpu knows the GKE TPU machine types and the slice topologies that
// each can have. Everything follows by rule from the name of the machine type;
// there is no state and no I/O.
//
// Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
// for the machine types and topologies, and the Pathways documentation for the
// names of instance types.
package tpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// family is one TPU generation as GKE sells it.
type family struct {
	prefix      string // of the machine type's name
	accelerator string // value of LabelAccelerator
	generation  string // as people call it
	dims        int    // sides of a topology
	instance    string // prefix of the Pathways instance type
	maxCubes    int    // 3-D: the most blocks of 4x4x4 in a slice
}

var families = [...]family{
	{prefix: "ct4p-hightpu-", accelerator: "tpu-v4-podslice", generation: "v4", dims: 3, instance: "tpuv4", maxCubes: 64},
	{prefix: "ct5lp-hightpu-", accelerator: "tpu-v5-lite-podslice", generation: "v5e", dims: 2, instance: "tpuv5e"},
	{prefix: "ct5p-hightpu-", accelerator: "tpu-v5p-slice", generation: "v5p", dims: 3, instance: "tpuv5", maxCubes: 140},
	{prefix: "ct6e-standard-", accelerator: "tpu-v6e-slice", generation: "v6e", dims: 2, instance: "tpuv6e"},
	{prefix: "tpu7x-standard-", accelerator: "tpu7x", generation: "tpu7x", dims: 3, instance: "tpu7x", maxCubes: 144},
}

// chipsPerVM lists the sizes of VM that a family comes in.
func (f family) chipsPerVM() []int {
	switch {
	case f.dims == 2:
		return []int{1, 4, 8}
	case f.generation == "tpu7x":
		return []int{1, 4}
	default:
		return []int{4}
	}
}

// MachineType is a GKE TPU machine type. It is comparable, and its zero value
// is no machine type.
type MachineType struct {
	family family
	chips  int
}

// ParseMachineType reads the name of a machine type, such as ct5p-hightpu-4t.
// The error of an unknown one lists those that exist.
func ParseMachineType(name string) (MachineType, error) {
	for _, m := range All() {
		if m.String() == name {
			return m, nil
		}
	}
	known := make([]string, 0, len(families))
	for _, m := range All() {
		known = append(known, m.String())
	}
	return MachineType{}, fmt.Errorf("machine type %q is not a TPU machine type of GKE: use one of %s", name, strings.Join(known, ", "))
}

// All returns every TPU machine type, by family, then by chips.
func All() []MachineType {
	var all []MachineType
	for _, f := range families {
		for _, chips := range f.chipsPerVM() {
			all = append(all, MachineType{family: f, chips: chips})
		}
	}
	return all
}

// String returns the name of the machine type.
func (m MachineType) String() string {
	return m.family.prefix + strconv.Itoa(m.chips) + "t"
}

// Accelerator returns the value of LabelAccelerator on nodes of this type.
func (m MachineType) Accelerator() string { return m.family.accelerator }

// ChipsPerVM returns the number of chips of one VM.
func (m MachineType) ChipsPerVM() int { return m.chips }

// Dimensions returns how many sides its topologies have: 2 or 3.
func (m MachineType) Dimensions() int { return m.family.dims }

// InstanceType returns how Pathways' resource manager is told of slices of
// this type and topology, for example tpuv5e:4x4. VMs of eight chips are a
// type of their own there.
func (m MachineType) InstanceType(topology string) string {
	prefix := m.family.instance
	if m.chips == 8 {
		prefix += "1t"
	}
	return prefix + ":" + topology
}

// VMsPerSlice returns how many VMs make one slice of the given shape, or the
// error of Check.
func (m MachineType) VMsPerSlice(t Topology) (int, error) {
	if err := m.Check(t); err != nil {
		return 0, err
	}
	return t.Chips() / m.chips, nil
}

// sibling returns the type of the same family with another number of chips.
func (m MachineType) sibling(chips int) (MachineType, bool) {
	return MachineType{family: m.family, chips: chips}, slices.Contains(m.family.chipsPerVM(), chips)
}
