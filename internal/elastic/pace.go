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
	// goes on in which nothing is wrong.
	calm = 2 * time.Minute
	// calmObstructed is the same where the start waits for something: its
	// words are read, but they change with every pool that other jobs take.
	calmObstructed = 10 * time.Second
)

// interval is the least time from the last patch of a job's status to that of
// a decision.
func interval(previous v1.PathwaysJobStatus, d plan.Decision, obstructed bool) time.Duration {
	if len(d.Actions) == 0 && len(d.Events) == 0 && uneventful(previous.Repair) && uneventful(d.Repair) &&
		starting(previous.Slices) && slices.EqualFunc(previous.Slices, d.Slices, sameReason) && starting(d.Slices) {
		if obstructed {
			return calmObstructed
		}
		return calm
	}
	return statuspatch.MinInterval
}

// starting says whether all slices are on their way to be Ready for the first
// time, and nothing is wrong with any but that it waits for a pool.
func starting(list []v1.SliceStatus) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(s v1.SliceStatus) bool {
		return s.State != v1.SlicePending || s.Reason != "" && s.Reason != v1.ReasonNoSlicePool
	})
}

func sameReason(a, b v1.SliceStatus) bool { return a.Reason == b.Reason }

func uneventful(repair *v1.RepairStatus) bool {
	return repair == nil || repair.Restart == nil && repair.Paused == nil
}
