//go:build bench

package bench

import (
	"flag"
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
	Planner struct {
		Milliseconds float64 `json:"milliseconds"`
		Megabytes    float64 `json:"megabytes"`
	} `json:"planner"`
}

// Flags for a quick look; the numbers of such a run are not those of budgets.yaml.
var (
	jobsFlag   = flag.Int("jobs", 0, "PathwaysJobs that are created at once, if not those of budgets.yaml")
	roundsFlag = flag.Int("rounds", 0, "rounds of each measurement, if not those of budgets.yaml")
	cutoffFlag = flag.Float64("cutoff", 0, "seconds after which a plain JobSet is given up, if not those of budgets.yaml")
)

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
	if *jobsFlag > 0 {
		b.Scale.Jobs = *jobsFlag
	}
	if *roundsFlag > 0 {
		b.Scale.Rounds, b.Recovery.Rounds = *roundsFlag, *roundsFlag
	}
	if *cutoffFlag > 0 {
		b.Recovery.BaselineCutoffSeconds = *cutoffFlag
	}
	return b
}

// quick says whether flags make the run one that is not worth keeping.
func quick() bool { return *jobsFlag > 0 || *roundsFlag > 0 || *cutoffFlag > 0 }

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
