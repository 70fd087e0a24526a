package render_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/golden"
)

const samples = "../../config/samples"

// readSample reads a sample as the API server stores it.
func readSample(t testing.TB, name string) *v1.PathwaysJob {
	t.Helper()
	object := map[string]any{}
	text := must(os.ReadFile(filepath.Join(samples, name+".yaml")))(t)
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		t.Fatal(err)
	}
	if err := must(ourCRD())(t).admit(object); err != nil {
		t.Fatalf("the API refuses the sample: %v", err)
	}
	job := &v1.PathwaysJob{}
	if err := yaml.UnmarshalStrict(must(yaml.Marshal(object))(t), job); err != nil {
		t.Fatal(err)
	}
	job.Namespace = "default"
	return job
}

func sampleNames(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, file := range must(filepath.Glob(filepath.Join(samples, "*.yaml")))(t) {
		if name := strings.TrimSuffix(filepath.Base(file), ".yaml"); name != "kustomization" {
			names = append(names, name)
		}
	}
	if len(names) < 6 {
		t.Fatalf("samples are %q", names)
	}
	return names
}

// TestGolden shows the JobSet of every sample and compat case, before JobSet's
// defaulting, and that JobSet accepts it.
func TestGolden(t *testing.T) {
	jobs := map[string]*v1.PathwaysJob{}
	for _, name := range compatCases(t) {
		jobs["compat/"+name] = readJob(t, name)
	}
	for _, name := range sampleNames(t) {
		jobs["samples/"+name] = readSample(t, name)
	}
	for name, job := range jobs {
		t.Run(name, func(t *testing.T) {
			js := must(render.JobSet(job, render.Options{}))(t)
			golden.CheckYAML(t, "testdata/golden/"+name+".yaml", js)
			if err := admitJobSet(js); err != nil {
				t.Errorf("JobSet refuses it: %v", err)
			}
		})
	}
}

// TestCompatCasesAreAccepted: our API accepts every manifest of the peer's.
func TestCompatCasesAreAccepted(t *testing.T) {
	for _, name := range compatCases(t) {
		if err := must(ourCRD())(t).admit(*readJSON[map[string]any](t, compat+name+".pathwaysjob.json")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
