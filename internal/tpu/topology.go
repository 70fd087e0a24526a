package tpu

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Topology is the shape of a slice: its sides in chips. It is comparable, and
// its zero value is no topology.
type Topology struct {
	sides [3]int
	dims  int
}

// maxSide bounds what is read as a side, so that no product overflows; the
// sides that machine types allow are far smaller.
const maxSide = 9999

// numeric is written as a topology is, whatever the numbers.
var numeric = regexp.MustCompile(`^[0-9]+(x[0-9]+){1,2}$`)

// ParseTopology reads a shape such as 4x4 or 2x2x4: two or three positive
// decimal numbers joined by x. Whether a machine type can have that shape is
// not its concern: see MachineType.Check.
func ParseTopology(s string) (Topology, error) {
	if t, ok := parse(s); ok {
		return t, nil
	}
	if guess, ok := parse(normalize(s)); ok {
		return Topology{}, fmt.Errorf("topology %q is not a shape: write %s", s, guess)
	}
	if numeric.MatchString(s) {
		return Topology{}, fmt.Errorf("topology %q is not a shape: a side is 1 to %d, without leading zeros", s, maxCubeSide)
	}
	return Topology{}, fmt.Errorf("topology %q is not a shape: write two or three numbers joined by x, such as 4x4 or 2x2x4", s)
}

// normalize turns what people write for x, and blanks, into what is meant.
func normalize(s string) string {
	return strings.NewReplacer("*", "x", "×", "x", "X", "x", ",", "x", " ", "").Replace(s)
}

func parse(s string) (Topology, bool) {
	parts := strings.Split(s, "x")
	if len(parts) < 2 || len(parts) > 3 {
		return Topology{}, false
	}
	t := Topology{dims: len(parts)}
	for i, part := range parts {
		side, err := strconv.Atoi(part)
		if err != nil || side < 1 || side > maxSide || strconv.Itoa(side) != part {
			return Topology{}, false
		}
		t.sides[i] = side
	}
	return t, true
}

// shape makes a topology of sides that are known to be good.
func shape(sides ...int) Topology {
	t := Topology{dims: len(sides)}
	copy(t.sides[:], sides)
	return t
}

// String returns the shape as it is written in a spec and on node labels.
func (t Topology) String() string {
	parts := make([]string, t.dims)
	for i := range parts {
		parts[i] = strconv.Itoa(t.sides[i])
	}
	return strings.Join(parts, "x")
}

// Chips returns the number of chips in a slice of this shape.
func (t Topology) Chips() int {
	if t.dims == 0 {
		return 0
	}
	chips := 1
	for _, side := range t.sides[:t.dims] {
		chips *= side
	}
	return chips
}

// Dimensions returns the number of sides: 2 or 3.
func (t Topology) Dimensions() int { return t.dims }

// sorted returns the shape with its sides in nondecreasing order.
func (t Topology) sorted() Topology {
	slices.Sort(t.sides[:t.dims])
	return t
}

// compare orders by number of chips, then by sides.
func (t Topology) compare(o Topology) int {
	return cmp.Or(cmp.Compare(t.Chips(), o.Chips()), slices.Compare(t.sides[:], o.sides[:]))
}
