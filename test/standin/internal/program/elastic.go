package program

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// elasticManager keeps track of the slices of an elastic job, as the manager
// of the same name in pathwaysutils does.
type elasticManager struct {
	jax *jax
	// minimum number of healthy slices to train on; poll is the time between
	// two looks at the others.
	minimum int
	poll    time.Duration
	timeout time.Duration
	retries int
	// onLoss is told of each lost slice.
	onLoss func(slice int, err error)

	mu        sync.Mutex
	active    map[int]bool
	available map[int]bool // inactive slices that are healthy again
}

func (m *elasticManager) activeSlices() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.active))
}

// rejoin makes the slices that are healthy again active, and returns them.
func (m *elasticManager) rejoin() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	joined := slices.Sorted(maps.Keys(m.available))
	for _, s := range joined {
		m.active[s] = true
	}
	m.available = nil
	return joined
}

// retry runs fn on the healthy slices, and again after each loss of a slice.
// Any other error ends it.
func (m *elasticManager) retry(ctx context.Context, fn func(context.Context) error) error {
	for attempt := 0; ; attempt++ {
		if err := m.waitForSlices(ctx); err != nil {
			return err
		}
		attemptCtx, cancel := context.WithCancel(ctx)
		var monitor sync.WaitGroup
		monitor.Go(func() { m.monitor(attemptCtx) })
		err := fn(attemptCtx)
		cancel()
		monitor.Wait()
		var e *wire.Error
		if err == nil || !errors.As(err, &e) || e.Slice == nil {
			return err
		}
		m.onLoss(*e.Slice, err)
		if attempt >= m.retries {
			return fmt.Errorf("give up after %d attempts: %w", attempt+1, err)
		}
	}
}

// waitForSlices waits until enough slices are healthy and makes them active.
func (m *elasticManager) waitForSlices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	for {
		healthy := m.jax.healthy(ctx)
		if len(healthy) >= m.minimum {
			m.mu.Lock()
			m.active, m.available = healthy, nil
			m.mu.Unlock()
			log.Printf("active slices: %v", m.activeSlices())
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d healthy slices, have %d: %w", m.minimum, len(healthy), ctx.Err())
		case <-time.After(m.poll):
		}
	}
}

// monitor looks for inactive slices that are healthy again.
func (m *elasticManager) monitor(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.poll):
		}
		healthy := m.jax.healthy(ctx)
		m.mu.Lock()
		m.available = map[int]bool{}
		for s := range healthy {
			if !m.active[s] {
				m.available[s] = true
			}
		}
		m.mu.Unlock()
	}
}
