package elastic

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
)

// exitKilled is the exit code of a container that SIGKILL ended.
const exitKilled = 137

// killedFor is how long a killed worker is remembered.
const killedFor = 10 * time.Minute

// killedWorkers remembers, by child Job, a worker that was killed because its
// grace period was over. Its pod tells for less than a second, before it is
// gone.
type killedWorkers struct {
	mu    sync.Mutex
	byJob map[types.UID]killedWorker
}

type killedWorker struct {
	plan.KilledWorker
	// until is when its grace period was over.
	until time.Time
}

func newKilledWorkers() *killedWorkers {
	return &killedWorkers{byJob: map[types.UID]killedWorker{}}
}

// see looks at a pod, as it is or as it was last.
func (k *killedWorkers) see(p *corev1.Pod) {
	job, worker := metav1.GetControllerOf(p), containerStatus(p, v1.ContainerWorker)
	if p.DeletionTimestamp == nil || job == nil || worker == nil {
		return
	}
	if end := worker.State.Terminated; end == nil || end.ExitCode != exitKilled || end.Reason == "OOMKilled" {
		return
	}
	facts := podFacts(p)
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.byJob[job.UID]; known {
		return
	}
	for uid, other := range k.byJob {
		if p.DeletionTimestamp.Sub(other.until) > killedFor {
			delete(k.byJob, uid)
		}
	}
	k.byJob[job.UID] = killedWorker{
		KilledWorker: plan.KilledWorker{JobUID: job.UID, Index: facts.Index, GraceSeconds: facts.GraceSeconds},
		until:        p.DeletionTimestamp.Time,
	}
}

// of returns the killed worker of a child Job, or nil.
func (k *killedWorkers) of(job types.UID) *plan.KilledWorker {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w, ok := k.byJob[job]; ok {
		return &w.KilledWorker
	}
	return nil
}
