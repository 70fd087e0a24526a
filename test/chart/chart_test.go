package chart_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The chart and config/ install the same. Only Helm's own marks differ, and
// the namespace, which Helm makes by --create-namespace.
func TestChartEqualsConfig(t *testing.T) {
	config := build(t, "test/chart/testdata/everything")
	chart := mustTemplate(t, "--values=test/chart/testdata/everything.values.yaml")
	delete(config, "Namespace /pathways-job-system")

	for _, o := range chart {
		labels := o.GetLabels()
		for _, own := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
			delete(labels, own)
		}
		o.SetLabels(labels)
		annotations := o.GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		o.SetAnnotations(annotations)
	}
	for _, o := range config {
		if len(o.GetAnnotations()) == 0 {
			o.SetAnnotations(nil)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(config)), slices.Sorted(maps.Keys(chart))); diff != "" {
		t.Fatalf("objects (-config +chart):\n%s", diff)
	}
	for name, want := range config {
		if diff := cmp.Diff(plain(t, want.Object), plain(t, chart[name].Object)); diff != "" {
			t.Errorf("%s (-config +chart):\n%s", name, diff)
		}
	}
}

// plain makes all numbers of one kind, whatever they were read from.
func plain(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLint(t *testing.T) {
	if _, err := tool(t, "helm", "lint", "--strict", "charts/pathways-job"); err != nil {
		t.Error(err)
	}
}

func TestCRDIsKept(t *testing.T) {
	name := "CustomResourceDefinition /pathwaysjobs.pathways-job.pathways.domain"
	crd := mustTemplate(t)[name]
	if crd == nil {
		t.Fatalf("no %s", name)
	}
	if got := crd.GetAnnotations()["helm.sh/resource-policy"]; got != "keep" {
		t.Errorf("helm.sh/resource-policy = %q: uninstalling the chart would delete all PathwaysJobs", got)
	}
	if mustTemplate(t, "--set=crds.install=false")[name] != nil {
		t.Error("crds.install=false installs the CRD")
	}
}

func TestAdmissionPolicies(t *testing.T) {
	with, without := mustTemplate(t), mustTemplate(t, "--set=admissionPolicies.install=false")
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		if with.count(kind) == 0 {
			t.Errorf("the chart has no %s", kind)
		}
		if n := without.count(kind); n != 0 {
			t.Errorf("admissionPolicies.install=false leaves %d of kind %s", n, kind)
		}
	}
}

// Under another release name and in another namespace nothing speaks of the
// default ones: the admission policies, say, bind the ServiceAccount that runs.
func TestElsewhere(t *testing.T) {
	out, err := tool(t, "helm", "template", "other", "charts/pathways-job", "--namespace=elsewhere",
		"--values=test/chart/testdata/everything.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pathways-job-system", "pathways-job-controller-manager"} {
		for line := range strings.Lines(out) {
			if strings.Contains(line, name) {
				t.Errorf("%q is still named: %s", name, line)
			}
		}
	}
	objects, err := parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := objects.deployment(t).GetName(); got != "other-controller-manager" {
		t.Errorf("the Deployment is called %q", got)
	}
}

func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for name, tc := range map[string]struct {
		set  []string
		want string
	}{
		"by tag":             {[]string{"--set=image.repository=example.com/op,image.tag=v1"}, "example.com/op:v1"},
		"the chart's":        {[]string{"--set=image.repository=op"}, "op:0.1.0"},
		"a digest wins":      {[]string{"--set=image.repository=op,image.tag=v1,image.digest=" + digest}, "op@" + digest},
		"a tag of numbers":   {[]string{"--set=image.repository=op", "--set-string=image.tag=20261129"}, "op:20261129"},
		"with a port number": {[]string{"--set=image.repository=localhost:5000/op,image.tag=v1"}, "localhost:5000/op:v1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustTemplate(t, tc.set...).container(t)["image"]; got != tc.want {
				t.Errorf("image = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReplicas(t *testing.T) {
	two, one := mustTemplate(t), mustTemplate(t, "--set=replicas=1")
	if two.count("PodDisruptionBudget") != 1 {
		t.Error("two replicas have no PodDisruptionBudget")
	}
	if one.count("PodDisruptionBudget") != 0 {
		t.Error("one replica has a PodDisruptionBudget")
	}
	for name, o := range map[string]objects{"two": two, "one": one} {
		if args := o.container(t)["args"].([]any); !slices.Contains(args, any("--leader-elect")) {
			t.Errorf("%s: no --leader-elect in %v", name, args)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ set, want string }{
		"a field that is not there":   {"replica=3", "additional properties 'replica' not allowed"},
		"a nested one":                {"image.repo=x", "additional properties 'repo' not allowed"},
		"replicas below 0":            {"replicas=-1", "minimum: got -1, want 0"},
		"an unknown pull policy":      {"image.pullPolicy=Sometimes", "/image/pullPolicy"},
		"a digest that is none":       {"image.digest=abc", "/image/digest"},
		"an unknown mode":             {"manager.elasticMode=enforce", "/manager/elasticMode"},
		"a duration without unit":     {"manager.notReadyGrace=30", "/manager/notReadyGrace"},
		"more than all of the pools":  {"manager.maxUnhealthyPools=101", "maximum: got 101, want 100"},
		"a word for a yes or no":      {"crds.install=maybe", "/crds/install"},
		"an argument that is no flag": {"manager.extraArgs={v=3}", "/manager/extraArgs/0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := template(t, "--set="+tc.set)
			if err == nil {
				t.Fatalf("%s is accepted", tc.set)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error does not say %q:\n%v", tc.want, err)
			}
		})
	}
}
