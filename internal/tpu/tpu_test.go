package tpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustType(t *testing.T, name string) MachineType {
	t.Helper()
	m, err := ParseMachineType(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustShape(t *testing.T, s string) Topology {
	t.Helper()
	top, err := ParseTopology(s)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func TestMachineTypes(t *testing.T) {
	type facts struct {
		Accelerator string
		Chips, Dims int
		Instance    string
	}
	want := map[string]facts{
		"ct4p-hightpu-4t":   {"tpu-v4-podslice", 4, 3, "tpuv4:T"},
		"ct5lp-hightpu-1t":  {"tpu-v5-lite-podslice", 1, 2, "tpuv5e:T"},
		"ct5lp-hightpu-4t":  {"tpu-v5-lite-podslice", 4, 2, "tpuv5e:T"},
		"ct5lp-hightpu-8t":  {"tpu-v5-lite-podslice", 8, 2, "tpuv5e1t:T"},
		"ct5p-hightpu-4t":   {"tpu-v5p-slice", 4, 3, "tpuv5:T"},
		"ct6e-standard-1t":  {"tpu-v6e-slice", 1, 2, "tpuv6e:T"},
		"ct6e-standard-4t":  {"tpu-v6e-slice", 4, 2, "tpuv6e:T"},
		"ct6e-standard-8t":  {"tpu-v6e-slice", 8, 2, "tpuv6e1t:T"},
		"tpu7x-standard-1t": {"tpu7x", 1, 3, "tpu7x:T"},
		"tpu7x-standard-4t": {"tpu7x", 4, 3, "tpu7x:T"},
	}
	got := map[string]facts{}
	for _, m := range All() {
		got[m.String()] = facts{m.Accelerator(), m.ChipsPerVM(), m.Dimensions(), m.InstanceType("T")}
		if parsed := mustType(t, m.String()); parsed != m {
			t.Errorf("ParseMachineType(%s) = %v", m, parsed)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machine types (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "ct5p-hightpu-8t", "ct4p-hightpu-1t", "tpu7x-standard-8t", "n2-standard-64", "ct5p-hightpu-4T", "ct5p-hightpu-04t"} {
		if m, err := ParseMachineType(bad); err == nil {
			t.Errorf("ParseMachineType(%q) = %s, want an error", bad, m)
		}
	}
}

func TestCheckMessages(t *testing.T) {
	cases := map[string]struct{ machine, topology, want string }{
		"order of sides":       {"ct5lp-hightpu-4t", "4x2", "topology 4x2 of ct5lp-hightpu-4t: sides are written in nondecreasing order: 2x4"},
		"order of cubes":       {"ct5p-hightpu-4t", "8x4x4", "topology 8x4x4 of ct5p-hightpu-4t: sides are written in nondecreasing order: 4x4x8"},
		"three sides on v5e":   {"ct5lp-hightpu-4t", "2x2x4", "topology 2x2x4 of ct5lp-hightpu-4t: a v5e topology has 2 sides, not 3: nearest is 4x4"},
		"two sides on v5p":     {"ct5p-hightpu-4t", "4x4", "topology 4x4 of ct5p-hightpu-4t: a v5p topology has 3 sides, not 2: nearest is 2x2x4"},
		"one chip on 4":        {"ct6e-standard-4t", "1x1", "topology 1x1 of ct6e-standard-4t: a VM of this type has 4 chips: use machine type ct6e-standard-1t for 1x1, or topology 2x2"},
		"one chip on 4, tpu7x": {"tpu7x-standard-4t", "1x1x1", "topology 1x1x1 of tpu7x-standard-4t: a VM of this type has 4 chips: use machine type tpu7x-standard-1t for 1x1x1, or topology 2x2x1"},
		"no such slice":        {"ct5lp-hightpu-4t", "16x15", "topology 16x15 of ct5lp-hightpu-4t: no such slice: nearest is 8x16 or 16x16"},
		"between two":          {"ct5lp-hightpu-4t", "15x16", "topology 15x16 of ct5lp-hightpu-4t: no such slice: nearest is 8x16 or 16x16"},
		"too large":            {"ct6e-standard-4t", "16x32", "topology 16x32 of ct6e-standard-4t: no such slice: nearest is 16x16"},
		"one chip only":        {"ct5lp-hightpu-1t", "2x2", "topology 2x2 of ct5lp-hightpu-1t: no such slice: nearest is 1x1"},
		"one host of 8":        {"ct5lp-hightpu-8t", "4x4", "topology 4x4 of ct5lp-hightpu-8t: no such slice: nearest is 2x4"},
		"ties by regularity":   {"ct5p-hightpu-4t", "4x4x6", "topology 4x4x6 of ct5p-hightpu-4t: no such slice: nearest is 4x4x4 or 4x4x8"},
		"v4 beyond 64 cubes":   {"ct4p-hightpu-4t", "16x16x20", "topology 16x16x20 of ct4p-hightpu-4t: no such slice: nearest is 16x16x16"},
		"one side of 260":      {"ct5p-hightpu-4t", "4x4x260", "topology 4x4x260 of ct5p-hightpu-4t: no such slice: nearest is 4x20x52"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, top := mustType(t, c.machine), mustShape(t, c.topology)
			err := m.Check(top)
			if err == nil {
				t.Fatalf("Check(%s) accepts %s", m, top)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if _, vmsErr := m.VMsPerSlice(top); vmsErr == nil {
				t.Error("VMsPerSlice accepts what Check refuses")
			}
		})
	}
}

func TestParseTopology(t *testing.T) {
	for _, good := range []string{"1x1", "2x4", "16x16", "1x1x1", "2x2x4", "256x256x256", "9999x1"} {
		top, err := ParseTopology(good)
		if err != nil {
			t.Errorf("ParseTopology(%q): %v", good, err)
		} else if top.String() != good {
			t.Errorf("ParseTopology(%q) = %s", good, top)
		}
	}
	const general = "is not a shape: write two or three numbers joined by x, such as 4x4 or 2x2x4"
	const numbers = "is not a shape: a side is 1 to 256, without leading zeros"
	for bad, want := range map[string]string{
		"16*16":   `topology "16*16" is not a shape: write 16x16`,
		"2X2X4":   `topology "2X2X4" is not a shape: write 2x2x4`,
		"4 x 4":   `topology "4 x 4" is not a shape: write 4x4`,
		"4×4":     `topology "4×4" is not a shape: write 4x4`,
		"":        `topology "" ` + general,
		"4":       `topology "4" ` + general,
		"4x":      `topology "4x" ` + general,
		"0x4":     `topology "0x4" ` + numbers,
		"-4x4":    `topology "-4x4" ` + general,
		"04x4":    `topology "04x4" ` + numbers,
		"2x2x2x2": `topology "2x2x2x2" ` + general,
		"10000x1": `topology "10000x1" ` + numbers,
	} {
		if _, err := ParseTopology(bad); err == nil || err.Error() != want {
			t.Errorf("ParseTopology(%q): got %v, want %s", bad, err, want)
		}
	}
}

func TestVMsPerSlice(t *testing.T) {
	for _, c := range []struct {
		machine, topology string
		want              int
	}{
		{"ct4p-hightpu-4t", "2x2x1", 1},
		{"ct4p-hightpu-4t", "2x2x2", 2},
		{"ct5lp-hightpu-1t", "1x1", 1},
		{"ct5lp-hightpu-4t", "4x8", 8},
		{"ct6e-standard-8t", "2x4", 1},
		{"ct6e-standard-4t", "2x4", 2},
		{"ct5p-hightpu-4t", "4x4x4", 16},
		{"ct5p-hightpu-4t", "16x20x28", 2240},
		{"tpu7x-standard-4t", "4x4x8", 32},
		{"tpu7x-standard-1t", "1x1x1", 1},
	} {
		got, err := mustType(t, c.machine).VMsPerSlice(mustShape(t, c.topology))
		if err != nil || got != c.want {
			t.Errorf("%s %s: got %d VMs (%v), want %d", c.machine, c.topology, got, err, c.want)
		}
	}
}

// TestNearestIsValid: what a message offers is right, and what is right is
// offered as itself.
func TestNearestIsValid(t *testing.T) {
	for _, m := range All() {
		for _, s := range []string{"1x1", "3x3", "16x32", "9999x9999", "1x1x1", "2x2x3", "5x6x7", "9999x9999x9999"} {
			near := m.Nearest(mustShape(t, s))
			if len(near) < 1 || len(near) > 2 {
				t.Errorf("%s: nearest to %s are %v", m, s, near)
			}
			for _, n := range near {
				if err := m.Check(n); err != nil {
					t.Errorf("%s: nearest to %s is wrong: %v", m, s, err)
				}
			}
		}
		for _, top := range m.Topologies() {
			if near := m.Nearest(top); len(near) != 1 || near[0].Chips() != top.Chips() {
				t.Errorf("%s: nearest to %s are %v", m, top, near)
			}
		}
	}
}

func TestTopologiesInOrder(t *testing.T) {
	for _, m := range All() {
		all := m.Topologies()
		if !slices.IsSortedFunc(all, Topology.compare) {
			t.Errorf("%s: not sorted: %v", m, all)
		}
		if len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("%s: lists a shape twice", m)
		}
	}
}

func FuzzParseTopology(f *testing.F) {
	for _, seed := range []string{"", "4x4", "2x2x4", "16*16", "4x4x", "x", "1x1x1x1", "99999999999999999999x1", "４x４", "+4x4", "4x4\n", "0x0", "-1x-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		top, err := ParseTopology(s)
		if err != nil {
			if !strings.Contains(err.Error(), "is not a shape") {
				t.Errorf("message of %q: %v", s, err)
			}
			return
		}
		if top.String() != s {
			t.Errorf("%q reads as %s", s, top)
		}
		if top.Chips() < 1 {
			t.Errorf("%q has %d chips", s, top.Chips())
		}
		for _, m := range All() {
			if vms, err := m.VMsPerSlice(top); err == nil && vms*m.ChipsPerVM() != top.Chips() {
				t.Errorf("%s %s: %d VMs", m, top, vms)
			}
		}
	})
}
