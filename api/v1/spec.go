package v1

// MaxSlices is the maximum of numSlices. An object that is older than this
// bound may have more.
const MaxSlices = 2048

// MissingSlices is how many slices of an elastic job may be missing:
// elasticSlices, which counts as numSlices where it is more. It is 0 for a job
// that is not elastic.
func (s *PathwaysJobSpec) MissingSlices() int32 {
	if s.Controller.ElasticSlices == nil || len(s.Workers) == 0 {
		return 0
	}
	return max(0, min(*s.Controller.ElasticSlices, s.Workers[0].NumSlices))
}
