package worker

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/store"
	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// Worker is one worker process.
type Worker struct {
	config      Config
	incarnation string
	client      *http.Client
	memory      memory
	epoch       string
	draining    atomic.Bool
	gone        atomic.Bool
	python      atomic.Bool
}

// New makes a worker; incarnation tells it from its successors.
func New(config Config, incarnation string) *Worker {
	return &Worker{
		config:      config,
		incarnation: incarnation,
		client:      wire.NewClient(),
		memory:      memory{Buffers: map[string]wire.Buffer{}},
	}
}

// ErrSuspended is what Run returns after the worker was told to go.
var ErrSuspended = errors.New("suspended")

// Run serves until terminate ends, and then saves the worker's state and
// returns ErrSuspended; or until its client or the resource manager goes. If
// ctx ends, it stops at once and saves nothing, like a process that is
// killed.
func (w *Worker) Run(ctx, terminate context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listeners, err := wire.Listen(append([]int{w.config.Port}, w.config.OtherPorts...)...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	wire.Handle(mux, "POST /v1/op", w.op)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	var ports []int
	for _, l := range listeners {
		ports = append(ports, wire.Port(l))
		go func() { _ = server.Serve(l) }() // Ends by Close.
	}
	if err := w.register(ctx, terminate, ports); err != nil {
		return err
	}
	beating, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(terminate, stop)()
	// No heartbeat is on its way once beat has returned.
	if err := w.beat(beating); terminate.Err() == nil || ctx.Err() != nil {
		return err
	}
	return w.suspend(ctx)
}

// register tries until the resource manager takes the worker; then it reads
// back what a predecessor saved.
func (w *Worker) register(ctx, terminate context.Context, ports []int) error {
	in := wire.Register{
		Slice: w.config.Slice, Worker: w.config.Worker, NumSlices: w.config.NumSlices,
		Incarnation: w.incarnation, Port: ports[0], Ports: ports, Megascale: w.config.Megascale,
	}
	var out wire.Registered
	for last := ""; ; {
		err := wire.Post(ctx, w.client, w.config.Manager, "/v1/register", in, &out)
		if err == nil {
			break
		}
		if wire.Code(err) == wire.InvalidArgument {
			return fmt.Errorf("register: %w", err)
		}
		if text := err.Error(); text != last {
			log.Printf("waiting for the resource manager: %v", err)
			last = text
		}
		if err := w.pause(ctx, terminate); err != nil {
			return err
		}
	}
	w.epoch = out.Epoch
	log.Printf("slice %d worker %d (%s) registered with %s, epoch %s", in.Slice, in.Worker, w.incarnation, w.config.Manager, w.epoch)
	for {
		err := w.load(ctx)
		if err == nil {
			return nil
		}
		log.Printf("read back the state: %v", err)
		if err := w.pause(ctx, terminate); err != nil {
			return err
		}
	}
}

func (w *Worker) pause(ctx, terminate context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-terminate.Done():
		return ErrSuspended
	case <-time.After(w.config.Beat):
		return nil
	}
}

// beat sends heartbeats. It returns when the worker has to end; none is on
// its way then, which could arrive after a successor has registered.
func (w *Worker) beat(ctx context.Context) error {
	heard := time.Now()
	for {
		out, err := w.say(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case wire.Code(err) == wire.Aborted:
			return fmt.Errorf("the resource manager does not know this worker: %w", err)
		case err != nil:
			if time.Since(heard) > w.config.Patience {
				return fmt.Errorf("the resource manager has been silent for %s: %w", w.config.Patience, err)
			}
		case out.Epoch != w.epoch:
			if !w.draining.Load() {
				return fmt.Errorf("the client disconnected (epoch %s is over, %s began)", w.epoch, out.Epoch)
			}
		default:
			heard = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.config.Beat):
		}
	}
}

// say sends one heartbeat, unless ctx has ended, and waits for the answer.
func (w *Worker) say(ctx context.Context) (wire.Registered, error) {
	if err := ctx.Err(); err != nil {
		return wire.Registered{}, err
	}
	beat := wire.Heartbeat{
		Slice: w.config.Slice, Worker: w.config.Worker, Incarnation: w.incarnation, Loaded: true,
		Draining: w.draining.Load(), Gone: w.gone.Load(),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	var out wire.Registered
	err := wire.Post(ctx, w.client, w.config.Manager, "/v1/heartbeat", beat, &out)
	return out, err
}

func (w *Worker) op(ctx context.Context, _ string, op wire.Op) (wire.Buffer, error) {
	if op.Kind == wire.OpPython {
		return w.runPython(ctx, op)
	}
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	if w.draining.Load() {
		return wire.Buffer{}, wire.Errorf(wire.Unavailable, "worker %d is being suspended", w.config.Worker)
	}
	if op.Kind == wire.OpPing {
		return wire.Buffer{}, nil
	}
	return w.memory.apply(op, w.config.Worker)
}

// runPython hands the operation to the sidecar. Its state cannot be saved.
func (w *Worker) runPython(ctx context.Context, op wire.Op) (wire.Buffer, error) {
	w.python.Store(true)
	var out wire.Buffer
	if err := wire.Post(ctx, w.client, w.config.Sidecar, "/v1/run", op, &out); err != nil {
		return out, wire.Errorf(wire.Unavailable, "the colocated Python sidecar at %s: %v", w.config.Sidecar, err)
	}
	return out, nil
}

// where names the object that holds the suspended state of this worker's
// index in this client session.
func (w *Worker) where() string {
	return fmt.Sprintf("%s/suspended/%s/%d-%d.json", w.config.Scratch, w.epoch, w.config.Slice, w.config.Worker)
}

// load reads the state that a predecessor with the same index saved, and
// removes it: it is of no use to a later one.
func (w *Worker) load(ctx context.Context) error {
	if w.config.Scratch == "" || w.config.Emulator == "" {
		return nil
	}
	objects := store.NewClient(w.config.Emulator)
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	err := objects.Read(ctx, w.where(), &w.memory)
	if errors.Is(err, store.ErrNotFound) {
		log.Printf("no suspended state at %s: starting empty", w.where())
		return nil
	}
	if err != nil {
		return err
	}
	log.Printf("RESUMED from %s: %v", w.where(), w.memory.Buffers)
	return objects.Delete(ctx, w.where())
}

// suspend saves the state and says goodbye.
func (w *Worker) suspend(ctx context.Context) error {
	w.draining.Store(true)
	if _, err := w.say(ctx); err != nil {
		log.Printf("tell the resource manager: %v", err)
	}
	began := time.Now()
	switch err := w.save(ctx); {
	case errors.Is(err, errEmpty):
		log.Print(err)
	case err != nil:
		log.Printf("STATE LOST: %v", err)
	default:
		log.Printf("SUSPENDED to %s in %s", w.where(), time.Since(began).Round(time.Millisecond))
	}
	w.gone.Store(true)
	if _, err := w.say(ctx); err != nil {
		log.Printf("say goodbye to the resource manager: %v", err)
	}
	return ErrSuspended
}

var errEmpty = errors.New("nothing to save: no client has stored anything here")

func (w *Worker) save(ctx context.Context) error {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	switch {
	case len(w.memory.Buffers) == 0:
		return errEmpty
	case w.python.Load():
		return errors.New("colocated Python has run here; its state cannot be saved")
	case w.config.Scratch == "":
		return errors.New("no --gcs_scratch_location")
	case w.config.Emulator == "":
		return errors.New("no STORAGE_EMULATOR_HOST, and this is not Google Cloud")
	}
	log.Printf("SIGTERM: saving to %s", w.where())
	return store.NewClient(w.config.Emulator).Write(ctx, w.where(), &w.memory)
}
