// Package golden compares what a test got with a file of the repository, and
// rewrites the file when the test runs with -update.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check compares got with the file at path, relative to the test's package.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := write(path, got); err != nil {
			t.Fatalf("updating golden file: %v", err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is no golden file %s: run the test with -update to write it", path)
	}
	if err != nil {
		t.Fatalf("reading golden file: %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-file +got); if the change is meant, run the test with -update:\n%s", path, diff)
	}
}

// CheckYAML compares an object, as YAML, with the file at path.
func CheckYAML(t testing.TB, path string, got any) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatalf("writing %T as YAML: %v", got, err)
	}
	Check(t, path, string(text))
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
