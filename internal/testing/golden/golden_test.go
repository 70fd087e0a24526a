package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a testing.TB that notes what a check says of it.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

func run(t *testing.T, path, got string) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		Check(r, path, got)
	}()
	return r.said
}

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "file.txt")
	if said := run(t, path, "a\n"); !strings.Contains(said, "run the test with -update") {
		t.Errorf("a missing file: %q", said)
	}
	if err := write(path, "a\n"); err != nil {
		t.Fatal(err)
	}
	if said := run(t, path, "a\n"); said != "" {
		t.Errorf("the same text: %q", said)
	}
	if said := run(t, path, "b\n"); !strings.Contains(said, "differs") {
		t.Errorf("another text: %q", said)
	}
	*update = true
	defer func() { *update = false }()
	if said := run(t, path, "c\n"); said != "" {
		t.Errorf("updating: %q", said)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "c\n" {
		t.Errorf("after updating the file holds %q (%v)", text, err)
	}
}
