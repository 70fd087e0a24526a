package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// memory is a worker's HBM and pinned host memory: its shards by name, and
// the last operation, so that one that is sent twice takes effect once.
type memory struct {
	mu      sync.Mutex
	Buffers map[string]wire.Buffer `json:"buffers"`
	LastOp  string                 `json:"lastOp"`
	Last    wire.Buffer            `json:"last"`
}

// Train is the arithmetic of one training step: the next value depends on
// the last one, the step and the worker, so that a step that is lost, done
// twice or done in the wrong order changes all values after it.
func Train(value string, step, worker int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", value, step, worker))
	return hex.EncodeToString(sum[:8])
}

// apply does one operation. The caller holds the lock.
func (m *memory) apply(op wire.Op, worker int) (wire.Buffer, error) {
	if op.ID != "" && op.ID == m.LastOp {
		return m.Last, nil
	}
	result, err := m.run(op, worker)
	if err != nil {
		return wire.Buffer{}, err
	}
	m.LastOp, m.Last = op.ID, result
	return result, nil
}

func (m *memory) run(op wire.Op, worker int) (wire.Buffer, error) {
	read := func(name string) (wire.Buffer, error) {
		b, ok := m.Buffers[name]
		if !ok {
			return wire.Buffer{}, wire.Errorf(wire.DataLoss, "worker %d does not hold %q", worker, name)
		}
		return b, nil
	}
	switch op.Kind {
	case wire.OpPut:
		if worker >= len(op.Values) {
			return wire.Buffer{}, wire.Errorf(wire.InvalidArgument, "no value for worker %d of %d", worker, len(op.Values))
		}
		b := wire.Buffer{Step: op.Step, Value: op.Values[worker]}
		m.Buffers[op.Name] = b
		return b, nil
	case wire.OpStep:
		b, err := read(op.Name)
		if err != nil {
			return b, err
		}
		b = wire.Buffer{Step: op.Step, Value: Train(b.Value, op.Step, worker)}
		m.Buffers[op.Name] = b
		return b, nil
	case wire.OpCopy:
		b, err := read(op.From)
		if err == nil {
			m.Buffers[op.Name] = b
		}
		return b, err
	case wire.OpGet:
		return read(op.Name)
	}
	return wire.Buffer{}, wire.Errorf(wire.InvalidArgument, "unknown operation %q", op.Kind)
}
