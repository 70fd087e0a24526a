package statuspatch

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Projection returns one writer's part of a status, as a copy.
type Projection func(v1.PathwaysJobStatus) v1.PathwaysJobStatus

// elasticConditions are the conditions of the elastic sub-controller.
var elasticConditions = []string{v1.ConditionSlicesReady, v1.ConditionHealthy}

// controllerConditions are the conditions of the job's controller.
var controllerConditions = []string{
	v1.ConditionPending, v1.ConditionRunning, v1.ConditionSuspended, v1.ConditionCompleted, v1.ConditionFailed,
}

// ElasticPart is what the elastic sub-controller owns.
func ElasticPart(s v1.PathwaysJobStatus) v1.PathwaysJobStatus {
	part := v1.PathwaysJobStatus{
		Slices:       s.Slices,
		Repair:       s.Repair,
		ReadySlices:  s.ReadySlices,
		TotalSlices:  s.TotalSlices,
		SliceSummary: s.SliceSummary,
		History:      s.History,
		Conditions:   only(s.Conditions, elasticConditions),
	}
	return *part.DeepCopy()
}

// ControllerPart is what the job's controller owns: all but the elastic
// sub-controller's part, and conditions of its own only.
func ControllerPart(s v1.PathwaysJobStatus) v1.PathwaysJobStatus {
	part := s
	part.Slices, part.Repair, part.ReadySlices, part.TotalSlices, part.SliceSummary, part.History = nil, nil, nil, nil, "", nil
	part.Conditions = only(s.Conditions, controllerConditions)
	return *part.DeepCopy()
}

// only returns the conditions of the given types in the order of types, so
// that two lists compare whatever order the API server keeps.
func only(conditions []metav1.Condition, types []string) []metav1.Condition {
	var kept []metav1.Condition
	for _, t := range types {
		i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == t })
		if i >= 0 {
			kept = append(kept, conditions[i])
		}
	}
	return kept
}
