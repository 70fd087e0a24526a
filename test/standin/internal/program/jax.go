package program

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// jax is the program's connection to the proxy.
type jax struct {
	host    string
	client  *http.Client
	session wire.Session
	ops     atomic.Int64
	stop    context.CancelFunc
}

// connect opens a session with the proxy at a JAX_BACKEND_TARGET such as
// grpc://head:29000, and tries until the proxy is there.
func connect(ctx context.Context, target string, beat time.Duration) (*jax, error) {
	host, ok := strings.CutPrefix(target, "grpc://")
	if !ok {
		return nil, fmt.Errorf("JAX_BACKEND_TARGET is %q, not grpc://host:port", target)
	}
	j := &jax{host: host, client: wire.NewClient()}
	for last := ""; ; {
		err := wire.Post(ctx, j.client, host, "/v1/session", wire.Empty{}, &j.session)
		if err == nil {
			break
		}
		if text := err.Error(); text != last {
			log.Printf("connect to %s: %v", target, err)
			last = text
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: %w", target, err)
		case <-time.After(beat):
		}
	}
	log.Printf("connected to %s: %d slices of %d workers, elastic %t",
		target, j.session.NumSlices, j.session.WorkersPerSlice, j.session.Elastic)
	var alive context.Context
	alive, j.stop = context.WithCancel(context.Background())
	go j.keepAlive(alive, beat)
	return j, nil
}

func (j *jax) keepAlive(ctx context.Context, beat time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(beat):
		}
		if err := wire.Post(ctx, j.client, j.host, "/v1/keepalive", j.session, nil); err != nil && ctx.Err() == nil {
			log.Printf("keep the session alive: %v", err)
		}
	}
}

// close ends the session; the workers end with it.
func (j *jax) close() error {
	j.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return wire.Post(ctx, j.client, j.host, "/v1/close", j.session, nil)
}

// run does one operation on slices.
func (j *jax) run(ctx context.Context, op wire.Op, slices []int) (wire.Results, error) {
	op.ID = fmt.Sprintf("%s/%d", j.session.ID, j.ops.Add(1))
	op.Session, op.Slices = j.session.ID, slices
	var out wire.Results
	err := wire.Post(ctx, j.client, j.host, "/v1/run", op, &out)
	return out, err
}

// healthy returns the slices that do a small piece of work now.
func (j *jax) healthy(ctx context.Context) map[int]bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	healthy := map[int]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for s := range j.session.NumSlices {
		wg.Go(func() {
			if _, err := j.run(ctx, wire.Op{Kind: wire.OpPing}, []int{s}); err == nil {
				mu.Lock()
				defer mu.Unlock()
				healthy[s] = true
			}
		})
	}
	wg.Wait()
	return healthy
}
