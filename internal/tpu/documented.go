package tpu

import "slices"

// documentedV4 is the list of v4 topologies in GKE's documentation.
var documentedV4 = []Topology{
	shape(2, 2, 1), shape(2, 2, 2), shape(2, 2, 4), shape(2, 4, 4),
	shape(4, 4, 4), shape(4, 4, 8), shape(4, 8, 8), shape(4, 4, 16),
	shape(8, 8, 8), shape(8, 8, 12), shape(8, 8, 16), shape(4, 16, 16), shape(8, 16, 16),
}

// Documented tells whether the shape is in the list that GKE documents for
// this machine type. Check accepts more 3-D shapes than are listed; it is wise
// to warn about the others.
func (m MachineType) Documented(t Topology) bool {
	if !m.valid(t) {
		return false
	}
	switch {
	case m.family.dims == 2, m.chips == 1, slices.Contains(small3D, t):
		return true
	case m.family.generation == "v4":
		return slices.Contains(documentedV4, t)
	default:
		return m.documentedCubes(t.Chips()/cubeChips) && t == mostCubical(t.Chips()/cubeChips)
	}
}

// documentedCubes tells for which numbers of cubes v5p and tpu7x list a shape.
func (m MachineType) documentedCubes(n int) bool {
	switch {
	case n <= 96:
		return true
	case m.family.generation == "v5p":
		return n == 108 || n == 140
	default:
		return n == 108 || n == 128 || n == 140 || n == 144
	}
}

// mostCubical returns the shape of n cubes whose sides have the smallest sum.
// It is the only one listed for n.
func mostCubical(n int) Topology {
	best := cubes(1, 1, n)
	for a := 1; a*a*a <= n; a++ {
		for b := a; a*b*b <= n; b++ {
			if n%(a*b) == 0 && irregularity(cubes(a, b, n/(a*b))) < irregularity(best) {
				best = cubes(a, b, n/(a*b))
			}
		}
	}
	return best
}
