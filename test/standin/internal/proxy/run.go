package proxy

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// run does one operation on all workers of the slices that it names.
func (p *Proxy) run(ctx context.Context, _ string, op wire.Op) (wire.Results, error) {
	if err := p.check(op.Session); err != nil {
		return wire.Results{}, err
	}
	if op.Kind == wire.OpPython && !p.config.Sidecar {
		return wire.Results{}, wire.Errorf(wire.FailedPrecondition, "colocated Python without --sidecar_name")
	}
	results := wire.Results{Slices: map[int][]wire.Buffer{}}
	errs := make([]error, len(op.Slices))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, slice := range op.Slices {
		wg.Go(func() {
			buffers, err := p.onSlice(ctx, slice, op)
			mu.Lock()
			defer mu.Unlock()
			results.Slices[slice], errs[i] = buffers, err
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return wire.Results{}, err
		}
	}
	return results, nil
}

// onSlice does the operation on one slice. Where the job is not elastic, it
// tries until the slice is there and holds its data, or the client goes.
func (p *Proxy) onSlice(ctx context.Context, slice int, op wire.Op) ([]wire.Buffer, error) {
	said := ""
	for {
		buffers, err := p.tryOnSlice(ctx, slice, op)
		if err == nil {
			if said != "" {
				log.Printf("slice %d is back", slice)
			}
			return buffers, nil
		}
		code := wire.Code(err)
		if p.config.Elastic || (code != wire.Unavailable && code != wire.DataLoss) {
			if op.Kind != wire.OpPing {
				log.Printf("%s on slice %d: %v", op.Kind, slice, err)
			}
			e := wire.Errorf(code, "slice %d: %v", slice, err)
			e.Slice = &slice
			return nil, e
		}
		if text := err.Error(); text != said {
			log.Printf("waiting for slice %d: %v", slice, err)
			said = text
		}
		wait(ctx, p.config.Beat/4)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := p.check(op.Session); err != nil {
			return nil, err
		}
	}
}

func (p *Proxy) tryOnSlice(ctx context.Context, slice int, op wire.Op) ([]wire.Buffer, error) {
	c, err := p.cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the resource manager: %w", err)
	}
	if slice < 0 || slice >= len(c.Slices) {
		return nil, wire.Errorf(wire.InvalidArgument, "there is no slice %d of %d", slice, len(c.Slices))
	}
	s := c.Slices[slice]
	if !s.Healthy {
		return nil, wire.Errorf(wire.Unavailable, "%s", s.Why)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	buffers, errs := make([]wire.Buffer, len(s.Workers)), make([]error, len(s.Workers))
	var wg sync.WaitGroup
	for i, w := range s.Workers {
		wg.Go(func() { errs[i] = wire.Post(ctx, p.client, w.Address, "/v1/op", op, &buffers[i]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return buffers, nil
}
