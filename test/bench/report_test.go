//go:build bench

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

// The files that a run writes. Each test replaces its own part of the results,
// and the page is made of all parts.
var (
	resultsFile = filepath.Join(envtest.Root(), "docs", "benchmarks", "results.json")
	pageFile    = filepath.Join(envtest.Root(), "docs", "benchmarks.md")
)

// table is one test's results.
type table struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Machine string `json:"machine"`
	Rows    []row  `json:"rows"`
	Note    string `json:"note,omitempty"`
}

// row is one measured value; a recovery has a baseline beside it.
type row struct {
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"`
	Budget float64 `json:"budget,omitempty"`
	// Values are the single rounds that Value is the median of.
	Values []float64 `json:"values,omitempty"`
	// Baseline is what a plain JobSet took, in words.
	Baseline string `json:"baseline,omitempty"`
	// Plot is the file of a plot, beside results.json.
	Plot string `json:"plot,omitempty"`
}

func (e *env) newTable(name, title string) *table {
	return &table{Name: name, Title: title, Machine: e.machine()}
}

func (t *table) add(r row) { t.Rows = append(t.Rows, r) }

// save puts the table in the place of its last version, and writes the page.
func (t *table) save(tb testing.TB) {
	tb.Helper()
	if quick() {
		return
	}
	tables := map[string]*table{}
	data, err := os.ReadFile(resultsFile)
	if err == nil {
		err = json.Unmarshal(data, &tables)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	if old := tables[t.Name]; old != nil && old.Title == t.Title {
		t.Rows = merge(old.Rows, t.Rows)
	}
	tables[t.Name] = t
	if data, err = json.MarshalIndent(tables, "", "  "); err != nil {
		tb.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(resultsFile), 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, content := range map[string][]byte{resultsFile: append(data, '\n'), pageFile: page(tables)} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

// merge puts rows in the place of older ones of their name.
func merge(old, rows []row) []row {
	merged := slices.Clone(old)
	for _, r := range rows {
		if i := slices.IndexFunc(merged, func(o row) bool { return o.What == r.What }); i >= 0 {
			merged[i] = r
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

// sections of the page, in its order.
var sections = []struct{ heading, text string }{
	{"creation", ""}, {"running", ""},
	{"recovery-4", recoveryText}, {"recovery-16", ""}, {"several", ""}, {"priority", priorityText}, {"no-pool", ""},
}

const (
	recoveryText = `Seconds from the signal (the node's condition Ready, its taint, the deletion of its object, the exit or deletion of pods) until all workers of the slice are Ready again on live hosts, with an idle pool of the shape. Pods take 0.5 s to start and 1 s to stop. The plain JobSet is the one that google/pathways-job makes of the same job, under the same fault in the same cluster and run; it is given up after 120 s.`
	priorityText = `A job of higher priority takes the only pool of a running one.`
)

func page(tables map[string]*table) []byte {
	var b bytes.Buffer
	b.WriteString(`# Benchmarks

Written by ` + "`make bench`" + ` (test/bench), which fails where a value is beyond its budget (test/bench/budgets.yaml). All programs of the cluster are real but the kubelets, and share the machine with the benchmark; Kubernetes runs with its own settings.
`)
	for _, s := range sections {
		t := tables[s.heading]
		if t == nil {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", strings.ToUpper(t.Title[:1])+t.Title[1:])
		if s.text != "" {
			fmt.Fprintf(&b, "%s\n\n", s.text)
		}
		t.write(&b)
	}
	return b.Bytes()
}

func (t *table) write(b *bytes.Buffer) {
	baseline := false
	for _, r := range t.Rows {
		baseline = baseline || r.Baseline != ""
	}
	head, rule := "| | value | budget |", "|---|---|---|"
	if baseline {
		head, rule = "| | median | single rounds | budget | plain JobSet |", "|---|---|---|---|---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, rule)
	for _, r := range t.Rows {
		budget := ""
		if r.Budget > 0 {
			budget = strings.TrimSpace(fmt.Sprintf("%g %s", round(r.Budget), r.Unit))
		}
		value := strings.TrimSpace(fmt.Sprintf("%g %s", r.Value, r.Unit))
		if baseline {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.What, value, join(r.Values), budget, r.Baseline)
		} else {
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.What, value, budget)
		}
	}
	if t.Note != "" {
		fmt.Fprintf(b, "\n%s\n", t.Note)
	}
	for _, r := range t.Rows {
		if r.Plot != "" {
			fmt.Fprintf(b, "\n![%s](benchmarks/%s)\n", r.What, r.Plot)
		}
	}
	fmt.Fprintf(b, "\n%s\n", t.Machine)
}

func join(values []float64) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprintf("%.1f", v))
	}
	return strings.Join(list, ", ")
}

// machine says what the numbers were taken on.
func (e *env) machine() string {
	model, memory := "unknown CPU", ""
	for line := range fileLines("/proc/cpuinfo") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
		}
	}
	for line := range fileLines("/proc/meminfo") {
		var kib int
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			memory = fmt.Sprintf(", %d GiB", (kib+1<<19)>>20)
		}
	}
	load := ""
	for line := range fileLines("/proc/loadavg") {
		load = strings.Fields(line)[0]
	}
	return fmt.Sprintf("Taken on %s: revision %s, Kubernetes %s, %s; %d cores (%s)%s, load average %s at the end.",
		time.Now().UTC().Format(time.DateOnly), e.revision, filepath.Base(filepath.Dir(e.Bin)), runtime.Version(),
		runtime.NumCPU(), model, memory, load)
}

// fileLines yields the lines of a file, none where it cannot be read.
func fileLines(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		f, err := os.Open(name)
		if err != nil {
			return
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if !yield(lines.Text()) {
				return
			}
		}
	}
}
