package tpu

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// cubeSide is the side of the block that large 3-D slices are built of.
const (
	cubeSide  = 4
	cubeChips = cubeSide * cubeSide * cubeSide
	// maxCubeSide is the longest side of a 3-D slice, in chips.
	maxCubeSide = 256
)

// Check returns nil if slices of this machine type can have that shape. The
// error says what would be right: the order of sides that is meant, the
// machine type for a single chip, or the nearest valid shapes.
func (m MachineType) Check(t Topology) error {
	if m.valid(t) {
		return nil
	}
	if s := t.sorted(); m.valid(s) {
		return fmt.Errorf("topology %s of %s: sides are written in nondecreasing order: %s", t, m, s)
	}
	if t.dims != m.family.dims {
		return fmt.Errorf("topology %s of %s: a %s topology has %d sides, not %d: nearest is %s",
			t, m, m.family.generation, m.family.dims, t.dims, list(m.Nearest(t)))
	}
	for _, chips := range m.family.chipsPerVM() {
		if other, ok := m.sibling(chips); ok && chips < m.chips && other.valid(t) && chips == t.Chips() {
			return fmt.Errorf("topology %s of %s: a VM of this type has %d chips: use machine type %s for %s, or topology %s",
				t, m, m.chips, other, t, list(m.Nearest(t)))
		}
	}
	return fmt.Errorf("topology %s of %s: no such slice: nearest is %s", t, m, list(m.Nearest(t)))
}

// valid is the rule of which shapes a machine type can have. For 3-D slices it
// accepts more than the documented lists: see Documented.
func (m MachineType) valid(t Topology) bool {
	if t.dims != m.family.dims {
		return false
	}
	switch {
	case m.chips == 1:
		return t.Chips() == 1
	case m.chips == 8:
		return t == shape(2, 4)
	case m.family.dims == 2:
		a, b := t.sides[0], t.sides[1]
		return powerOfTwo(a) && powerOfTwo(b) && 2 <= a && a <= b && b <= 2*a && b <= 16
	case slices.Contains(small3D, t):
		return true
	default:
		return t == t.sorted() && t.inCubes() && t.Chips()/cubeChips <= m.family.maxCubes
	}
}

// small3D are the 3-D slices of less than a cube.
var small3D = []Topology{shape(2, 2, 1), shape(2, 2, 2), shape(2, 2, 4), shape(2, 4, 4)}

func (t Topology) inCubes() bool {
	for _, side := range t.sides {
		if side%cubeSide != 0 || side > maxCubeSide {
			return false
		}
	}
	return true
}

func powerOfTwo(n int) bool { return bits.OnesCount(uint(n)) == 1 }

// Topologies returns every shape that slices of this machine type can have,
// smallest first.
func (m MachineType) Topologies() []Topology {
	var all []Topology
	add := func(t Topology) {
		if m.valid(t) {
			all = append(all, t)
		}
	}
	if m.family.dims == 2 {
		for a := 1; a <= 16; a++ {
			for b := a; b <= 16; b++ {
				add(shape(a, b))
			}
		}
	} else {
		add(shape(1, 1, 1))
		for _, t := range small3D {
			add(t)
		}
		limit := m.family.maxCubes
		for a := 1; a*a*a <= limit; a++ {
			for b := a; a*b*b <= limit; b++ {
				for c := b; a*b*c <= limit; c++ {
					add(cubes(a, b, c))
				}
			}
		}
	}
	slices.SortFunc(all, Topology.compare)
	return all
}

// cubes is the shape of a times b times c cubes.
func cubes(a, b, c int) Topology { return shape(cubeSide*a, cubeSide*b, cubeSide*c) }

// Nearest returns the valid shapes next to t by number of chips: the largest
// with no more and the smallest with no fewer. At a tie the most regular shape
// wins. It returns one or two shapes.
func (m MachineType) Nearest(t Topology) []Topology {
	var below, above []Topology
	for _, v := range m.Topologies() {
		switch {
		case v.Chips() <= t.Chips() && (len(below) == 0 || v.Chips() >= below[0].Chips()):
			if len(below) > 0 && v.Chips() == below[0].Chips() && irregularity(v) >= irregularity(below[0]) {
				continue
			}
			below = []Topology{v}
		case v.Chips() > t.Chips() && (len(above) == 0 || v.Chips() == above[0].Chips()):
			if len(above) > 0 && irregularity(v) >= irregularity(above[0]) {
				continue
			}
			above = []Topology{v}
		}
	}
	if len(below) > 0 && below[0].Chips() == t.Chips() {
		return below
	}
	return append(below, above...)
}

// irregularity of shapes with the same number of chips: the sum of the sides,
// smallest for the most cubical.
func irregularity(t Topology) int { return t.sides[0] + t.sides[1] + t.sides[2] }

func list(ts []Topology) string {
	names := make([]string, len(ts))
	for i, t := range ts {
		names[i] = t.String()
	}
	return strings.Join(names, " or ")
}
