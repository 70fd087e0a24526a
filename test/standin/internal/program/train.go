package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/store"
	"pathways.domain/pathways-job/test/standin/internal/wire"
	"pathways.domain/pathways-job/test/standin/report"
)

// train is the loop of a program that knows nothing of failures.
func (p *program) train(ctx context.Context) error {
	values, first, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.start(first)
	if err := p.put(ctx, values, first-1, p.all); err != nil {
		return err
	}
	for step := first; step < p.config.Steps; step++ {
		if err := p.step(ctx, step, p.all); err != nil {
			return err
		}
		if err := p.checkpoint(ctx, step, p.all[0]); err != nil {
			return err
		}
	}
	return nil
}

// trainElastic is the loop that the Pathways documentation shows for elastic
// training: snapshots in memory, a new attempt with the surviving slices, and
// more slices as they return.
func (p *program) trainElastic(ctx context.Context) error {
	m := &elasticManager{
		jax: p.jax, minimum: p.config.Minimum, poll: p.config.Poll, timeout: p.config.Timeout, retries: 10,
		onLoss: func(slice int, err error) { p.event(report.SliceDown, p.report.Next, []int{slice}, "%v", err) },
	}
	if m.minimum == 0 {
		m.minimum = len(p.all)
	}
	snapshot := false
	values, first, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.start(first)
	return m.retry(ctx, func(ctx context.Context) error {
		step := first
		if snapshot {
			var err error
			if values, step, err = p.restore(ctx, m.activeSlices()); err != nil {
				return err
			}
		}
		if err := p.put(ctx, values, step-1, m.activeSlices()); err != nil {
			return err
		}
		for ; step < p.config.Steps; step++ {
			active := m.activeSlices()
			if err := p.step(ctx, step, active); err != nil {
				return err
			}
			if step%p.config.SnapshotInterval == 0 {
				if _, err := p.jax.run(ctx, wire.Op{Kind: wire.OpCopy, Name: "snapshot", From: "state"}, active); err != nil {
					return err
				}
				snapshot = true
			}
			if joined := m.rejoin(); len(joined) > 0 {
				now, err := p.read(ctx, "state", active[0])
				if err != nil {
					return err
				}
				if err := p.put(ctx, now.values, now.step, joined); err != nil {
					return err
				}
				p.event(report.ScaledUp, step, joined, "")
			}
			if err := p.checkpoint(ctx, step, active[0]); err != nil {
				return err
			}
		}
		return nil
	})
}

// start notes the first step of this process.
func (p *program) start(first int) {
	p.report.First, p.report.Next, p.reached = first, first, first
}

func (p *program) put(ctx context.Context, values []string, step int, slices []int) error {
	_, err := p.jax.run(ctx, wire.Op{Kind: wire.OpPut, Name: "state", Step: step, Values: values}, slices)
	return err
}

type array struct {
	step   int
	values []string
}

func (p *program) read(ctx context.Context, name string, slice int) (array, error) {
	got, err := p.jax.run(ctx, wire.Op{Kind: wire.OpGet, Name: name}, []int{slice})
	if err != nil {
		return array{}, err
	}
	var a array
	for i, b := range got.Slices[slice] {
		if i > 0 && b.Step != a.step {
			return array{}, wire.Errorf(wire.DataLoss, "%s of slice %d is torn: steps %d and %d", name, slice, a.step, b.Step)
		}
		a.step, a.values = b.Step, append(a.values, b.Value)
	}
	return a, nil
}

// restore reads the newest snapshot that an active slice still holds, and
// returns it with the step that follows.
func (p *program) restore(ctx context.Context, active []int) ([]string, int, error) {
	best := array{step: -2}
	var errs []error
	for _, slice := range active {
		a, err := p.read(ctx, "snapshot", slice)
		if wire.Code(err) == wire.Unavailable {
			return nil, 0, err
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if a.step > best.step {
			best = a
		}
	}
	if best.values == nil {
		// Not the loss of one slice any more: another attempt cannot help.
		return nil, 0, fmt.Errorf("no slice holds a snapshot any more: %v", errors.Join(errs...)) //nolint:errorlint // what wraps the loss of a slice is tried again
	}
	p.event(report.Restored, best.step, active, "")
	repeat := p.reached - best.step - 1
	p.report.MostRepeated = max(p.report.MostRepeated, repeat)
	return best.values, best.step + 1, nil
}

// step trains one step on slices, checks all results, and pauses.
func (p *program) step(ctx context.Context, step int, slices []int) error {
	if p.terminate.Err() != nil && p.config.OnSigterm == sigtermExit {
		return errTerminated
	}
	if step < p.reached {
		p.report.Repeated++
	}
	p.report.Next = step
	began := time.Now()
	got, err := p.jax.run(ctx, wire.Op{Kind: wire.OpStep, Name: "state", Step: step}, slices)
	if err != nil {
		return err
	}
	if p.config.Python {
		if _, err := p.jax.run(ctx, wire.Op{Kind: wire.OpPython, Step: step}, slices); err != nil {
			return err
		}
	}
	took := time.Since(began)
	p.report.LongestStepMillis = max(p.report.LongestStepMillis, took.Milliseconds())
	want := p.after(step)
	for slice, buffers := range got.Slices {
		for w, b := range buffers {
			if b.Value != want[w] {
				p.report.Wrong = append(p.report.Wrong, fmt.Sprintf("step %d, slice %d, worker %d: %s, not %s", step, slice, w, b.Value, want[w]))
			}
		}
	}
	if p.report.FewestSlices == 0 || len(slices) < p.report.FewestSlices {
		p.report.FewestSlices = len(slices)
	}
	p.report.MostSlices = max(p.report.MostSlices, len(slices))
	p.report.Next = step + 1
	p.reached = max(p.reached, step+1)
	if p.config.Progress != nil {
		p.config.Progress(step)
	}
	log.Printf("step %d on slices %v in %s", step, slices, took.Round(time.Millisecond))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.terminate.Done():
	case <-time.After(p.config.StepTime):
	}
	return p.lookForEnd(ctx, step)
}

// lookForEnd makes the step the last one, if the object that says so is there.
func (p *program) lookForEnd(ctx context.Context, step int) error {
	if p.config.Until == "" {
		return nil
	}
	var content json.RawMessage
	err := p.objects.Read(ctx, p.config.Until, &content)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		p.config.Steps = step + 1
		p.report.Steps = p.config.Steps
	}
	return err
}

// checkpoint writes one where it is due, and before the program ends because
// it was told to.
func (p *program) checkpoint(ctx context.Context, step, slice int) error {
	told := p.terminate.Err() != nil
	if p.config.Checkpoint != "" && (told || step%p.config.CheckpointInterval == 0) {
		if err := p.save(ctx, step, slice); err != nil {
			return err
		}
	}
	if told {
		return errTerminated
	}
	return nil
}
