//go:build real

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pathways.domain/pathways-job/test/realcluster/cluster"
)

// A boot that is killed at any moment leaves only what down removes.
func TestDownAfterACrash(t *testing.T) {
	command := filepath.Join(t.TempDir(), "realcluster")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		if err := cluster.Down(context.Background(), os.Stderr); err != nil {
			t.Error(err)
		}
	})
	for _, moment := range []string{"etcd is healthy", "tpu-a-1 is started"} {
		up := exec.Command(command, "up", "--bare")
		up.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		progress, err := up.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		reached := false
		for lines := bufio.NewScanner(progress); !reached && lines.Scan(); {
			t.Log(lines.Text())
			reached = strings.Contains(lines.Text(), moment)
		}
		if err := syscall.Kill(-up.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = up.Wait() // Killed.
		if !reached {
			t.Fatalf("never came to %q", moment)
		}
		if len(cluster.Leftovers()) == 0 {
			t.Errorf("killed after %q: nothing was there", moment)
		}
		if out, err := exec.Command(command, "down").CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
		if left := cluster.Leftovers(); len(left) > 0 {
			t.Errorf("killed after %q, these are left: %q", moment, left)
		}
	}
}
