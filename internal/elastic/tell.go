package elastic

import (
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
)

// maxNote is the longest note of an event that the API server takes, in bytes.
const maxNote = 1024

// tell emits the decision's events and counts it. Called only after the
// status that they report was written, so that none is told twice.
func (r *Reconciler) tell(job *v1.PathwaysJob, before v1.PathwaysJobStatus, d plan.Decision) {
	for _, e := range d.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(job, related(job, e.Slice), kind, e.Reason, "Repair", "%s", clip(e.Message, maxNote))
		switch e.Reason {
		case plan.EventSliceResumed, plan.EventSliceHotSwapped, plan.EventSliceRestarted:
			r.metrics.Recovered(e.Cause, e.Down)
		case plan.EventJobRestarting, plan.EventHeadDisrupted:
			r.metrics.Restarted(e.Cause, e.Charged)
		}
	}
	old := map[int32]v1.SliceStatus{}
	for _, s := range before.Slices {
		old[ptr.Deref(s.Index, 0)] = s
	}
	for _, s := range d.Slices {
		was := old[ptr.Deref(s.Index, 0)]
		if ptr.Deref(s.Replacements, 0) > ptr.Deref(was.Replacements, 0) {
			r.metrics.Replaced(s.Reason)
		}
		r.metrics.Charged(v1.ReasonWorkerFailed, int(ptr.Deref(s.Restarts, 0)-ptr.Deref(was.Restarts, 0)))
	}
}

// related is the child Job of the slice that an event is about. Events of one
// object, reason and related object are counted as one, with the first's words.
func related(job *v1.PathwaysJob, slice int32) runtime.Object {
	if slice == plan.JobLevel {
		return nil
	}
	return &corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job",
		Namespace: job.Namespace, Name: fmt.Sprintf("%s-%s-%d", job.Name, v1.WorkerReplicatedJob, slice),
	}
}

// clip shortens s to at most n bytes, on the border of a character.
func clip(s string, n int) string {
	const dots = "..."
	if len(s) <= n {
		return s
	}
	cut := n - len(dots)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + dots
}

// moveTime is how long a voluntary move blocks others on pools of its shape
// by itself; from then on the job's status tells.
const moveTime = 30 * time.Second

// moves keeps two jobs from beginning a voluntary move on pools of the same
// shape at once, before the status of the first can be seen in the cache.
type moves struct {
	mu      sync.Mutex
	byShape map[string]move
}

type move struct {
	job types.UID
	at  time.Time
}

func newMoves() *moves { return &moves{byShape: map[string]move{}} }

// heldByOther says whether another job has just begun a move on the shape.
func (m *moves) heldByOther(shape string, job types.UID, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	held, ok := m.byShape[shape]
	return ok && held.job != job && now.Sub(held.at) < moveTime
}

// claim begins a move on the shape; false if another job has just begun one.
func (m *moves) claim(shape string, job types.UID, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held, ok := m.byShape[shape]; ok && held.job != job && now.Sub(held.at) < moveTime {
		return false
	}
	m.byShape[shape] = move{job: job, at: now}
	return true
}
