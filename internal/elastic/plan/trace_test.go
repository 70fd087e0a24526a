package plan

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pathways.domain/pathways-job/internal/testing/golden"
)

// nodeOf is the node of a worker.
func (w *world) nodeOf(slice int, index int32) *Node {
	for _, pod := range w.pods[slice] {
		if pod.Index == index && pod.Node != nil {
			return pod.Node
		}
	}
	w.fail("worker %d of slice %d is on no node", index, slice)
	return nil
}

func (w *world) poolOfSlice(slice int) *simPool { return w.pool(w.nodeOf(slice, 0).Pool) }

// play runs a scenario and returns its trace; broken says which invariant did
// not hold.
func (sc scenario) play(rungs []rung) (trace string, problem string) {
	slices, vms, pools := sc.slices, sc.vms, sc.pools
	if slices == 0 {
		slices = 2
	}
	if vms == 0 {
		vms = 4
	}
	if pools == 0 {
		pools = 3
	}
	w := newWorld(slices, vms, pools)
	w.log, w.rungs = &strings.Builder{}, rungs
	w.fail = func(format string, args ...any) { panic(broken(fmt.Sprintf(format, args...))) }
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(broken); !ours {
				panic(r)
			}
			trace, problem = w.log.String(), fmt.Sprint(r)
		}
	}()
	fmt.Fprintf(w.log, "%s\n\n", sc.story)
	if sc.setup != nil {
		sc.setup(w)
	}
	sc.script(w)
	w.run(sc.until)
	if sc.until == 0 {
		w.checkRest()
	}
	w.summarize()
	return w.log.String(), ""
}

// summarize ends a trace with what the status says.
func (w *world) summarize() {
	fmt.Fprintf(w.log, "\nIn the end %s slices are Ready; whole restarts: %d, charged: %d.\n",
		w.job.Status.SliceSummary, w.jobSet.Restarts, w.jobSet.RestartsCharged)
	for _, c := range w.job.Status.Conditions {
		fmt.Fprintf(w.log, "%s=%s (%s): %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, e := range w.job.Status.History {
		who := "job"
		if e.Slice != nil {
			who = fmt.Sprintf("slice %d", *e.Slice)
		}
		down := "still down"
		if e.DownSeconds != nil {
			down = fmt.Sprintf("down for %ds", *e.DownSeconds)
		}
		fmt.Fprintf(w.log, "history: %s %s %s, from %s to %s, %s\n",
			e.Time.Sub(epoch), who, e.Reason, orElse(e.FromPool, "-"), orElse(e.ToPool, "-"), down)
	}
}

// TestTraces compares each scenario's trace with its golden file.
func TestTraces(t *testing.T) {
	for name, sc := range scenarios {
		t.Run(name, func(t *testing.T) {
			trace, problem := sc.play(ladder)
			if problem != "" {
				t.Errorf("broken: %s\n%s", problem, trace)
				return
			}
			golden.Check(t, filepath.Join("testdata", name+".txt"), trace)
		})
	}
}

// TestEachRungMatters takes each rung of the ladder out, and wants every
// scenario that names it to end otherwise, and at least one to name it.
func TestEachRungMatters(t *testing.T) {
	for k, r := range ladder {
		if r.name == "Settled" {
			continue // without it no slice is ever Ready
		}
		t.Run(r.name, func(t *testing.T) {
			without := append(append([]rung(nil), ladder[:k]...), ladder[k+1:]...)
			tried := 0
			for name, sc := range scenarios {
				for _, named := range sc.rungs {
					if named != r.name {
						continue
					}
					tried++
					whole, _ := sc.play(ladder)
					less, problem := sc.play(without)
					if problem == "" && acts(whole) == acts(less) {
						t.Errorf("%s ends in the same way without the rung %s", name, r.name)
					}
				}
			}
			if tried == 0 {
				t.Errorf("no scenario needs the rung %s", r.name)
			}
		})
	}
}

// acts are the lines of a trace that tell of actions and states.
func acts(trace string) string {
	var kept []string
	for _, line := range strings.Split(trace, "\n") {
		if strings.Contains(line, "  act ") || strings.Contains(line, " is ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
