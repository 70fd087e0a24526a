// Package program is the training program of the stand-in: a client that
// trains a deterministic sequence through the proxy, and says what came out.
package program

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/flags"
	"pathways.domain/pathways-job/test/standin/internal/store"
	"pathways.domain/pathways-job/test/standin/internal/wire"
	"pathways.domain/pathways-job/test/standin/internal/worker"
	"pathways.domain/pathways-job/test/standin/report"
)

// What the program does when it is told to end (--on_sigterm).
const (
	sigtermExit       = "exit"
	sigtermCheckpoint = "checkpoint"
)

// Config is the user's own: the operator sets only the JAX variables.
type Config struct {
	Target, Emulator string
	// Steps to train, each followed by a pause of StepTime.
	Steps    int
	StepTime time.Duration
	// Elastic runs the elastic loop; Minimum slices are needed (0: all), Poll
	// is the time between two looks at the slices, Timeout how long to wait
	// for the minimum; a snapshot is taken every SnapshotInterval steps.
	Elastic                   bool
	Minimum, SnapshotInterval int
	Poll, Timeout             time.Duration
	// Checkpoint is a gs:// object, written every CheckpointInterval steps.
	Checkpoint         string
	CheckpointInterval int
	// Until is a gs:// object: when it is there, the step at hand is the last.
	Until string
	// OnSigterm is exit or checkpoint.
	OnSigterm string
	// Python runs colocated Python in each step.
	Python bool
	// Beat is the time between two signs of life.
	Beat time.Duration
	// Progress, where set, is told of each step that was done.
	Progress func(step int)
}

// Parse reads command line and environment.
func Parse(args []string, env *flags.Env) (Config, error) {
	set := flags.Known("steps", "step_time", "elastic", "minimum_slice_count", "snapshot_interval", "poll_interval",
		"timeout", "checkpoint", "checkpoint_interval", "on_sigterm", "colocated_python", "until")
	if err := set.Parse(args); err != nil {
		return Config{}, err
	}
	c := Config{
		Target:             env.Required("JAX_BACKEND_TARGET"),
		Emulator:           env.Get("STORAGE_EMULATOR_HOST"),
		Steps:              set.Int("steps", 100),
		Elastic:            set.Bool("elastic"),
		Minimum:            set.Int("minimum_slice_count", 0),
		SnapshotInterval:   max(1, set.Int("snapshot_interval", 5)),
		Checkpoint:         set.String("checkpoint", ""),
		CheckpointInterval: max(1, set.Int("checkpoint_interval", 10)),
		Until:              set.String("until", ""),
		OnSigterm:          set.String("on_sigterm", sigtermExit),
		Python:             set.Bool("colocated_python"),
		Beat:               time.Second,
	}
	env.Is("JAX_PLATFORMS", "proxy")
	errs := []error{set.Err(), env.Err()}
	for name, to := range map[string]*time.Duration{"step_time": &c.StepTime, "poll_interval": &c.Poll, "timeout": &c.Timeout} {
		otherwise := map[string]string{"step_time": "100ms", "poll_interval": "10s", "timeout": "300s"}[name]
		d, err := time.ParseDuration(set.String(name, otherwise))
		if err != nil {
			errs = append(errs, fmt.Errorf("flag --%s: %w", name, err))
		}
		*to = d
	}
	if c.OnSigterm != sigtermExit && c.OnSigterm != sigtermCheckpoint {
		errs = append(errs, fmt.Errorf("flag --on_sigterm is %q, not exit or checkpoint", c.OnSigterm))
	}
	return c, errors.Join(errs...)
}

// checkpoint is what the program stores in the object store.
type checkpoint struct {
	Step      int      `json:"step"`
	Values    []string `json:"values"`
	Processes []string `json:"processes"`
}

// Run trains until all steps are done or terminate ends. It returns a report
// in any case. A program that wrote its checkpoint because it was told to end
// has no error.
func Run(ctx, terminate context.Context, config Config, process string) (report.Report, error) {
	p := &program{
		config:    config,
		terminate: terminate,
		report:    report.Report{Process: process, Steps: config.Steps},
		objects:   store.NewClient(config.Emulator),
	}
	err := p.run(ctx)
	if err != nil {
		p.report.Error = err.Error()
	}
	return p.report, err
}

type program struct {
	config    Config
	terminate context.Context
	report    report.Report
	objects   *store.Client
	jax       *jax
	all       []int
	expected  [][]string // values by worker after each step, from step -1
	processes []string
	reached   int // the next step that was never done
}

var errTerminated = errors.New("told to end")

func (p *program) run(ctx context.Context) error {
	// A step that waits for a slice must not outlive SIGTERM for ever.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.terminate, func() {
		if p.config.OnSigterm == sigtermExit {
			cancel()
			return
		}
		time.AfterFunc(10*time.Second, cancel)
	})()
	var err error
	if p.jax, err = connect(ctx, p.config.Target, p.config.Beat); err != nil {
		return err
	}
	for s := range p.jax.session.NumSlices {
		p.all = append(p.all, s)
	}
	if p.config.Elastic {
		err = p.trainElastic(ctx)
	} else {
		err = p.train(ctx)
	}
	if errors.Is(err, errTerminated) && p.config.OnSigterm == sigtermCheckpoint {
		log.Printf("told to end, checkpoint of step %d written", p.report.Next-1)
		err = nil
	}
	p.report.Done = err == nil && p.report.Next == p.config.Steps
	if len(p.report.Wrong) > 0 {
		err = errors.Join(err, fmt.Errorf("%d wrong results, the first: %s", len(p.report.Wrong), p.report.Wrong[0]))
	}
	return errors.Join(err, p.jax.close())
}

// after returns the right values by worker after a step; step -1 is the start.
func (p *program) after(step int) []string {
	workers := p.jax.session.WorkersPerSlice
	if p.expected == nil {
		start := make([]string, workers)
		for w := range start {
			start[w] = fmt.Sprintf("start-%d", w)
		}
		p.expected = append(p.expected, start)
	}
	for len(p.expected) <= step+1 {
		last := p.expected[len(p.expected)-1]
		next := make([]string, workers)
		for w := range next {
			next[w] = worker.Train(last[w], len(p.expected)-1, w)
		}
		p.expected = append(p.expected, next)
	}
	return p.expected[step+1]
}

func (p *program) event(kind string, step int, slices []int, format string, args ...any) {
	e := report.Event{Kind: kind, Step: step, Slices: slices, Text: fmt.Sprintf(format, args...)}
	log.Printf("%s at step %d %v %s", e.Kind, e.Step, e.Slices, e.Text)
	p.report.Events = append(p.report.Events, e)
}

// begin returns the values to start from and the first step: those of the
// checkpoint, if there is one.
func (p *program) begin(ctx context.Context) ([]string, int, error) {
	if p.config.Checkpoint != "" {
		var c checkpoint
		err := p.objects.Read(ctx, p.config.Checkpoint, &c)
		if err == nil {
			p.event(report.Resumed, c.Step, nil, "from %s", p.config.Checkpoint)
			p.processes = c.Processes
			return c.Values, c.Step + 1, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, 0, err
		}
	}
	return p.after(-1), 0, nil
}

// save writes a checkpoint of the state after a step.
func (p *program) save(ctx context.Context, step, slice int) error {
	got, err := p.jax.run(ctx, wire.Op{Kind: wire.OpGet, Name: "state"}, []int{slice})
	if err != nil {
		return err
	}
	c := checkpoint{Step: step, Processes: append(append([]string(nil), p.processes...), p.report.Process)}
	for _, b := range got.Slices[slice] {
		c.Values = append(c.Values, b.Value)
	}
	if err := p.objects.Write(ctx, p.config.Checkpoint, c); err != nil {
		return err
	}
	p.event(report.Checkpointed, step, nil, "")
	return nil
}
