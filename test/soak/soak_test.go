//go:build soak

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "pathways.domain/pathways-job/api/v1"
)

// TestOperatorKilled: through many faults the operator is killed every 1 to 3
// s. The job ends up as it does without kills, and as the faults demand: none
// is charged twice or forgotten, and nothing is left behind.
func TestOperatorKilled(t *testing.T) {
	faults, seed := setting(t, "SOAK_FAULTS", 50), uint64(setting(t, "SOAK_SEED", 1))
	e := newEnv(t)
	outcomes := map[bool]outcome{}
	for _, killed := range []bool{false, true} {
		ok := t.Run(fmt.Sprintf("killed=%t", killed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 0))
			var kills *rand.Rand
			if killed {
				kills = rand.New(rand.NewPCG(seed, 1))
			}
			o := e.start(t, kills)
			newJob(t, e)
			want := outcome{Head: e.head(t)}
			for i := range faults {
				// Turn by turn, so that replacements of one slice are not
				// spaced; the last three slices are those whose workers crash.
				slice, kinds := i%slicesOf, disruptions
				if slice >= slicesOf-3 {
					kinds = crashes
				}
				f := kinds[dice.IntN(len(kinds))]
				begin := time.Now()
				f.suffer(t, e, slice)
				want.Slices[slice].Charged += f.charged
				want.Slices[slice].Replaced += f.replaced
				eventually(t, patience, func(ctx context.Context) string { return e.miscounted(ctx, want) })
				t.Logf("fault %d of %d, slice %d: %s; well again and clean after %s", i+1, faults, slice, f.name, time.Since(begin).Round(time.Second))
			}
			o.calm()
			t.Logf("the operator was killed %d times", o.kills)
			got := e.outcome(t)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the end differs from what the faults demand (-want +got):\n%s", diff)
			}
			got.Head = ""
			outcomes[killed] = got
			removeJob(t, e)
		})
		if !ok {
			return
		}
	}
	if len(outcomes) < 2 {
		return // -run asked for one of them
	}
	if diff := cmp.Diff(outcomes[false], outcomes[true]); diff != "" {
		t.Errorf("the end with kills (+) differs from that without (-):\n%s", diff)
	}
}

// TestAPIServerOutage: the API server falls silent, for a time in which a
// healthy job must not be touched, and in which a host dies.
func TestAPIServerOutage(t *testing.T) {
	const outage = 75 * time.Second // all hosts are thought silent after 50 s
	e := newEnv(t)
	e.start(t, nil)
	newJob(t, e)
	before := e.incarnations(t)
	silence := func(d time.Duration) {
		t.Helper()
		thaw, err := e.Freeze("kube-apiserver")
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(d):
		case <-t.Context().Done():
		}
		if err := thaw(); err != nil {
			t.Fatal(err)
		}
	}
	silence(outage)
	eventually(t, patience, func(ctx context.Context) string { return e.leftovers(ctx) + e.unwell(ctx) })
	if diff := cmp.Diff(before, e.incarnations(t)); diff != "" {
		t.Errorf("the outage alone cost pods (-before +after):\n%s", diff)
	}

	// What was struck before the outage is repaired after it.
	dead := before[v1.WorkerReplicatedJob+"-0"]
	f := disruptions[0]
	strike := f.strike
	f.strike = func(ctx context.Context, e *env, v *victim) error {
		if err := strike(ctx, e, v); err != nil {
			return err
		}
		silence(outage)
		return nil
	}
	f.suffer(t, e, 0)
	want, after := before, e.incarnations(t)
	if cmp.Equal(dead, after[v1.WorkerReplicatedJob+"-0"]) {
		t.Error("slice 0 was not replaced")
	}
	want[v1.WorkerReplicatedJob+"-0"] = after[v1.WorkerReplicatedJob+"-0"]
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("more than slice 0 was touched (-want +got):\n%s", diff)
	}
	if got := e.outcome(t); got.Restarts != 0 || got.Charged != 0 || got.Slices[0] != (sliceOutcome{Replaced: 1}) {
		t.Errorf("the end is %+v", got)
	}
}

// incarnations are the UIDs of the job's pods, by slice.
func (e *env) incarnations(t *testing.T) map[string]map[types.UID]bool {
	t.Helper()
	uids := map[string]map[types.UID]bool{}
	note := func(key string, pods []corev1.Pod, err error) {
		if err != nil {
			t.Fatal(err)
		}
		uids[key] = map[types.UID]bool{}
		for _, p := range pods {
			uids[key][p.UID] = true
		}
	}
	heads, err := e.pods(t.Context(), v1.HeadReplicatedJob, 0)
	note(v1.HeadReplicatedJob, heads, err)
	for i := range slicesOf {
		workers, err := e.pods(t.Context(), v1.WorkerReplicatedJob, i)
		note(fmt.Sprintf("%s-%d", v1.WorkerReplicatedJob, i), workers, err)
	}
	return uids
}
