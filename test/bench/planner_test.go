//go:build bench

package bench

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

// TestPlanner runs the planner's Go benchmark.
func TestPlanner(t *testing.T) {
	b := readBudgets(t).Planner
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-run=^$", "-bench=^BenchmarkNext$", "-benchmem", "./internal/elastic/plan")
	cmd.Dir = envtest.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go test: %v: %s", err, out)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		name, values, ok := benchmarkLine(line)
		if !ok {
			continue
		}
		seen++
		within(t, &table{}, name+", time", values["ns/op"]/1e6, b.Milliseconds, "ms")
		within(t, &table{}, name+", allocated", values["B/op"]/1e6, b.Megabytes, "MB")
	}
	if seen < 2 {
		t.Errorf("no results in:\n%s", out)
	}
}

// benchmarkLine reads a line such as "BenchmarkX-2 100 12 ns/op 34 B/op".
func benchmarkLine(line string) (name string, values map[string]float64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", nil, false
	}
	values = map[string]float64{}
	for i := 2; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", nil, false
		}
		values[fields[i+1]] = v
	}
	return fields[0], values, true
}
