package v1_test

import (
	"testing"

	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

func TestMaxSlices(t *testing.T) {
	spec := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	maximum := spec.Properties["workers"].Items.Schema.Properties["numSlices"].Maximum
	if maximum == nil || *maximum != v1.MaxSlices {
		t.Errorf("the maximum of numSlices is %v, MaxSlices is %d", maximum, v1.MaxSlices)
	}
}

func TestMissingSlices(t *testing.T) {
	two := []v1.WorkerSpec{{NumSlices: 2}}
	tests := map[string]struct {
		workers []v1.WorkerSpec
		elastic *int32
		want    int32
	}{
		"not elastic":         {two, nil, 0},
		"none":                {two, ptr.To[int32](0), 0},
		"one":                 {two, ptr.To[int32](1), 1},
		"more than there are": {two, ptr.To[int32](3), 2},
		"below none":          {two, ptr.To[int32](-1), 0},
		"no workers":          {nil, ptr.To[int32](1), 0},
	}
	for name, tc := range tests {
		spec := v1.PathwaysJobSpec{Workers: tc.workers, Controller: v1.ControllerSpec{ElasticSlices: tc.elastic}}
		if got := spec.MissingSlices(); got != tc.want {
			t.Errorf("%s: %d may be missing, want %d", name, got, tc.want)
		}
	}
}
