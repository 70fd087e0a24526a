package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

func TestPoolNodes(t *testing.T) {
	tpuTaint := corev1.Taint{Key: "google.com/tpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}
	spotTaint := corev1.Taint{Key: "cloud.google.com/gke-spot", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		pool       Pool
		wantNodes  []string
		wantLabels map[string]string // some of them
		wantChips  string
		wantTaints []corev1.Taint
		wantErr    string
	}{
		"a slice of two hosts": {
			pool:      TPUPool("v5p", "ct5p-hightpu-4t", "2x2x2"),
			wantNodes: []string{"v5p-0", "v5p-1"},
			wantLabels: map[string]string{
				"cloud.google.com/gke-nodepool":          "v5p",
				"cloud.google.com/gke-tpu-accelerator":   "tpu-v5p-slice",
				"cloud.google.com/gke-tpu-topology":      "2x2x2",
				"cloud.google.com/gke-accelerator-count": "4",
				"topology.kubernetes.io/zone":            "us-central2-b",
				"topology.kubernetes.io/region":          "us-central2",
				"kubernetes.io/hostname":                 "v5p-0",
				"kwok.pathways.domain/kubelet":           "alive",
			},
			wantChips:  "4",
			wantTaints: []corev1.Taint{tpuTaint},
		},
		"a pool of single-host slices, on spot machines": {
			pool:       Pool{Name: "v6e", MachineType: "ct6e-standard-4t", Topology: "2x2", Hosts: 3, Spot: true, Zone: "europe-west4-a"},
			wantNodes:  []string{"v6e-0", "v6e-1", "v6e-2"},
			wantLabels: map[string]string{"cloud.google.com/gke-spot": "true", "topology.kubernetes.io/zone": "europe-west4-a"},
			wantChips:  "4",
			wantTaints: []corev1.Taint{tpuTaint, spotTaint},
		},
		"machines for heads": {
			pool:       CPUPool("cpu", 2),
			wantNodes:  []string{"cpu-0", "cpu-1"},
			wantLabels: map[string]string{"node.kubernetes.io/instance-type": "n2-standard-64", "kubernetes.io/arch": "amd64"},
			wantChips:  "0",
		},
		"an unknown machine type": {
			pool:    TPUPool("x", "ct9-hightpu-4t", "2x2"),
			wantErr: "pool x: ",
		},
		"a CPU count that is none": {
			pool:    Pool{Name: "x", CPU: "many"},
			wantErr: `pool x: CPU "many"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, err := tc.pool.Nodes()
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("Nodes: error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("Nodes: %v", err)
			}
			var names []string
			for _, n := range nodes {
				names = append(names, n.Name)
			}
			if diff := cmp.Diff(tc.wantNodes, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			first := nodes[0]
			for k, want := range tc.wantLabels {
				if got := first.Labels[k]; got != want {
					t.Errorf("label %s is %q, want %q", k, got, want)
				}
			}
			chips := first.Status.Allocatable["google.com/tpu"]
			if chips.String() != tc.wantChips {
				t.Errorf("google.com/tpu is %s, want %s", chips.String(), tc.wantChips)
			}
			if diff := cmp.Diff(tc.wantTaints, first.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

// The constants here and the documentation of the simulated kubelets, in another module, name the same annotations.
func TestAnnotationsAreThoseOfTheKubelets(t *testing.T) {
	names := regexp.MustCompile(`kwok\.pathways\.domain/[a-z-]+`)
	find := func(file string) map[string]bool {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for _, n := range names.FindAllString(string(data), -1) {
			out[n] = true
		}
		return out
	}
	documented := find(filepath.Join(envtest.Root(), "hack", "localcluster", "internal", "kwok", "doc.go"))
	if diff := cmp.Diff(documented, find("annotations.go")); diff != "" {
		t.Errorf("annotations (-documented +constants):\n%s", diff)
	}
}

func TestParseUsage(t *testing.T) {
	stat := "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 100 1 1"
	status := "Name:\tmanager\nVmPeak:\t  900 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n"
	got, err := parseUsage([]byte(stat), []byte(status))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Usage{CPU: 3 * time.Second, PeakRSS: 2 << 20}, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
