package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of /proc/<pid>/stat: USER_HZ, which is 100 on every architecture that Go runs on.
const clockTick = time.Second / 100

// Usage is what a process has used.
type Usage struct {
	CPU     time.Duration // user and system, since its start
	PeakRSS int64         // bytes
}

// Usage returns what the running operator has used.
func (o *Operator) Usage() (Usage, error) { return processUsage(o.PID()) }

func processUsage(pid int) (Usage, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return Usage{}, err
	}
	return parseUsage(stat, status)
}

// parseUsage reads the texts of /proc/<pid>/stat and status; proc(5) describes them.
func parseUsage(stat, status []byte) (Usage, error) {
	// The program's name, in parentheses, may hold spaces; the fields after it start with the third.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return Usage{}, fmt.Errorf("stat of the process is cut short: %q", stat)
	}
	var ticks int64
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("reading stat of the process: %w", err)
		}
		ticks += n
	}
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte("VmHWM:"))
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("reading status of the process: %w", err)
		}
		return Usage{CPU: time.Duration(ticks) * clockTick, PeakRSS: kib << 10}, nil
	}
	return Usage{}, errors.New("status of the process has no VmHWM: it has ended")
}
