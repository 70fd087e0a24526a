package boot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a program that this process started.
type child struct {
	Process
	log    string
	exited chan struct{} // closed when it has ended
}

// start runs a program with its output in a log file. A bound program dies with this process, whatever ends it
// (the caller must be on the main thread, see main); another one lives on by itself.
func start(program string, c component, l layout, bound bool) (*child, error) {
	log := filepath.Join(l.logs, c.name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, c.args...)
	cmd.Dir = l.dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's Ctrl-C is not for it
	if bound {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	ch := &child{Process: Process{Name: c.name, PID: cmd.Process.Pid}, log: log, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ch.exited)
	}()
	return ch, nil
}

// tail returns the last lines of the child's log.
func (c *child) tail() string {
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// ours tells whether the process still runs and is that program of the cluster in dir: each one's command line
// names files in it.
func (p Process) ours(dir string) bool {
	cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "cmdline"))
	if err != nil {
		return false
	}
	args := bytes.Split(cmdline, []byte{0})
	return filepath.Base(string(args[0])) == p.Name && bytes.Contains(cmdline, []byte(dir+string(filepath.Separator)))
}

// stop ends processes of the cluster in dir, and waits until they are gone: SIGTERM, and SIGKILL for those that are
// still there after a second. Nothing in the cluster is worth more.
func stop(dir string, processes []Process) error {
	signal := func(s syscall.Signal) (left []Process, err error) {
		for _, p := range processes {
			if !p.ours(dir) {
				continue
			}
			left = append(left, p)
			if e := syscall.Kill(p.PID, s); e != nil && !errors.Is(e, syscall.ESRCH) {
				err = errors.Join(err, fmt.Errorf("ending %s (process %d): %w", p.Name, p.PID, e))
			}
		}
		return left, err
	}
	if _, err := signal(syscall.SIGTERM); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		left, err := signal(0)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Since(begun) > time.Second {
			if _, err := signal(syscall.SIGKILL); err != nil {
				return err
			}
		}
		if time.Since(begun) > 10*time.Second {
			return fmt.Errorf("%s (process %d) does not end", left[0].Name, left[0].PID)
		}
	}
}
