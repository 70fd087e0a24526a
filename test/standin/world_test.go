package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/manager"
	"pathways.domain/pathways-job/test/standin/internal/program"
	"pathways.domain/pathways-job/test/standin/internal/proxy"
	"pathways.domain/pathways-job/test/standin/internal/sidecar"
	"pathways.domain/pathways-job/test/standin/internal/store"
	"pathways.domain/pathways-job/test/standin/internal/wire"
	"pathways.domain/pathways-job/test/standin/internal/worker"
	"pathways.domain/pathways-job/test/standin/report"
)

const (
	beat    = 20 * time.Millisecond
	timeout = 3 * time.Second // longer than a busy machine lets anybody wait
	workers = 2
)

func TestMain(m *testing.M) {
	if os.Getenv("STANDIN_LOG") == "" {
		log.SetOutput(io.Discard)
	}
	os.Exit(m.Run())
}

// world is a whole workload on loopback: one process's goroutines play all
// its containers.
type world struct {
	t       *testing.T
	slices  int
	elastic bool
	sidecar string
	scratch string
	objects *store.Server
	store   string
	manager string
	proxy   string
	stop    context.CancelFunc // of manager and proxy
	workers map[[2]int]*container
	count   int
}

// container is a worker process.
type container struct {
	kill, terminate context.CancelFunc
	ended           chan error
}

func newWorld(t *testing.T, slices int, change func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, slices: slices, scratch: "gs://bucket/scratch",
		objects: store.NewServer(), workers: map[[2]int]*container{},
	}
	if change != nil {
		change(w)
	}
	server := httptest.NewServer(w.objects.Handler())
	t.Cleanup(server.Close)
	w.store = server.URL
	w.startHead()
	for s := range slices {
		w.startSlice(s)
	}
	w.healthy(slices)
	return w
}

// startHead starts resource manager and proxy, anew if they ran.
func (w *world) startHead() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	w.t.Cleanup(cancel)
	listeners, err := wire.Listen(0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.count++
	m := manager.New(manager.Config{NumSlices: w.slices, WorkersPerSlice: workers, Timeout: timeout}, fmt.Sprint("rm", w.count))
	go func() { _ = m.ServeOn(ctx, listeners[0]) }()
	w.manager = local(wire.Port(listeners[0]))
	p := proxy.New(proxy.Config{
		Manager: w.manager, Elastic: w.elastic, Sidecar: w.sidecar != "", Beat: beat, Timeout: timeout,
	}, fmt.Sprint("proxy", w.count))
	go func() { _ = p.ServeOn(ctx, listeners[1]) }()
	w.proxy = local(wire.Port(listeners[1]))
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func (w *world) startSlice(slice int) {
	for i := range workers {
		w.startWorker(slice, i)
	}
}

func (w *world) startWorker(slice, index int) {
	ctx, kill := context.WithCancel(context.Background())
	terminated, terminate := context.WithCancel(context.Background())
	w.t.Cleanup(kill)
	w.t.Cleanup(terminate)
	c := &container{kill: kill, terminate: terminate, ended: make(chan error, 1)}
	w.count++
	process := worker.New(worker.Config{
		Manager: w.manager, Scratch: w.scratch, Emulator: w.store, Sidecar: w.sidecar,
		Slice: slice, NumSlices: w.slices, Worker: index, Beat: beat, Patience: 2 * timeout,
	}, fmt.Sprintf("worker%d", w.count))
	go func() { c.ended <- process.Run(ctx, terminated) }()
	w.workers[[2]int{slice, index}] = c
}

// each does something to all workers of a slice and returns how they ended.
func (w *world) each(slice int, do func(*container)) []error {
	w.t.Helper()
	var errs []error
	for i := range workers {
		do(w.workers[[2]int{slice, i}])
	}
	for i := range workers {
		errs = append(errs, w.ended(slice, i))
	}
	return errs
}

func (w *world) ended(slice, index int) error {
	w.t.Helper()
	select {
	case err := <-w.workers[[2]int{slice, index}].ended:
		return err
	case <-time.After(time.Minute):
		w.t.Fatalf("worker %d of slice %d did not end", index, slice)
		return nil
	}
}

func kill(c *container)      { c.kill() }
func terminate(c *container) { c.terminate() }

// suspend stops a slice with its grace period.
func (w *world) suspend(slice int) {
	w.t.Helper()
	for _, err := range w.each(slice, terminate) {
		if !errors.Is(err, worker.ErrSuspended) {
			w.t.Fatalf("a worker of slice %d ended with %v", slice, err)
		}
	}
}

func (w *world) cluster() wire.Cluster {
	var c wire.Cluster
	_ = wire.Get(context.Background(), wire.NewClient(), w.manager, "/v1/cluster", &c)
	return c
}

// healthy waits until exactly n slices are.
func (w *world) healthy(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d healthy slices", n), func() bool {
		count := 0
		for _, s := range w.cluster().Slices {
			if s.Healthy {
				count++
			}
		}
		return count == n
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // until the deadline
	}
}

// run is a program that runs.
type run struct {
	t         *testing.T
	step      atomic.Int64
	terminate context.CancelFunc
	kill      context.CancelFunc
	result    chan outcome
}

type outcome struct {
	report report.Report
	err    error
}

func (w *world) train(change func(*program.Config)) *run {
	config := program.Config{
		Target: "grpc://" + w.proxy, Emulator: w.store, Steps: 100, StepTime: 2 * time.Millisecond, Elastic: w.elastic,
		SnapshotInterval: 5, Poll: beat, Timeout: 20 * time.Second, CheckpointInterval: 10, OnSigterm: "exit", Beat: beat,
	}
	if change != nil {
		change(&config)
	}
	r := &run{t: w.t, result: make(chan outcome, 1)}
	r.step.Store(-1)
	config.Progress = func(step int) { r.step.Store(int64(step)) }
	var ctx, terminated context.Context
	ctx, r.kill = context.WithCancel(context.Background())
	terminated, r.terminate = context.WithCancel(context.Background())
	w.t.Cleanup(r.kill)
	w.t.Cleanup(r.terminate)
	w.count++
	name := fmt.Sprint("process", w.count)
	go func() {
		result, err := program.Run(ctx, terminated, config, name)
		r.result <- outcome{result, err}
	}()
	return r
}

// enough ends programs that train until gs://bucket/enough is there.
func (w *world) enough() {
	w.t.Helper()
	if err := store.NewClient(w.store).Write(context.Background(), "gs://bucket/enough", true); err != nil {
		w.t.Fatal(err)
	}
}

func (r *run) reaches(step int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("step %d", step), func() bool { return r.step.Load() >= int64(step) })
}

func (r *run) end() (report.Report, error) {
	r.t.Helper()
	select {
	case o := <-r.result:
		return o.report, o.err
	case <-time.After(time.Minute):
		r.t.Fatalf("the program did not end; it is at step %d", r.step.Load())
		return report.Report{}, nil
	}
}

// done expects the program to have done all its steps rightly.
func (r *run) done() report.Report {
	r.t.Helper()
	result, err := r.end()
	if err != nil || !result.Done || len(result.Wrong) > 0 {
		r.t.Fatalf("the program ended with %v: %s", err, result.Line())
	}
	return result
}

func startSidecar(t *testing.T) string {
	t.Helper()
	listeners, err := wire.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	address := local(wire.Port(listeners[0]))
	if err := listeners[0].Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = sidecar.Serve(ctx, address) }()
	return address
}

func kinds(r report.Report) []string {
	var out []string
	for _, e := range r.Events {
		if !slices.Contains(out, e.Kind) {
			out = append(out, e.Kind)
		}
	}
	return out
}
