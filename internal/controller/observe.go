package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
)

// observation is all that the status and the acts of one reconcile follow
// from.
type observation struct {
	job *v1.PathwaysJob
	// previous is the controller's part of the status as last written.
	previous     v1.PathwaysJobStatus
	now          time.Time
	proxyAddress string
	main         string

	// jobSet is the job's own, nil if there is none.
	jobSet *jobsetv1alpha2.JobSet
	// created is true if this reconcile created it.
	created bool
	// obstacle says why there is no JobSet, or why nothing is known of it.
	obstacle *verdict
	// refused says why there are fewer Jobs or pods than there should be.
	refused *verdict

	// head is the newest pod of the head, nil if there is none.
	head     *corev1.Pod
	headNode *corev1.Node
	headJob  *batchv1.Job
	// seen is what was seen of the newest head, now or before.
	seen    sighting
	workers []corev1.Pod
	slices  []batchv1.Job
	// sliceZones are the zones of the slices, looked up only until the job
	// runs.
	sliceZones map[int]string
	// nodes and tpuPods are looked up only while a pod finds no node.
	nodes   []corev1.Node
	tpuPods []corev1.Pod
}

// observe reads what there is of the job. An error that comes with it is in
// its obstacle too.
func (r *Reconciler) observe(ctx context.Context, job *v1.PathwaysJob) (*observation, error) {
	o := &observation{
		job: job, previous: r.status.Previous(job), now: r.clock.Now(),
		proxyAddress: render.ProxyAddress(job, r.options),
	}
	// A job without a main container is refused by the renderer.
	o.main, _ = render.MainContainer(job)
	if endedHere(o.previous) {
		return o, nil
	}
	err := r.observeJobSet(ctx, o)
	if err == nil && o.jobSet != nil {
		err = errors.Join(r.observeChildren(ctx, o), r.observeNodes(ctx, o))
	}
	r.heads.follow(o)
	if err == nil {
		err = r.observeRefusals(ctx, o)
	}
	if err != nil {
		o.obstacle = readFailed(o, err)
	}
	return o, err
}

func (r *Reconciler) observeJobSet(ctx context.Context, o *observation) error {
	jobSet := &jobsetv1alpha2.JobSet{}
	err := r.Get(ctx, client.ObjectKeyFromObject(o.job), jobSet)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading JobSet %s: %w", client.ObjectKeyFromObject(o.job), err)
	}
	o.take(jobSet)
	return nil
}

// take accepts a JobSet of the job's name if it is the job's, and says what is
// wrong with it if not.
func (o *observation) take(jobSet *jobsetv1alpha2.JobSet) {
	if metav1.IsControlledBy(jobSet, o.job) {
		o.jobSet = jobSet
		return
	}
	o.obstacle = notOwned(jobSet)
}

func (r *Reconciler) observeChildren(ctx context.Context, o *observation) error {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, r.childrenOf(o.jobSet)...); err != nil {
		return fmt.Errorf("listing the pods of JobSet %s: %w", client.ObjectKeyFromObject(o.jobSet), err)
	}
	var jobs batchv1.JobList
	if err := r.List(ctx, &jobs, r.childrenOf(o.jobSet)...); err != nil {
		return fmt.Errorf("listing the Jobs of JobSet %s: %w", client.ObjectKeyFromObject(o.jobSet), err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case !childOf(o.jobSet.UID, pod.Labels):
		case isHead(pod.Labels):
			if o.head == nil || o.head.CreationTimestamp.Before(&pod.CreationTimestamp) {
				o.head = pod
			}
		case isWorker(pod.Labels):
			o.workers = append(o.workers, *pod)
		}
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		switch {
		case !childOf(o.jobSet.UID, job.Labels):
		case isHead(job.Labels):
			o.headJob = job
		case isWorker(job.Labels):
			o.slices = append(o.slices, *job)
		}
	}
	return nil
}

// observeNodes reads the head's node, and all nodes where a pod finds none.
func (r *Reconciler) observeNodes(ctx context.Context, o *observation) error {
	if o.head != nil && o.head.Spec.NodeName != "" {
		node := &corev1.Node{}
		err := r.Get(ctx, types.NamespacedName{Name: o.head.Spec.NodeName}, node)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading node %s of the head: %w", o.head.Spec.NodeName, err)
		}
		if err == nil {
			o.headNode = node
		}
	}
	if headRuns(o.head) && trueCondition(o.previous) != v1.ConditionRunning {
		if err := r.observeZones(ctx, o); err != nil {
			return err
		}
	}
	if !o.waitsForNodes() {
		return nil
	}
	var nodes corev1.NodeList
	if err := r.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.UnsafeDisableDeepCopy,
		client.MatchingLabels{jobsetv1alpha2.ReplicatedJobNameKey: v1.WorkerReplicatedJob}); err != nil {
		return fmt.Errorf("listing worker pods: %w", err)
	}
	o.nodes, o.tpuPods = nodes.Items, pods.Items
	return nil
}

// observeZones reads the node of one worker of each slice.
func (r *Reconciler) observeZones(ctx context.Context, o *observation) error {
	o.sliceZones = map[int]string{}
	for i := range o.workers {
		pod := &o.workers[i]
		if _, known := o.sliceZones[sliceIndex(pod)]; known || pod.Spec.NodeName == "" {
			continue
		}
		node := &corev1.Node{}
		if err := r.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading node %s of slice %d: %w", pod.Spec.NodeName, sliceIndex(pod), err)
		}
		o.sliceZones[sliceIndex(pod)] = node.Labels[labelZone]
	}
	return nil
}

func (o *observation) waitsForNodes() bool {
	if o.head != nil && unschedulable(o.head) != "" {
		return true
	}
	for i := range o.workers {
		if unschedulable(&o.workers[i]) != "" {
			return true
		}
	}
	return false
}

// childrenOf lists by the index of the cache, or by label where there is none.
func (r *Reconciler) childrenOf(jobSet *jobsetv1alpha2.JobSet) []client.ListOption {
	options := []client.ListOption{client.InNamespace(jobSet.Namespace)}
	if r.indexed {
		return append(options, client.MatchingFields{indexJobSet: jobSet.Name})
	}
	return append(options, client.MatchingLabels{jobsetv1alpha2.JobSetNameKey: jobSet.Name})
}

// childOf is false for what an earlier JobSet of the same name left behind.
func childOf(uid types.UID, labels map[string]string) bool {
	of, ok := labels[jobsetv1alpha2.JobSetUIDKey]
	return !ok || of == string(uid)
}

func isHead(labels map[string]string) bool {
	return labels[jobsetv1alpha2.ReplicatedJobNameKey] == v1.HeadReplicatedJob
}

func isWorker(labels map[string]string) bool {
	return labels[jobsetv1alpha2.ReplicatedJobNameKey] == v1.WorkerReplicatedJob
}

// lookAgain is when to look again without an event; 0 is never.
func (o *observation) lookAgain() time.Duration {
	switch {
	case o.obstacle != nil && o.obstacle.again > 0:
		return o.obstacle.again
	case o.obstacle != nil || o.waitsForNodes() || len(o.gaps()) > 0:
		return lookAgain
	default:
		return 0
	}
}
