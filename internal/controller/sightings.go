package controller

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// sighting is what was seen of a job's newest head. It is kept because a
// status may have to wait, and the pod can be gone by then, or its kubelet
// have overwritten when it was deleted.
type sighting struct {
	head       types.UID
	disruption *v1.HeadDisruption
	// failure says which of its containers failed; empty if none is known to
	// have, but by a disruption.
	failure string
}

// sightings of all jobs. Safe for concurrent use.
type sightings struct {
	mu    sync.Mutex
	byJob map[types.UID]sighting
}

func newSightings() *sightings { return &sightings{byJob: map[types.UID]sighting{}} }

// follow adds what is seen of the head now, and puts all that is known into
// the observation.
func (s *sightings) follow(o *observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.byJob[o.job.UID]
	if o.head != nil {
		if last.head != o.head.UID {
			last = sighting{head: o.head.UID}
		}
		if reason := disrupted(o.head, o.main); reason != "" && last.disruption == nil {
			last.disruption = &v1.HeadDisruption{PodUID: o.head.UID, Reason: reason, Time: ptr.To(metav1.NewTime(o.now).Rfc3339Copy())}
		}
		// What ends when the pod is deleted is not what failed.
		words := headFailure(o)
		if words != "" && last.disruption == nil && (last.failure == "" || o.head.DeletionTimestamp.IsZero()) {
			last.failure = words
		}
		s.byJob[o.job.UID] = last
	}
	o.seen = last
}

// forget drops what is known of a job that is gone.
func (s *sightings) forget(job types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byJob, job)
}
