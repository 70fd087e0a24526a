//go:build bench

package bench

import (
	"os"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// budgets are those of budgets.yaml, which documents each.
type budgets struct {
	Scale struct {
		Jobs                   int     `json:"jobs"`
		Rounds                 int     `json:"rounds"`
		CreationRatio          float64 `json:"creationRatio"`
		CPUSeconds             float64 `json:"cpuSeconds"`
		MemoryMiB              float64 `json:"memoryMiB"`
		WritesPerJob           float64 `json:"writesPerJob"`
		StatusPatchesPerSecond int     `json:"statusPatchesPerSecond"`
	} `json:"scale"`
	Recovery struct {
		Rounds                int             `json:"rounds"`
		SecondsByVMs          map[int]float64 `json:"secondsByVMs"`
		SeveralRatio          float64         `json:"severalRatio"`
		PreemptionSeconds     float64         `json:"preemptionSeconds"`
		BaselineCutoffSeconds float64         `json:"baselineCutoffSeconds"`
	} `json:"recovery"`
}

func readBudgets(t *testing.T) budgets {
	t.Helper()
	data, err := os.ReadFile("budgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b budgets
	if err := yaml.UnmarshalStrict(data, &b); err != nil {
		t.Fatalf("reading budgets.yaml: %v", err)
	}
	return b
}

// within checks a measured value against its budget, records it, and fails the
// test where it is beyond.
func within(t *testing.T, table *table, what string, got, budget float64, unit string) {
	t.Helper()
	table.add(row{What: what, Value: round(got), Budget: budget, Unit: unit})
	if got > budget {
		t.Errorf("%s: %.2f %s, the budget is %g", what, got, unit, budget)
	} else {
		t.Logf("%s: %.2f %s of %g", what, got, unit, budget)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
