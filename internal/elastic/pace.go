package elastic

import (
	"slices"
	"time"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/statuspatch"
)

const (
	// calm is how long a write waits for others that only tells how a start
	// goes on.
	calm = 5 * time.Second
	// firstPatience is how long a new job's status is left to the job's
	// controller, which writes it first: two first writes at once are one that
	// the API server refuses.
	firstPatience = 2 * time.Second
	// lookAgain is how often that is looked at.
	lookAgain = 250 * time.Millisecond
)

// tooEarly says whether the job's controller has yet to write its first
// status of a job, and is not late with it.
func (r *Reconciler) tooEarly(job *v1.PathwaysJob) bool {
	return job.Status.ObservedGeneration == 0 && r.clock.Since(job.CreationTimestamp.Time) < r.patience
}

// interval is the least time from the last patch of a job's status to that of
// a decision.
func interval(previous v1.PathwaysJobStatus, d plan.Decision) time.Duration {
	if len(d.Actions) == 0 && len(d.Events) == 0 && uneventful(previous.Repair) && uneventful(d.Repair) &&
		starting(previous.Slices) && starting(d.Slices) {
		return calm
	}
	return statuspatch.MinInterval
}

// starting says whether all slices are on their way to be Ready for the first
// time, and nothing is wrong with any.
func starting(list []v1.SliceStatus) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(s v1.SliceStatus) bool {
		return s.State != v1.SlicePending || s.Reason != ""
	})
}

func uneventful(repair *v1.RepairStatus) bool {
	return repair == nil || repair.Restart == nil && repair.Paused == nil
}
