package elastic

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// Labels that JobSet and Job put on child Jobs and pods.
const (
	jobsetNameLabel      = jobsetv1alpha2.JobSetNameKey
	replicatedJobLabel   = "jobset.sigs.k8s.io/replicatedjob-name"
	jobIndexLabel        = jobsetv1alpha2.JobIndexKey
	restartAttemptLabel  = "jobset.sigs.k8s.io/restart-attempt"
	completionIndexLabel = batchv1.JobCompletionIndexAnnotation
)

// Indexes of the cache.
const (
	indexPodNode   = "elastic.nodeName"
	indexPodJobSet = "elastic.podJobSet"
	indexPodSlice  = "elastic.podSlice"
	indexJobJobSet = "elastic.jobJobSet"
	indexNodePool  = "elastic.nodePool"
	indexNodeFence = "elastic.fence"
	indexJobUID    = "elastic.uid"
	indexJobDown   = "elastic.down"

	// anyDown is the value of indexJobDown for jobs with slices that are not
	// Ready.
	anyDown = "true"
)

// indexes tells, for each index, what it is over and how to find its values.
var indexes = []struct {
	object client.Object
	name   string
	values func(client.Object) []string
}{
	{&corev1.Pod{}, indexPodNode, func(o client.Object) []string { return nonEmpty(o.(*corev1.Pod).Spec.NodeName) }},
	{&corev1.Pod{}, indexPodJobSet, func(o client.Object) []string { return nonEmpty(o.GetLabels()[jobsetNameLabel]) }},
	{&corev1.Pod{}, indexPodSlice, func(o client.Object) []string { return nonEmpty(sliceKey(o)) }},
	{&batchv1.Job{}, indexJobJobSet, func(o client.Object) []string { return nonEmpty(o.GetLabels()[jobsetNameLabel]) }},
	{&corev1.Node{}, indexNodePool, func(o client.Object) []string {
		if o.GetLabels()[tpu.LabelAccelerator] == "" {
			return nil
		}
		return nonEmpty(o.GetLabels()[tpu.LabelNodePool])
	}},
	{&corev1.Node{}, indexNodeFence, func(o client.Object) []string {
		if t := fenceOf(o.(*corev1.Node)); t != nil {
			return nonEmpty(t.Value)
		}
		return nil
	}},
	{&v1.PathwaysJob{}, indexJobUID, func(o client.Object) []string { return nonEmpty(string(o.GetUID())) }},
	{&v1.PathwaysJob{}, indexJobDown, func(o client.Object) []string {
		if job := o.(*v1.PathwaysJob); !finished(job) && anySliceDown(job) {
			return []string{anyDown}
		}
		return nil
	}},
}

// SetupIndexes adds the indexes that this package reads by to a cache. It
// must be called once, before the cache starts.
func SetupIndexes(ctx context.Context, i client.FieldIndexer) error {
	for _, index := range indexes {
		if err := i.IndexField(ctx, index.object, index.name, index.values); err != nil {
			return fmt.Errorf("adding the index %s: %w", index.name, err)
		}
	}
	return nil
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
