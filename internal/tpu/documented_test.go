package tpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The lists in this file are derived afresh, by trying all triples, so that
// they do not share a mistake with the code that they test.

func documentedCubesByTrial(counts []int) []string {
	var list []string
	for _, n := range counts {
		var best [3]int
		for a := 1; a <= n; a++ {
			for b := 1; b <= n/a; b++ {
				c := n / (a * b)
				if a*b*c != n {
					continue
				}
				if best == [3]int{} || a+b+c < best[0]+best[1]+best[2] {
					best = [3]int{a, b, c}
				}
			}
		}
		slices.Sort(best[:])
		if 4*best[2] <= 256 {
			list = append(list, shape(4*best[0], 4*best[1], 4*best[2]).String())
		}
	}
	return list
}

func upTo(n int, more ...int) []int {
	var counts []int
	for i := 1; i <= n; i++ {
		counts = append(counts, i)
	}
	return append(counts, more...)
}

func TestDocumentedLists(t *testing.T) {
	small := strings.Fields("2x2x1 2x2x2 2x2x4 2x4x4")
	twoD := strings.Fields("2x2 2x4 4x4 4x8 8x8 8x16 16x16")
	v5p := slices.Concat(small, documentedCubesByTrial(upTo(96, 108, 140)))
	tpu7x := slices.Concat(small, documentedCubesByTrial(upTo(96, 108, 128, 140, 144)))
	if len(v5p) != 96 || len(tpu7x) != 98 {
		t.Fatalf("derived %d shapes for v5p and %d for tpu7x, documented are 96 and 98", len(v5p), len(tpu7x))
	}
	lists := map[string][]string{
		"ct4p-hightpu-4t": strings.Fields("2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 4x4x16 8x8x8 8x8x12 8x8x16 4x16x16 8x16x16"),
		"ct5p-hightpu-4t": v5p, "tpu7x-standard-4t": tpu7x,
		"ct5lp-hightpu-1t": {"1x1"}, "ct5lp-hightpu-4t": twoD, "ct5lp-hightpu-8t": {"2x4"},
		"ct6e-standard-1t": {"1x1"}, "ct6e-standard-4t": twoD, "ct6e-standard-8t": {"2x4"},
		"tpu7x-standard-1t": {"1x1x1"},
	}
	for _, m := range All() {
		t.Run(m.String(), func(t *testing.T) {
			want := slices.Clone(lists[m.String()])
			for _, s := range want {
				if err := m.Check(mustShape(t, s)); err != nil {
					t.Errorf("a documented shape is refused: %v", err)
				}
			}
			var got []string
			for _, top := range m.Topologies() {
				if m.Documented(top) {
					got = append(got, top.String())
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Documented (-list +got):\n%s", diff)
			}
		})
	}
}

// TestTopologiesAreWhatCheckAccepts tries every shape with sides up to a bound
// beyond the largest, in steps that matter.
func TestTopologiesAreWhatCheckAccepts(t *testing.T) {
	sides := []int{1, 2, 3, 5, 6}
	for s := 4; s <= 260; s += 4 {
		sides = append(sides, s)
	}
	for _, m := range All() {
		var accepted []Topology
		for _, a := range sides {
			for _, b := range sides {
				if m.Dimensions() == 2 {
					if top := shape(a, b); m.Check(top) == nil {
						accepted = append(accepted, top)
					}
					continue
				}
				for _, c := range sides {
					if top := shape(a, b, c); m.valid(top) {
						accepted = append(accepted, top)
					}
				}
			}
		}
		slices.SortFunc(accepted, Topology.compare)
		if diff := cmp.Diff(accepted, m.Topologies(), cmp.Comparer(func(a, b Topology) bool { return a == b })); diff != "" {
			t.Errorf("%s (-accepted +listed):\n%s", m, diff)
		}
	}
}

// TestNoDocumentedTie: the shape of n cubes with the smallest sum of sides is
// unique for every n that is listed, so the rule is well defined.
func TestNoDocumentedTie(t *testing.T) {
	for n := 1; n <= 144; n++ {
		best := mostCubical(n)
		for a := 1; a*a*a <= n; a++ {
			for b := a; a*b*b <= n; b++ {
				if n%(a*b) != 0 {
					continue
				}
				if other := cubes(a, b, n/(a*b)); other != best && irregularity(other) == irregularity(best) {
					t.Errorf("%d cubes: %s and %s have the same sum", n, best, other)
				}
			}
		}
	}
}
