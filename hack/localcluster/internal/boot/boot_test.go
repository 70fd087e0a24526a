package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		change  func(*Options)
		wantErr string // none if empty
	}{
		"everything":          {change: func(*Options) {}},
		"an API server alone": {change: func(o *Options) { o.Components = []string{Etcd, APIServer} }},
		"an unknown component": {
			change:  func(o *Options) { o.Components = append(o.Components, "kubelet") },
			wantErr: `no component is called "kubelet"`,
		},
		"no API server": {
			change:  func(o *Options) { o.Components = []string{Etcd} },
			wantErr: "a cluster needs etcd and kube-apiserver",
		},
		"arguments of what is not run": {
			change:  func(o *Options) { o.Extra = map[string][]string{"kubelet": {"--v=2"}} },
			wantErr: `extra arguments for "kubelet"`,
		},
		"too short a grace period": {
			change:  func(o *Options) { o.NodeMonitorGracePeriod = time.Second },
			wantErr: "node-monitor-grace-period 1s: at least 4s",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{Components: append([]string{}, AllComponents...), NodeMonitorGracePeriod: DefaultNodeMonitorGracePeriod}
			tc.change(&o)
			err := o.check()
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("check: %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestTimesOfNodes(t *testing.T) {
	tests := map[string]struct {
		grace, wantPeriod, wantLease time.Duration
	}{
		"Kubernetes' own": {50 * time.Second, 5 * time.Second, 40 * time.Second},
		"of the tests":    {8 * time.Second, 2 * time.Second, 8 * time.Second},
		"the shortest":    {4 * time.Second, time.Second, 4 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{NodeMonitorGracePeriod: tc.grace}
			if got := o.nodeMonitorPeriod(); got != tc.wantPeriod {
				t.Errorf("nodeMonitorPeriod: %s, want %s", got, tc.wantPeriod)
			}
			if got := o.leaseDuration(); got != tc.wantLease {
				t.Errorf("leaseDuration: %s, want %s", got, tc.wantLease)
			}
		})
	}
}

// Down finds the programs by their command lines: each must name the cluster's folder.
func TestEveryCommandLineNamesTheFolder(t *testing.T) {
	o := Options{Components: AllComponents, NodeMonitorGracePeriod: DefaultNodeMonitorGracePeriod}
	for name, c := range o.components(newLayout("/some/folder"), ports{}) {
		if !strings.Contains(strings.Join(c.args, "\x00"), "/some/folder/") {
			t.Errorf("%s is run without the folder in its arguments: %v", name, c.args)
		}
	}
}

func TestOnLoopback(t *testing.T) {
	webhook := func(name, path string) map[string]any {
		return map[string]any{"name": name, "clientConfig": map[string]any{"service": map[string]any{"name": "s", "path": path}}}
	}
	object := map[string]any{
		"kind":     "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "mutating-webhook-configuration"},
		"webhooks": []any{webhook("mjobset.kb.io", "/mutate-jobset"), webhook("mpod.kb.io", "/mutate--v1-pod")},
	}
	collection, err := onLoopback(object, 1234, []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "mutatingwebhookconfigurations"; collection != want {
		t.Errorf("collection %s, want %s", collection, want)
	}
	want := []any{
		map[string]any{
			"name":         "mjobset.kb.io",
			"clientConfig": map[string]any{"url": "https://127.0.0.1:1234/mutate-jobset", "caBundle": "Y2E="},
		},
		map[string]any{
			"name":         "mpod.kb.io",
			"clientConfig": map[string]any{"url": "https://127.0.0.1:1234/mutate--v1-pod", "caBundle": "Y2E="},
			"objectSelector": map[string]any{"matchExpressions": []any{
				map[string]any{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"},
			}},
		},
	}
	if diff := cmp.Diff(want, object["webhooks"]); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
	if _, err := onLoopback(map[string]any{"kind": "Service"}, 1, nil); err == nil {
		t.Error("a Service is taken for a webhook configuration")
	}
}

func TestFolders(t *testing.T) {
	t.Run("somebody else's folder stays as it is", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "thesis.tex")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := claim(dir); err == nil || !strings.Contains(err.Error(), "not a local cluster's folder") {
			t.Errorf("claim: %v", err)
		}
		if err := Down(dir); err == nil {
			t.Error("Down takes the folder for a cluster's")
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})
	t.Run("a boot holds its folder, and Down ends it", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new")
		unlock, err := claim(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := claim(dir); err == nil || !strings.Contains(err.Error(), "another cluster is booting") {
			t.Errorf("second claim: %v", err)
		}
		unlock()
		if err := Down(dir); err != nil {
			t.Errorf("Down: %v", err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("after Down the folder is still there: %v", err)
		}
		if err := Down(dir); err != nil {
			t.Errorf("Down where nothing is: %v", err)
		}
	})
}

func TestDownEndsOnlyOurProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	unlock, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command("sleep", args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	other := run("60") // a process whose id was recorded and given to somebody else since
	state := State{Processes: []Process{{Name: "sleep", PID: other.Process.Pid}}}
	if err := state.write(newLayout(dir)); err != nil {
		t.Fatal(err)
	}
	if err := Down(dir); err != nil {
		t.Fatal(err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Errorf("another process was ended: %v", err)
	}
	if err := other.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the other process ended with %v, want killed by this test", err)
	}
}

func TestReadObjects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte("---\nkind: A\n---\nkind: B\nspec:\n  x: 1\n---\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readObjects(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{"kind": "A"}, {"kind": "B", "spec": map[string]any{"x": float64(1)}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
