package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const cgroups = "/sys/fs/cgroup"

// controllers lists the mounted hierarchies: with cgroup v1 one a controller,
// with v2 a single one.
func controllers() []string {
	if _, err := os.Stat(cgroups + "/cgroup.controllers"); err == nil {
		return []string{cgroups}
	}
	dirs, _ := filepath.Glob(cgroups + "/*")
	var out []string
	for _, d := range dirs {
		info, err := os.Lstat(d)
		if err == nil && info.IsDir() && filepath.Base(d) != "unified" {
			out = append(out, d)
		}
	}
	return out
}

// makeCgroup makes the host's own cgroup in each controller: hosts that share
// one end each other's containers.
func (h Host) makeCgroup() error {
	for _, c := range controllers() {
		dir := filepath.Join(c, h.cgroup())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		// A new cpuset is empty, and nothing can run in an empty one.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(c, name))
			if err != nil {
				continue // Not the cpuset controller.
			}
			if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
				return fmt.Errorf("fill in %s: %w", name, err)
			}
		}
	}
	return nil
}

// killContainers ends all processes in the host's cgroup.
func (h Host) killContainers() error {
	for range 50 {
		pids := h.containerProcesses()
		if len(pids) == 0 {
			return nil
		}
		if err := killAll(pids); err != nil {
			return fmt.Errorf("end the containers of %s: %w", h.Name, err)
		}
	}
	return fmt.Errorf("the containers of %s do not end", h.Name)
}

func (h Host) containerProcesses() []int {
	seen := map[int]bool{}
	var pids []int
	for _, c := range controllers() {
		_ = filepath.WalkDir(filepath.Join(c, h.cgroup()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil //nolint:nilerr // it has gone meanwhile
			}
			data, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(data)) {
				if pid, err := strconv.Atoi(field); err == nil && !seen[pid] && alive(pid) {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return nil
		})
	}
	return pids
}

// removeCgroup removes the host's cgroup with all below it. Where there are
// both versions of cgroups, runc makes some in version 2 by itself.
func (h Host) removeCgroup() error {
	var errs []error
	for _, c := range append(controllers(), cgroups+"/unified") {
		errs = append(errs, removeTree(filepath.Join(c, h.cgroup())))
	}
	return errors.Join(errs...)
}

// removeTree removes directories only, the deepest first: the files in a
// cgroup are the kernel's. A cgroup is busy for a moment after its last
// process has gone.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // until the deadline
	}
}
