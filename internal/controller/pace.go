package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/statuspatch"
)

const (
	// calm is how long a change waits for others that is only one of words or
	// details, so that a start costs two status patches and not ten.
	calm = 10 * time.Second
	// calmStart is the same for how a start goes on in which nothing is wrong.
	calmStart = 2 * time.Minute
	// giveWay is how long the status of a job that starts well waits for the
	// JobSets of jobs that have none yet.
	giveWay = 500 * time.Millisecond
)

// every is how long after the last patch this one may be written. What is
// done after it waits with it.
func every(o *observation, next v1.PathwaysJobStatus) statuspatch.Option {
	switch {
	case !sameOutcome(o.previous, next), restartsAsNew(o):
		return statuspatch.Every(statuspatch.MinInterval)
	case startsWell(o.previous, next):
		return statuspatch.Every(calmStart)
	default:
		return statuspatch.Every(calm)
	}
}

// startsWell says whether all there is to tell is that the job starts.
func startsWell(previous, next v1.PathwaysJobStatus) bool {
	was := trueCondition(previous)
	return (was == "" || was == v1.ConditionPending) && reasonOf(next, v1.ConditionPending) == v1.ReasonStarting
}

// newcomers are new jobs that are queued for their first look. When hundreds
// are created at once, their JobSets come before words about those that have
// one. Safe for concurrent use.
type newcomers struct {
	mu   sync.Mutex
	jobs sets.Set[types.NamespacedName]
}

func newNewcomers() *newcomers { return &newcomers{jobs: sets.New[types.NamespacedName]()} }

func (n *newcomers) add(job types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs.Insert(job)
}

func (n *newcomers) drop(job types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs.Delete(job)
}

func (n *newcomers) any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.jobs.Len() > 0
}
