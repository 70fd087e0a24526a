package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Freeze stops a component ("kube-apiserver") in the middle of whatever it does: its connections stay open and
// nothing answers, as in an outage of the network. thaw lets it go on.
func (c *Cluster) Freeze(component string) (thaw func() error, err error) {
	data, err := os.ReadFile(filepath.Join(c.Dir, "state.json"))
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", component, err)
	}
	var s struct {
		Processes []struct {
			Name string `json:"name"`
			PID  int    `json:"pid"`
		} `json:"processes"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading the state of the cluster in %s: %w", c.Dir, err)
	}
	for _, p := range slices.Backward(s.Processes) {
		if p.Name != component {
			continue
		}
		if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
			return nil, fmt.Errorf("stopping %s: %w", component, err)
		}
		return func() error { return syscall.Kill(p.PID, syscall.SIGCONT) }, nil
	}
	return nil, fmt.Errorf("the cluster in %s runs no %s", c.Dir, component)
}
