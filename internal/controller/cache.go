package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

// indexJobSet is the cache's index of pods and Jobs by the name of their
// JobSet.
const indexJobSet = "jobset"

// CacheOptions say what the manager's cache holds: what the controllers use
// and no more. An object that was read from it is not whole: never write one
// back but by a patch of the fields that are meant.
func CacheOptions() cache.Options {
	ours := selectChildren()
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1.PathwaysJob{}:        {Transform: stripJob},
			&jobsetv1alpha2.JobSet{}: {Transform: stripJobSet},
			&batchv1.Job{}:           {Label: ours, Transform: stripChildJob},
			&corev1.Pod{}:            {Label: ours, Transform: stripPod},
			&corev1.Node{}:           {Transform: stripNode},
		},
	}
}

// selectChildren selects the pods and child Jobs of JobSets like ours.
func selectChildren() labels.Selector {
	named, err := labels.NewRequirement(jobsetv1alpha2.JobSetNameKey, selection.Exists, nil)
	utilruntime.Must(err) // constants
	part, err := labels.NewRequirement(jobsetv1alpha2.ReplicatedJobNameKey, selection.In, []string{v1.HeadReplicatedJob, v1.WorkerReplicatedJob})
	utilruntime.Must(err) // constants
	return labels.NewSelector().Add(*named, *part)
}

// addIndexes lets the cache find pods and Jobs by JobSet.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	byJobSet := func(o client.Object) []string { return []string{o.GetLabels()[jobsetv1alpha2.JobSetNameKey]} }
	for _, o := range []client.Object{&corev1.Pod{}, &batchv1.Job{}} {
		if err := indexer.IndexField(ctx, o, indexJobSet, byJobSet); err != nil {
			return fmt.Errorf("indexing %T by JobSet: %w", o, err)
		}
	}
	return nil
}

func stripMeta(o metav1.Object) {
	o.SetManagedFields(nil)
	if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
		delete(a, corev1.LastAppliedConfigAnnotation)
	}
}

func stripJob(in any) (any, error) {
	if job, ok := in.(*v1.PathwaysJob); ok {
		stripMeta(job)
	}
	return in, nil
}

func stripJobSet(in any) (any, error) {
	if jobSet, ok := in.(*jobsetv1alpha2.JobSet); ok {
		stripMeta(jobSet)
		for i := range jobSet.Spec.ReplicatedJobs {
			stripPodSpec(&jobSet.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec)
		}
	}
	return in, nil
}

func stripChildJob(in any) (any, error) {
	if job, ok := in.(*batchv1.Job); ok {
		stripMeta(job)
		stripPodSpec(&job.Spec.Template.Spec)
	}
	return in, nil
}

// stripPod keeps of the containers what the head's size and the use of TPUs
// follow from.
func stripPod(in any) (any, error) {
	if pod, ok := in.(*corev1.Pod); ok {
		stripMeta(pod)
		stripPodSpec(&pod.Spec)
		pod.Status.PodIPs, pod.Status.HostIPs, pod.Status.ResourceClaimStatuses = nil, nil, nil
	}
	return in, nil
}

func stripPodSpec(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i] = corev1.Container{
				Name: list[i].Name, Ports: list[i].Ports, RestartPolicy: list[i].RestartPolicy,
				Resources: corev1.ResourceRequirements{Requests: list[i].Resources.Requests, Limits: list[i].Resources.Limits},
			}
		}
	}
	spec.Volumes, spec.EphemeralContainers, spec.SecurityContext = nil, nil, nil
	spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig = nil, nil, nil
}

// stripNode keeps labels, taints, conditions and what can be allocated.
func stripNode(in any) (any, error) {
	if node, ok := in.(*corev1.Node); ok {
		stripMeta(node)
		node.Annotations = nil
		node.Status = corev1.NodeStatus{Conditions: node.Status.Conditions, Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity}
	}
	return in, nil
}
