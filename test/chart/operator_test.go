package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pathways.domain/pathways-job/internal/metrics"
)

// Values that are set become flags; those that are not leave the operator's
// own defaults. Every flag is one that the operator knows.
func TestFlags(t *testing.T) {
	base := []any{"--leader-elect", "--health-probe-bind-address=:8081", "--metrics-bind-address=:8443"}
	if diff := cmp.Diff(base, mustTemplate(t).container(t)["args"]); diff != "" {
		t.Errorf("default arguments (-want +got):\n%s", diff)
	}
	args := mustTemplate(t, "--values=test/chart/testdata/flags.values.yaml").container(t)["args"].([]any)
	want := slices.Concat(base, []any{
		"--default-pathways-version=jax-0.7.0",
		"--elastic-flag=slices",
		"--elastic-mode=DryRun",
		"--fence-slice-pools=false",
		"--kube-api-burst=1000",
		"--kube-api-qps=500",
		"--maintenance-lead-time=0s",
		"--max-unhealthy-pools=0",
		"--not-ready-grace=1m",
		"--pathways-proxy-image=example.com/proxy",
		"--pathways-server-image=example.com/server",
		"--workers=8",
		"--zap-log-level=debug",
	})
	if diff := cmp.Diff(want, args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}

	bin := filepath.Join(t.TempDir(), "manager")
	if _, err := run(t, "go", "build", "-o", bin, "./cmd"); err != nil {
		t.Fatal(err)
	}
	_, err := run(t, bin, "--no-such-flag")
	if err == nil {
		t.Fatal("the operator takes an unknown flag")
	}
	known := err.Error()
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg.(string), "-"), "=")
		if !regexp.MustCompile(`(?m)^\s+--?` + regexp.QuoteMeta(name) + `\b`).MatchString(known) {
			t.Errorf("the operator has no flag --%s", name)
		}
	}
}

// The alerts and the dashboard speak of series that the operator has.
func TestSeriesExist(t *testing.T) {
	known := series(t)
	for _, file := range []string{"config/prometheus/alerts.yaml", "config/grafana/pathways-job.json"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`pathwaysjob_[a-z_]+`).FindAllString(string(text), -1)
		if len(named) == 0 {
			t.Errorf("%s names no series", file)
		}
		for _, name := range named {
			if !slices.Contains(known, strings.TrimSuffix(name, "_bucket")) {
				t.Errorf("%s: the operator has no series %s; it has %v", file, name, known)
			}
		}
	}
}

// registerer keeps what is registered.
type registerer struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

func (r *registerer) MustRegister(cs ...prometheus.Collector) {
	r.collectors = append(r.collectors, cs...)
}

// series are the names of all series of the operator's own.
func series(t *testing.T) []string {
	t.Helper()
	r := &registerer{}
	metrics.NewRecorder(r)
	r.MustRegister(metrics.NewCollector(client.Reader(nil), clock.RealClock{}))
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		for _, c := range r.collectors {
			c.Describe(descs)
		}
	}()
	var names []string
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	timeout := time.After(10 * time.Second)
	for {
		select {
		case d, ok := <-descs:
			if !ok {
				return names
			}
			names = append(names, name.FindStringSubmatch(d.String())[1])
		case <-timeout:
			t.Fatal("the collectors do not end describing themselves")
		}
	}
}
