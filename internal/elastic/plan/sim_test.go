package plan

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	seeds    = flag.Int("seeds", 2000, "number of simulated worlds; PLAN_SEEDS overrides it")
	oneSeed  = flag.Int("seed", -1, "simulate this world only, and print its trace")
	stepsCap = 50_000
)

// run lets the world go on until nothing happens any more, or until the end.
func (w *world) run(until time.Duration) {
	steps := []func() bool{
		w.strike, w.kubelets, w.nodeControl, w.cloud, w.rivals, w.schedule, w.jobs, w.jobSets, w.fences,
	}
	end := epoch.Add(until)
	for n := 0; ; n++ {
		if n > stepsCap {
			w.fail("the world does not come to rest")
		}
		w.due = time.Time{}
		changed := false
		for _, k := range w.rng.Perm(len(steps)) {
			changed = steps[k]() || changed
			if w.rng.IntN(4) == 0 {
				w.dirty = w.dirty || changed
				changed = w.operate() || changed
			}
		}
		w.dirty = w.dirty || changed
		changed = w.operate() || changed
		w.check()
		next := w.now.Add(time.Second)
		if !changed && !w.dirty {
			if w.due.IsZero() {
				return
			}
			if w.due.After(next) {
				next = w.due
			}
		}
		if until > 0 && !next.Before(end) {
			w.now = end
			return
		}
		w.now = next
	}
}

// randomWorld has a job, a policy and faults that the seed decides.
func randomWorld(seed int) *world {
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	slices, vms := int32(1+rng.IntN(4)), []int32{1, 2, 4}[rng.IntN(3)]
	w := newWorld(slices, vms, int(slices)+rng.IntN(3))
	w.rng = rng
	w.job.ElasticSlices = int32(rng.IntN(int(slices) + 1))
	w.job.MaxSliceRestarts = int32(rng.IntN(3))
	w.job.Resumable = rng.IntN(4) > 0
	w.job.Headless = rng.IntN(5) == 0
	w.jobSet.MaxRestarts = int32(rng.IntN(3))
	w.policy.FencePools = rng.IntN(5) > 0
	w.exitZero = rng.IntN(2) == 0
	w.stopFor = time.Duration(1+rng.IntN(20)) * time.Second
	w.grow = time.Duration(1+rng.IntN(40)) * time.Second
	if rng.IntN(2) == 0 {
		w.crashOps = 4
	}
	for range 1 + rng.IntN(8) {
		w.at(time.Duration(5+rng.IntN(1200))*time.Second, randomFault)
	}
	if rng.IntN(6) == 0 {
		w.at(time.Duration(600+rng.IntN(600))*time.Second, (*world).finish)
	}
	return w
}

func randomFault(w *world) {
	r := w.rng
	i := r.IntN(len(w.child))
	pool := w.pools[r.IntN(len(w.pools))]
	var n *Node
	if len(pool.nodes) > 0 {
		n = pool.nodes[r.IntN(len(pool.nodes))]
	}
	seconds := func(from, to int) time.Duration { return time.Duration(from+r.IntN(to-from)) * time.Second }
	switch k := r.IntN(22); {
	case k == 20:
		w.deleteHead()
	case k == 21:
		w.deleteJob(i, r.IntN(2) == 0)
	case k == 0:
		w.ownExit(i)
	case k < 4:
		w.ownFall(i)
	case k == 4:
		w.deletePod(i)
	case k == 5:
		w.evictPod(i)
	case k == 6:
		w.preempt(pool, seconds(20, 400))
	case k == 7:
		w.replace(i)
	case k == 8:
		w.headHostDies()
	case k == 9:
		w.evictHead()
	case k == 10:
		w.proxyRestarts()
	case k == 11:
		w.allFall()
	case k == 12:
		w.opDown = w.now.Add(seconds(1, 20))
	case k == 13:
		w.exitOnStop(i)
	case k == 14:
		for _, p := range w.pools {
			for _, n := range p.nodes {
				w.blip(n, NodeReadyUnknown, seconds(10, 400))
			}
		}
	case n == nil:
	case k == 15:
		w.hostDies(n, seconds(60, 700))
	case k == 16:
		w.blip(n, NodeReadyFalse, seconds(5, 60))
	case k == 17:
		w.notice(n, seconds(15, 60))
	case k == 18:
		w.maintain(n, seconds(30, 120))
	case r.IntN(2) == 0:
		w.planMaintenance(pool, seconds(60, 800))
	case r.IntN(2) == 0:
		w.cordon(n, seconds(10, 200))
	default:
		w.deleteNodes(pool)
	}
}

// TestSimulation runs many random worlds to rest. Next is asked in every
// state that they pass through, and the invariants of sim_check_test.go hold
// at every step. -seed=N shows what happens in one world.
func TestSimulation(t *testing.T) {
	if *oneSeed >= 0 {
		simulate(t, *oneSeed, true)
		return
	}
	n := *seeds
	if s, err := strconv.Atoi(os.Getenv("PLAN_SEEDS")); err == nil {
		n = s
	}
	for seed := range n {
		simulate(t, seed, false)
		if t.Failed() {
			break
		}
	}
}

func simulate(t *testing.T, seed int, show bool) {
	w := randomWorld(seed)
	if show {
		w.log = &strings.Builder{}
	}
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(broken); !ours {
				panic(r)
			}
			t.Errorf("seed %d: %s (see it with -run TestSimulation -seed=%d)", seed, r, seed)
		}
		if show {
			t.Log("\n" + w.log.String())
		}
	}()
	w.fail = func(format string, args ...any) {
		w.note("BROKEN: "+format, args...)
		panic(broken(fmt.Sprintf("after %s: ", w.now.Sub(epoch)) + fmt.Sprintf(format, args...)))
	}
	w.run(0)
	w.checkRest()
	o := w.observe()
	if a, b := next(&o, w.now, ladder), next(&o, w.now, ladder); !reflect.DeepEqual(a, b) {
		w.fail("two answers to one question")
	}
}

// broken is an invariant that does not hold.
type broken string
