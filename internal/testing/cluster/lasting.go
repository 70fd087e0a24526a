package cluster

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// Up attaches to the cluster of `make cluster-up`, and boots it first if it does not run. It lives on after this
// process, until `make cluster-down`. What a build and boot say goes to progress.
func Up(ctx context.Context, progress io.Writer) (*Cluster, error) {
	program, err := buildCLI(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := exec.CommandContext(ctx, program, "dir").Output()
	if err != nil {
		return nil, fmt.Errorf("asking for the cluster's folder: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "up")
	cmd.Stderr = progress
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("booting the cluster: %w", err)
	}
	return Attach(strings.TrimSpace(string(dir)))
}

// Run starts a program beside a lasting cluster: it lives on after this process, ends with the cluster, and takes
// the place of an earlier one of its name. One of its arguments must name a file in the cluster's folder. Run
// returns the file of its log.
func (c *Cluster) Run(ctx context.Context, program string, args ...string) (log string, err error) {
	cli, err := buildCLI(ctx)
	if err != nil {
		return "", err
	}
	args = append([]string{"run", "--dir=" + c.Dir, program}, args...)
	if out, err := exec.CommandContext(ctx, cli, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("starting %s: %w: %s", program, err, out)
	}
	return filepath.Join(c.Dir, "logs", filepath.Base(program)+".log"), nil
}
