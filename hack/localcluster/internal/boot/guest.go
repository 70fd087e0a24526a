package boot

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// guestEndsWithin is how soon a guest that cannot work at all has ended, by a flag that it does not know, say.
const guestEndsWithin = 300 * time.Millisecond

// Run starts a program beside the cluster in dir, such as an operator. It lives on by itself, ends with the cluster
// (Down), and takes the place of an earlier one of its name. Its output is in the cluster's logs. One of its
// arguments must name a file in dir: by that it is known as the cluster's.
func Run(dir, program string, args []string) (Process, error) {
	if !strings.Contains(strings.Join(args, "\x00"), dir+string(filepath.Separator)) {
		return Process{}, fmt.Errorf("none of the arguments of %s names a file in %s, so that it could not be found again", program, dir)
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return Process{}, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return Process{}, err
	}
	defer unlock()
	state, err := ReadState(dir)
	if err != nil {
		return Process{}, err
	}
	if state == nil || !state.Ready {
		return Process{}, fmt.Errorf("no cluster runs in %s", dir)
	}
	name := filepath.Base(program)
	same := func(p Process) bool { return p.Guest && p.Name == name }
	for _, p := range state.Processes {
		if p.Name == name && !p.Guest {
			return Process{}, fmt.Errorf("%s is one of the cluster's own programs", name)
		}
		if same(p) {
			if err := stop(dir, []Process{p}); err != nil {
				return Process{}, err
			}
		}
	}
	l := newLayout(dir)
	ch, err := start(program, component{name: name, args: args}, l, false)
	if err != nil {
		return Process{}, err
	}
	ch.Guest = true
	state.Processes = append(slices.DeleteFunc(state.Processes, same), ch.Process)
	if err := state.write(l); err != nil {
		return Process{}, errors.Join(err, stop(dir, []Process{ch.Process}))
	}
	select {
	case <-ch.exited:
		return Process{}, fmt.Errorf("%s ended at once; the last lines of %s:\n%s", name, ch.log, ch.tail())
	case <-time.After(guestEndsWithin):
		return ch.Process, nil
	}
}

// Whole tells whether all of the cluster's own programs run; guests do not count.
func (s *State) Whole(dir string) bool {
	return !slices.ContainsFunc(s.Processes, func(p Process) bool { return !p.Guest && !p.ours(dir) })
}
