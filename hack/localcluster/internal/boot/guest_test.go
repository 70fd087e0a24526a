package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// readyCluster is the folder of a cluster without programs.
func readyCluster(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	unlock, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	l := newLayout(dir)
	if err := os.Mkdir(l.logs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (&State{Ready: true}).write(l); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRunReplacesAndDownEnds(t *testing.T) {
	tail, err := exec.LookPath("tail")
	if err != nil {
		t.Skip("there is no tail")
	}
	dir := readyCluster(t)
	args := []string{"-f", filepath.Join(dir, marker)}
	first, err := Run(dir, tail, args)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Run(dir, tail, args)
	if err != nil {
		t.Fatal(err)
	}
	if first.ours(dir) {
		t.Errorf("process %d still runs beside its successor", first.PID)
	}
	state, err := ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Processes) != 1 || state.Processes[0] != second {
		t.Errorf("the state has %v, want %v only", state.Processes, second)
	}
	if err := Down(dir); err != nil {
		t.Fatal(err)
	}
	if second.ours(dir) {
		t.Errorf("process %d outlives the cluster", second.PID)
	}
}

func TestRunRefuses(t *testing.T) {
	tail, err := exec.LookPath("tail")
	if err != nil {
		t.Skip("there is no tail")
	}
	for name, tc := range map[string]struct {
		args  func(dir string) []string
		ready bool
		want  string
	}{
		"arguments that do not name the folder": {
			args: func(string) []string { return []string{"-f"} }, ready: true,
			want: "names a file in",
		},
		"a program that ends at once": {
			args: func(dir string) []string { return []string{"--nonsense", dir + "/x"} }, ready: true,
			want: "tail ended at once; the last lines of",
		},
		"a cluster that is not ready": {
			args: func(dir string) []string { return []string{"-f", dir + "/x"} },
			want: "no cluster runs in",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := readyCluster(t)
			if !tc.ready {
				if err := (&State{}).write(newLayout(dir)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Run(dir, tail, tc.args(dir))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run: %v, want %q", err, tc.want)
			}
		})
	}
}

func TestWholeForgivesGuests(t *testing.T) {
	for name, tc := range map[string]struct {
		processes []Process
		want      bool
	}{
		"nothing has ended": {want: true},
		"a guest has ended": {processes: []Process{{Name: "manager", PID: -1, Guest: true}}, want: true},
		"a program of its own has ended": {
			processes: []Process{{Name: Etcd, PID: -1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Processes: tc.processes}
			if got := s.Whole("/some/folder"); got != tc.want {
				t.Errorf("Whole: %v, want %v", got, tc.want)
			}
		})
	}
}
