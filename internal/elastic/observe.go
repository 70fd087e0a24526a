package elastic

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/tpu"
)

// kueueTopologyPrefixes begin the annotations and labels by which a pod asks
// Kueue to choose its nodes.
var kueueTopologyPrefixes = []string{"kueue.x-k8s.io/podset-", "kueue.x-k8s.io/tas"}

// observer reads the cluster. It decides nothing.
type observer struct {
	cache  client.Reader
	live   client.Reader
	pools  *poolView
	nodes  *liveNodes
	others *foreignPods
	killed *killedWorkers
	pulse  *pulse // nil where nobody asks
	clock  clock.PassiveClock
	policy plan.Policy
}

// observe returns all that the planner needs to know of the job. status is
// the elastic part of the job's status as last written. If part of it is
// known to be out of date, stale is when to look again.
func (o *observer) observe(ctx context.Context, job *v1.PathwaysJob, status v1.PathwaysJobStatus) (obs plan.Observation, stale time.Duration, err error) {
	js, err := o.jobSet(ctx, job)
	if err != nil {
		return obs, 0, err
	}
	pools, stale, err := o.pools.get(ctx)
	if err != nil {
		return obs, 0, err
	}
	obs = plan.Observation{
		Policy: o.policy, Job: jobFacts(job, status), JobSet: jobSetFacts(js), Answering: o.pulse.answering(),
	}
	where := placementOf(job, js)
	obs.Job.VMs = where.vms
	obs.Job.Shape = where.accelerator + " " + where.topology
	obs.Job.KueueTopology = kueueTopology(js)
	obs.Pools = pools.poolsFor(where)
	obs.Slices = make([]plan.Slice, obs.Job.Slices)
	for i := range obs.Slices {
		obs.Slices[i].Index = int32(i)
	}
	if js == nil {
		return obs, stale, nil
	}
	if err := o.children(ctx, job, js, pools, &obs); err != nil {
		return obs, 0, err
	}
	for i := range obs.Slices {
		rememberPool(&obs.Slices[i], status.Slices)
	}
	for _, s := range status.Slices {
		if i := ptr.Deref(s.Index, -1); i >= 0 && int(i) < len(obs.Slices) && s.LeavingJobUID != "" {
			obs.Slices[i].Killed = o.killed.of(s.LeavingJobUID)
		}
	}
	if obs.Job.Priority, err = o.priority(ctx, js); err != nil {
		return obs, 0, err
	}
	if maintenanceAnnounced(&obs) {
		if obs.OtherVoluntaryMoves, err = o.otherMoves(ctx, job, where); err != nil {
			return obs, 0, err
		}
	}
	return obs, stale, o.others.mark(ctx, &obs, o.clock.Now())
}

// jobSet returns the job's JobSet; nil if there is none, or if it is someone
// else's.
func (o *observer) jobSet(ctx context.Context, job *v1.PathwaysJob) (*jobsetv1alpha2.JobSet, error) {
	var js jobsetv1alpha2.JobSet
	err := o.cache.Get(ctx, client.ObjectKeyFromObject(job), &js)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the JobSet %s: %w", client.ObjectKeyFromObject(job), err)
	}
	if !metav1.IsControlledBy(&js, job) {
		return nil, nil
	}
	return &js, nil
}

func jobFacts(job *v1.PathwaysJob, status v1.PathwaysJobStatus) plan.Job {
	facts := plan.Job{
		UID:            job.UID,
		Generation:     job.Generation,
		ElasticSlices:  job.Spec.MissingSlices(),
		Headless:       render.Headless(job),
		Colocated:      job.Spec.Controller.DeploymentMode == v1.DeploymentModeColocate,
		Resumable:      resumable(job),
		RepairDisabled: repairDisabled(job),
		ReplaceSlice:   job.Annotations[v1.AnnotationReplaceSlice],
		Deleting:       !job.DeletionTimestamp.IsZero(),
		Ended:          finished(job),
		EverRunning:    everRunning(job),
		Status:         status,
	}
	if len(job.Spec.Workers) > 0 {
		w := &job.Spec.Workers[0]
		// An object that is older than the bounds is refused, and has none.
		if w.NumSlices > 0 && w.NumSlices <= v1.MaxSlices {
			facts.Slices = w.NumSlices
		}
		facts.MaxSliceRestarts = ptr.Deref(w.MaxSliceRestarts, 1)
	}
	return facts
}

func jobSetFacts(js *jobsetv1alpha2.JobSet) plan.JobSet {
	if js == nil {
		return plan.JobSet{}
	}
	is := func(t jobsetv1alpha2.JobSetConditionType) bool {
		return meta.IsStatusConditionTrue(js.Status.Conditions, string(t))
	}
	facts := plan.JobSet{
		UID:             js.UID,
		Suspended:       ptr.Deref(js.Spec.Suspend, false),
		Deleting:        !js.DeletionTimestamp.IsZero(),
		Ended:           is(jobsetv1alpha2.JobSetCompleted) || is(jobsetv1alpha2.JobSetFailed),
		Restarting:      is(jobsetv1alpha2.JobSetRestarting),
		Restarts:        js.Status.Restarts,
		RestartsCharged: js.Status.RestartsCountTowardsMax,
	}
	if js.Spec.FailurePolicy != nil {
		facts.MaxRestarts = js.Spec.FailurePolicy.MaxRestarts
	}
	return facts
}

// replicatedJob returns the JobSet's replicatedJob of that name, or nil.
func replicatedJob(js *jobsetv1alpha2.JobSet, name string) *jobsetv1alpha2.ReplicatedJob {
	if js == nil {
		return nil
	}
	for i := range js.Spec.ReplicatedJobs {
		if js.Spec.ReplicatedJobs[i].Name == name {
			return &js.Spec.ReplicatedJobs[i]
		}
	}
	return nil
}

// placementOf says where the job's workers may go: by the running JobSet,
// whose selectors Kueue may have narrowed, or else by the job's spec.
func placementOf(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) placement {
	var p placement
	if len(job.Spec.Workers) > 0 {
		w := &job.Spec.Workers[0]
		p.topology, p.selector = w.Topology, w.NodeSelector
		if w.Template != nil {
			p.tolerations = w.Template.Spec.Tolerations
		}
		if machine, err := tpu.ParseMachineType(string(w.Type)); err == nil {
			p.accelerator = machine.Accelerator()
			if topology, err := tpu.ParseTopology(w.Topology); err == nil {
				vms, _ := machine.VMsPerSlice(topology)
				p.vms = int32(vms)
			}
		}
	}
	if rj := replicatedJob(js, v1.WorkerReplicatedJob); rj != nil {
		pod := &rj.Template.Spec.Template.Spec
		p.selector, p.tolerations = pod.NodeSelector, pod.Tolerations
		p.vms = ptr.Deref(rj.Template.Spec.Completions, p.vms)
	}
	return p
}

// kueueTopology says whether Kueue chooses the nodes of the workers.
func kueueTopology(js *jobsetv1alpha2.JobSet) bool {
	rj := replicatedJob(js, v1.WorkerReplicatedJob)
	if rj == nil {
		return false
	}
	template := rj.Template.Spec.Template.ObjectMeta
	for _, m := range []map[string]string{template.Annotations, template.Labels} {
		for k := range m {
			for _, prefix := range kueueTopologyPrefixes {
				if strings.HasPrefix(k, prefix) {
					return true
				}
			}
		}
	}
	return false
}

// children adds the JobSet's Jobs and pods to the observation.
func (o *observer) children(ctx context.Context, job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet, pools *snapshot, obs *plan.Observation) error {
	var jobs batchv1.JobList
	if err := o.cache.List(ctx, &jobs, client.InNamespace(js.Namespace), client.MatchingFields{indexJobJobSet: js.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the child Jobs of %s/%s: %w", js.Namespace, js.Name, err)
	}
	var pods corev1.PodList
	if err := o.cache.List(ctx, &pods, client.InNamespace(js.Namespace), client.MatchingFields{indexPodJobSet: js.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the pods of %s/%s: %w", js.Namespace, js.Name, err)
	}
	var headPod *corev1.Pod
	var heads []*corev1.Pod
	var headJob *batchv1.Job
	for i := range jobs.Items {
		j := &jobs.Items[i]
		switch j.Labels[replicatedJobLabel] {
		case v1.HeadReplicatedJob:
			headJob = j
		case v1.WorkerReplicatedJob:
			if s := sliceOf(obs, j.Labels); s != nil {
				s.Child = childFacts(j)
			}
		}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch p.Labels[replicatedJobLabel] {
		case v1.HeadReplicatedJob:
			headPod = newerHead(headPod, p)
			heads = append(heads, p)
		case v1.WorkerReplicatedJob:
			s := sliceOf(obs, p.Labels)
			if s == nil {
				continue
			}
			facts := podFacts(p)
			node, err := o.node(ctx, pools, p.Spec.NodeName)
			if err != nil {
				return err
			}
			facts.Node = node
			s.Pods = append(s.Pods, facts)
		}
	}
	// A job without a clear main container was refused and has no JobSet.
	main, _ := render.MainContainer(job)
	obs.Head = headFacts(headPod, headJob, js, main)
	if headPod == nil {
		return nil
	}
	if r := job.Status.RestartRequest; r != nil {
		obs.Head.Requested = r.TargetUID == headPod.UID
	}
	for _, p := range heads {
		node, err := o.node(ctx, pools, p.Spec.NodeName)
		if err != nil {
			return err
		}
		if p == headPod {
			obs.Head.Node = node
			continue
		}
		facts := podFacts(p)
		facts.Node = node
		obs.OldHeads = append(obs.OldHeads, facts)
	}
	return nil
}

// rememberPool tells of nodes that are gone where they were: a slice is in one
// pool, which its other nodes or its last status name.
func rememberPool(s *plan.Slice, last []v1.SliceStatus) {
	pool, zone := "", ""
	for i := range last {
		if ptr.Deref(last[i].Index, -1) == s.Index {
			pool, zone = last[i].NodePool, last[i].Zone
		}
	}
	for i := range s.Pods {
		if n := s.Pods[i].Node; n != nil && !n.Gone && n.Pool != "" {
			pool, zone = n.Pool, n.Zone
		}
	}
	for i := range s.Pods {
		if n := s.Pods[i].Node; n != nil && n.Gone {
			known := *n
			known.Pool, known.Zone = pool, zone
			s.Pods[i].Node = &known
		}
	}
}

// sliceOf returns the slice that a Job or pod with these labels belongs to.
func sliceOf(obs *plan.Observation, labels map[string]string) *plan.Slice {
	i, err := strconv.Atoi(labels[jobIndexLabel])
	if err != nil || i < 0 || i >= len(obs.Slices) {
		return nil
	}
	return &obs.Slices[i]
}

// newerHead chooses between two pods of the head: the one that is not on its
// way out, or else the one that was created later.
func newerHead(a, b *corev1.Pod) *corev1.Pod {
	if a == nil {
		return b
	}
	leaving := func(p *corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() }
	if leaving(a) != leaving(b) {
		if leaving(a) {
			return b
		}
		return a
	}
	if a.CreationTimestamp.Before(&b.CreationTimestamp) {
		return b
	}
	return a
}

// node returns what is known of the node, nil for the empty name. Only a live
// read can say that a node is gone.
func (o *observer) node(ctx context.Context, pools *snapshot, name string) (*plan.Node, error) {
	if name == "" {
		return nil, nil
	}
	if facts, ok := pools.nodes[name]; ok {
		return facts, nil
	}
	var n corev1.Node
	err := o.cache.Get(ctx, client.ObjectKey{Name: name}, &n, client.UnsafeDisableDeepCopy)
	if err == nil {
		return nodeFacts(&n), nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return o.nodes.get(ctx, o.live, name, o.clock.Now())
}

// priority is the one below which the worker pods may preempt others.
func (o *observer) priority(ctx context.Context, js *jobsetv1alpha2.JobSet) (int32, error) {
	rj := replicatedJob(js, v1.WorkerReplicatedJob)
	if rj == nil {
		return 0, nil
	}
	var classes schedulingv1.PriorityClassList
	if err := o.cache.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing PriorityClasses: %w", err)
	}
	return preempts(rj.Template.Spec.Template.Spec.PriorityClassName, classes.Items), nil
}

// preempts is the priority below which pods of the class may preempt others.
// Pods without a class get the global default, of several the lowest, as the
// API server's Priority admission does.
func preempts(name string, classes []schedulingv1.PriorityClass) int32 {
	var class *schedulingv1.PriorityClass
	for i := range classes {
		c := &classes[i]
		if c.Name == name || name == "" && c.GlobalDefault && (class == nil || c.Value < class.Value) {
			class = c
		}
	}
	switch {
	case class == nil:
		return 0
	case ptr.Deref(class.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever:
		return math.MinInt32
	}
	return class.Value
}

// maintenanceAnnounced says whether a node of the job's slices will be under
// maintenance.
func maintenanceAnnounced(obs *plan.Observation) bool {
	for _, s := range obs.Slices {
		for _, p := range s.Pods {
			if p.Node != nil && !p.Node.MaintenanceAt.IsZero() {
				return true
			}
		}
	}
	return false
}

// otherMoves says whether a slice of another job on pools of the same shape is
// being moved ahead of a maintenance.
func (o *observer) otherMoves(ctx context.Context, job *v1.PathwaysJob, where placement) (bool, error) {
	var down v1.PathwaysJobList
	if err := o.cache.List(ctx, &down, client.MatchingFields{indexJobDown: anyDown}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the jobs with slices that are down: %w", err)
	}
	for i := range down.Items {
		other := &down.Items[i]
		there := placementOf(other, nil)
		if other.UID == job.UID || there.accelerator != where.accelerator || there.topology != where.topology {
			continue
		}
		for _, s := range other.Status.Slices {
			if s.Reason == v1.ReasonMaintenance && s.State != v1.SliceReady {
				return true, nil
			}
		}
	}
	return false, nil
}
