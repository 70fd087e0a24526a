package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// start runs a program that outlives this one, and records its process. Of
// two with one name, the older one must have ended.
func start(name string, env []string, program string, args ...string) error {
	if err := os.MkdirAll(filepath.Dir(logFile(name)), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir = Root
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := writeFile(pidFile(name), strconv.Itoa(cmd.Process.Pid)); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	go func() { _ = cmd.Wait() }() // Its log tells how it ended.
	return nil
}

// kill ends a program of ours at once and waits until it is gone.
func kill(name string) error {
	data, err := os.ReadFile(pidFile(name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("read %s: %w", pidFile(name), err)
	}
	if isOurs(pid) {
		if err := killAll([]int{pid}); err != nil {
			return fmt.Errorf("end %s: %w", name, err)
		}
	}
	return os.Remove(pidFile(name))
}

// isOurs says whether a process's command line names our files: a recorded
// number may have gone to another process since.
func isOurs(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && (bytes.Contains(cmdline, []byte(Root)) || bytes.Contains(cmdline, []byte(runtimeDir)) ||
		bytes.Contains(cmdline, []byte(cgroupPrefix)))
}

// killAll sends SIGKILL and waits until the processes are gone.
func killAll(pids []int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		left := 0
		for _, pid := range pids {
			if alive(pid) {
				left = pid
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not end", left)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // until the deadline
	}
}

// alive says whether a process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// ourProcesses lists the processes whose command line holds all of the texts.
func ourProcesses(texts ...string) []int {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
next:
	for _, name := range names {
		cmdline, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for _, text := range texts {
			if !bytes.Contains(cmdline, []byte(text)) {
				continue next
			}
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Memory is what the cluster's programs and containers hold, in bytes,
// without what they share.
func Memory() int64 {
	pids := ourProcesses(Root)
	for _, h := range Hosts {
		pids = append(pids, h.containerProcesses()...)
	}
	slices.Sort(pids)
	var pages int64
	for _, pid := range slices.Compact(pids) {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue // It has ended.
		}
		var size, resident, shared int64
		if _, err := fmt.Sscan(string(statm), &size, &resident, &shared); err == nil {
			pages += resident - shared
		}
	}
	return pages * int64(os.Getpagesize())
}
