package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pathways.domain/pathways-job/test/standin/internal/program"
	"pathways.domain/pathways-job/test/standin/internal/store"
	"pathways.domain/pathways-job/test/standin/internal/wire"
	"pathways.domain/pathways-job/test/standin/internal/worker"
	"pathways.domain/pathways-job/test/standin/report"
)

func TestTrainsToTheEnd(t *testing.T) {
	w := newWorld(t, 2, nil)
	got := w.train(nil).done()
	got.LongestStepMillis, got.Process = 0, ""
	want := report.Report{Steps: 100, Next: 100, FewestSlices: 2, MostSlices: 2, Done: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlannedInterruptionLosesNoStep(t *testing.T) {
	w := newWorld(t, 2, nil)
	r := w.train(nil)
	for i, slice := range []int{1, 0, 1} {
		r.reaches(10 + 20*i)
		w.suspend(slice)
		w.startSlice(slice)
	}
	got := r.done()
	if got.Repeated != 0 || len(got.Events) != 0 {
		t.Errorf("a program that is not elastic noticed the interruption: %s", got.Line())
	}
	if v := w.cluster().Violations; len(v) > 0 {
		t.Error(v)
	}
}

func TestKilledWorkerHasLostItsState(t *testing.T) {
	w := newWorld(t, 2, nil)
	r := w.train(func(c *program.Config) { c.Steps, c.Checkpoint = 100000, "gs://bucket/checkpoint" })
	r.reaches(15)
	w.each(1, kill)
	w.healthy(1)
	w.startSlice(1)
	w.healthy(2)
	// The program waits: slice 1 is healthy, but does not hold the state.
	stuck := r.step.Load()
	c := w.cluster().Slices[1].Workers[0]
	err := wire.Post(context.Background(), wire.NewClient(), c.Address, "/v1/op", wire.Op{Kind: wire.OpGet, Name: "state"}, nil)
	if wire.Code(err) != wire.DataLoss {
		t.Errorf("read the state of a worker whose predecessor was killed: %v", err)
	}
	if now := r.step.Load(); now > stuck {
		t.Errorf("the program went on from step %d to %d", stuck, now)
	}
	// A whole restart, from the checkpoint.
	r.kill()
	if _, err := r.end(); err == nil {
		t.Error("a killed program ended well")
	}
	w.stop()
	w.startHead()
	for s := range 2 {
		w.each(s, kill)
		w.startSlice(s)
	}
	w.healthy(2)
	got := w.train(func(c *program.Config) { c.Checkpoint = "gs://bucket/checkpoint" }).done()
	if got.First < 11 || got.Count(report.Resumed) != 1 {
		t.Errorf("the program did not resume from its checkpoint: %s", got.Line())
	}
}

func TestElasticProgramTrainsOnWithFewerSlices(t *testing.T) {
	w := newWorld(t, 3, func(w *world) { w.elastic = true })
	r := w.train(func(c *program.Config) { c.Steps, c.Minimum, c.Until = 100000, 1, "gs://bucket/enough" })
	r.reaches(20)
	w.each(1, kill)
	eventually(t, "slice 1 is down", func() bool { return !w.cluster().Slices[1].Healthy })
	r.reaches(int(r.step.Load()) + 20)
	w.startSlice(1)
	eventually(t, "training on all slices again", func() bool {
		address := w.cluster().Slices[1].Workers[0].Address
		return wire.Post(context.Background(), wire.NewClient(), address, "/v1/op", wire.Op{Kind: wire.OpGet, Name: "state"}, nil) == nil
	})
	r.reaches(int(r.step.Load()) + 20)
	w.enough()
	got := r.done()
	if got.FewestSlices != 2 || got.MostSlices != 3 {
		t.Errorf("trained on %d to %d slices", got.FewestSlices, got.MostSlices)
	}
	if got.MostRepeated > 5 {
		t.Errorf("%d steps were repeated, with a snapshot every 5", got.MostRepeated)
	}
	want := []string{report.SliceDown, report.Restored, report.ScaledUp}
	if diff := cmp.Diff(want, kinds(got)); diff != "" {
		t.Error(diff)
	}
}

func TestElasticProgramWithoutMinimumWaitsForAllSlices(t *testing.T) {
	w := newWorld(t, 2, func(w *world) { w.elastic = true })
	r := w.train(nil)
	r.reaches(20)
	w.each(0, kill)
	w.startSlice(0)
	got := r.done()
	if got.FewestSlices != 2 || got.Count(report.Restored) == 0 {
		t.Errorf("pause and resume: %s", got.Line())
	}
}

func TestElasticProgramFailsWithItsLastSnapshot(t *testing.T) {
	w := newWorld(t, 2, func(w *world) { w.elastic = true })
	r := w.train(func(c *program.Config) { c.Steps, c.Minimum = 100000, 1 })
	r.reaches(20)
	for s := range 2 {
		w.each(s, kill)
	}
	for s := range 2 {
		w.startSlice(s)
	}
	got, err := r.end()
	if err == nil || !strings.Contains(err.Error(), "no slice holds a snapshot") {
		t.Errorf("%v: %s", err, got.Line())
	}
}

func TestGracePeriodDecidesWhatIsSaved(t *testing.T) {
	w := newWorld(t, 2, nil)
	r := w.train(func(c *program.Config) { c.Steps = 100000 })
	r.reaches(5)
	epoch := w.cluster().Epoch
	object := func(slice string) error {
		var v any
		return store.NewClient(w.store).Read(context.Background(), "gs://bucket/scratch/suspended/"+epoch+"/"+slice+"-0.json", &v)
	}
	w.suspend(0)
	if err := object("0"); err != nil {
		t.Errorf("state of a worker that had the time: %v", err)
	}
	// SIGKILL comes before the write is through.
	w.objects.SetWriteDelay("bucket", time.Hour)
	for i := range workers {
		w.workers[[2]int{1, i}].terminate()
	}
	eventually(t, "slice 1 is being suspended", func() bool { return strings.Contains(w.cluster().Slices[1].Why, "being suspended") })
	w.each(1, kill)
	if err := object("1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("state of a worker that had no time: %v", err)
	}
}

func TestWorkersEndWithTheirClient(t *testing.T) {
	w := newWorld(t, 1, nil)
	for range 2 {
		w.train(nil).done()
		for i := range workers {
			if err := w.ended(0, i); err == nil || !strings.Contains(err.Error(), "the client disconnected") {
				t.Errorf("worker %d ended with %v", i, err)
			}
		}
		w.startSlice(0)
		w.healthy(1)
	}
}

func TestSecondClientHasToWait(t *testing.T) {
	w := newWorld(t, 1, nil)
	r := w.train(func(c *program.Config) { c.Steps = 100000 })
	r.reaches(1)
	err := wire.Post(context.Background(), wire.NewClient(), w.proxy, "/v1/session", wire.Empty{}, nil)
	if err == nil || !strings.Contains(err.Error(), "another client") {
		t.Error(err)
	}
}

func TestTwoLivingWorkersOfOneIdentityAreNoticed(t *testing.T) {
	w := newWorld(t, 1, nil)
	first := w.workers[[2]int{0, 0}]
	w.startWorker(0, 0)
	if err := <-first.ended; wire.Code(errors.Unwrap(err)) != wire.Aborted {
		t.Errorf("the first ended with %v", err)
	}
	if v := w.cluster().Violations; len(v) != 1 {
		t.Errorf("violations: %v", v)
	}
}

func TestStepsThatAreLostOrDoubledShow(t *testing.T) {
	for name, op := range map[string]wire.Op{
		"doubled": {Kind: wire.OpStep, Name: "state", Step: 20},
		"lost":    {Kind: wire.OpPut, Name: "state", Step: 19, Values: []string{"an", "older one"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			r := w.train(nil)
			r.reaches(20)
			address := w.cluster().Slices[0].Workers[1].Address
			if err := wire.Post(context.Background(), wire.NewClient(), address, "/v1/op", op, nil); err != nil {
				t.Fatal(err)
			}
			if got, err := r.end(); err == nil || len(got.Wrong) == 0 {
				t.Errorf("nobody noticed: %s", got.Line())
			}
		})
	}
}

func TestCheckpointsWhenToldToEnd(t *testing.T) {
	w := newWorld(t, 1, nil)
	checkpointing := func(c *program.Config) {
		c.Checkpoint, c.CheckpointInterval, c.OnSigterm = "gs://bucket/checkpoint", 1000, "checkpoint"
	}
	r := w.train(checkpointing)
	r.reaches(20)
	r.terminate()
	first, err := r.end()
	if err != nil || first.Done {
		t.Fatalf("told to end: %v, %s", err, first.Line())
	}
	for i := range workers {
		_ = w.ended(0, i) // With their client, as another test shows.
	}
	w.startSlice(0)
	second := w.train(checkpointing).done()
	if second.First != first.Next {
		t.Errorf("the first process stopped before step %d, the second began with %d", first.Next, second.First)
	}
}

func TestTrainsUntilItIsTold(t *testing.T) {
	w := newWorld(t, 1, nil)
	r := w.train(func(c *program.Config) { c.Steps, c.Until = 100000, "gs://bucket/enough" })
	r.reaches(20)
	w.enough()
	if got := r.done(); got.Next < 20 || got.Next == 100000 {
		t.Errorf("ended before step %d", got.Next)
	}
}

func TestColocatedPython(t *testing.T) {
	python := func(c *program.Config) { c.Python = true }
	w := newWorld(t, 1, func(w *world) { w.sidecar = startSidecar(t) })
	r := w.train(python)
	r.reaches(10)
	epoch := w.cluster().Epoch
	w.suspend(0)
	var v any
	err := store.NewClient(w.store).Read(context.Background(), "gs://bucket/scratch/suspended/"+epoch+"/0-0.json", &v)
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("state that cannot be saved was saved: %v", err)
	}
	if _, err := newWorld(t, 1, nil).train(python).end(); wire.Code(err) == "" || !strings.Contains(err.Error(), wire.FailedPrecondition) {
		t.Errorf("colocated Python without the proxy's flag: %v", err)
	}
}

func TestReportSurvivesTheLog(t *testing.T) {
	want := report.Report{Process: "a", Steps: 3, Events: []report.Event{{Kind: report.Restored, Step: 1, Slices: []int{0}}}}
	got, err := report.FromLog("step 1\n" + report.Report{}.Line() + "\n" + want.Line() + "\nbye\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := report.FromLog("step 1\n"); err == nil {
		t.Error("a report out of nothing")
	}
}

func TestTrainDependsOnAllItsInputs(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range []string{worker.Train("a", 1, 1), worker.Train("b", 1, 1), worker.Train("a", 2, 1), worker.Train("a", 1, 2)} {
		seen[v] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d different values of 4", len(seen))
	}
}
