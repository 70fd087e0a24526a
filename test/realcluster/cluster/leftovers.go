package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Leftovers lists what is there of a cluster: nothing, after Down.
func Leftovers() []string {
	var left []string
	for _, text := range []string{Root, runtimeDir, cgroupPrefix} {
		for _, pid := range ourProcesses(text) {
			left = append(left, fmt.Sprintf("process %d", pid))
		}
	}
	patterns := []string{Root, runtimeDir, "/sys/class/net/" + bridge + "*", "/run/netns/" + cgroupPrefix + "*"}
	for _, c := range append(controllers(), cgroups+"/unified") {
		patterns = append(patterns, filepath.Join(c, cgroupPrefix+"*"))
	}
	for _, p := range patterns {
		files, _ := filepath.Glob(p) // None of the patterns is malformed.
		left = append(left, files...)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		left = append(left, err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, Root) || strings.Contains(line, runtimeDir) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return left
}
