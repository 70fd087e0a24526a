//go:build soak

package soak

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/wrappers"
	"pathways.domain/pathways-job/internal/tpu"
)

const (
	machine, shape = "ct5p-hightpu-4t", "2x2x2"
	// slicesOf is the number of slices of the job, and spares that of pools
	// beside those that they run in.
	slicesOf, spares = 8, 3
	namespace, name  = "default", "train"
	// patience with one fault; the operator is dead half of the time, and on a
	// busy machine most of its lives are too short to do anything.
	patience = 10 * time.Minute
)

// newJob makes pools for a job of two-VM slices, two of which may be missing,
// starts it and waits until all runs.
func newJob(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	pools := []cluster.Pool{cluster.CPUPool("heads", 2)}
	for i := range slicesOf + spares {
		pools = append(pools, cluster.TPUPool("pool-"+strconv.Itoa(i), machine, shape))
	}
	for _, p := range pools {
		if _, err := e.CreatePool(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	job := wrappers.MakePathwaysJob(name, namespace).Workers(machine, shape, slicesOf).ElasticSlices(2).MaxSliceRestarts(1000).Obj()
	if err := e.Client.Create(ctx, job); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func(ctx context.Context) string { return e.unwell(ctx) })
	t.Cleanup(func() {
		if t.Failed() {
			out, err := e.Kubectl(context.Background(), "events", "--for", "pathwaysjob/"+name)
			t.Logf("what the operator told of the job (%v):\n%s", err, out)
		}
	})
}

func (e *env) job(ctx context.Context) (*v1.PathwaysJob, error) {
	job := &v1.PathwaysJob{}
	return job, e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job)
}

func (e *env) pods(ctx context.Context, replicatedJob string, index int) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := e.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{
		jobsetv1alpha2.JobSetNameKey: name, jobsetv1alpha2.ReplicatedJobNameKey: replicatedJob,
		jobsetv1alpha2.JobIndexKey: strconv.Itoa(index),
	})
	return list.Items, err
}

func (e *env) childJob(ctx context.Context, slice int) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	return job, e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("%s-worker-%d", name, slice)}, job)
}

// unwell says what keeps the job from running with all its slices, by its
// status and by its pods: the status alone may be from before the fault.
func (e *env) unwell(ctx context.Context) string {
	job, err := e.job(ctx)
	if err != nil {
		return err.Error()
	}
	for _, c := range []string{v1.ConditionRunning, v1.ConditionSlicesReady, v1.ConditionHealthy} {
		if !meta.IsStatusConditionTrue(job.Status.Conditions, c) {
			return fmt.Sprintf("%s is not True: %+v", c, meta.FindStatusCondition(job.Status.Conditions, c))
		}
	}
	for _, s := range job.Status.Slices {
		child, err := e.childJob(ctx, int(*s.Index))
		if err != nil {
			return err.Error()
		}
		pods, err := e.pods(ctx, v1.WorkerReplicatedJob, int(*s.Index))
		if err != nil {
			return err.Error()
		}
		if s.State != v1.SliceReady || s.Reason != "" || s.JobUID != child.UID || s.ReadyJobUID != child.UID || len(pods) != 2 {
			return fmt.Sprintf("slice %d is %s (%s: %s), with %d pods", *s.Index, s.State, s.Reason, s.Message, len(pods))
		}
		for _, pod := range pods {
			if !ready(&pod) || ptr.Deref(s.SeenRestarts, 0) < restarts(&pod) {
				return fmt.Sprintf("pod %s is not Ready, or not all of its restarts were seen", pod.Name)
			}
		}
	}
	return ""
}

func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func restarts(pod *corev1.Pod) int32 {
	for _, c := range pod.Status.ContainerStatuses {
		return c.RestartCount
	}
	return 0
}

// leftovers names a fence, hold or terminating pod, "" if there is none.
func (e *env) leftovers(ctx context.Context) string {
	nodes, jobs, pods := &corev1.NodeList{}, &batchv1.JobList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{nodes, jobs, pods} {
		if err := e.Client.List(ctx, list); err != nil {
			return err.Error()
		}
	}
	for _, n := range nodes.Items {
		for _, taint := range n.Spec.Taints {
			if taint.Key == v1.TaintSliceDegraded {
				return "node " + n.Name + " is fenced"
			}
		}
	}
	for _, j := range jobs.Items {
		if slices.Contains(j.Finalizers, v1.FinalizerHold) {
			return "Job " + j.Name + " is held"
		}
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			return "pod " + p.Name + " is terminating"
		}
	}
	return ""
}

// outcome is what must not depend on when the operator was killed.
type outcome struct {
	Head types.UID
	// Restarts of the whole job, and those charged to the JobSet.
	Restarts, Charged int32
	// Slices by index.
	Slices [slicesOf]sliceOutcome
	// Fenced etc. says what is left behind.
	Leftover string
}

// sliceOutcome is how often a slice was charged and replaced.
type sliceOutcome struct{ Charged, Replaced int32 }

// miscounted says which slice has other charges, those included that are not
// final yet, or other replacements than it should; "" if none has.
func (e *env) miscounted(ctx context.Context, want outcome) string {
	job, err := e.job(ctx)
	if err != nil {
		return err.Error()
	}
	for _, s := range job.Status.Slices {
		got := sliceOutcome{ptr.Deref(s.Restarts, 0), ptr.Deref(s.Replacements, 0)}
		for _, c := range s.PendingCharges {
			got.Charged += c.Count
		}
		if got != want.Slices[*s.Index] {
			return fmt.Sprintf("slice %d counts %+v instead of %+v: %+v", *s.Index, got, want.Slices[*s.Index], s)
		}
	}
	return ""
}

// outcome waits until no charge is open, and tells how things are.
func (e *env) outcome(t *testing.T) outcome {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) string {
		job, err := e.job(ctx)
		if err != nil {
			return err.Error()
		}
		for _, s := range job.Status.Slices {
			if len(s.PendingCharges) > 0 {
				return fmt.Sprintf("slice %d has open charges: %+v", *s.Index, s.PendingCharges)
			}
		}
		return e.unwell(ctx)
	})
	ctx := t.Context()
	job, err := e.job(ctx)
	if err != nil {
		t.Fatal(err)
	}
	jobSet := &jobsetv1alpha2.JobSet{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(job), jobSet); err != nil {
		t.Fatal(err)
	}
	o := outcome{
		Head: e.head(t), Restarts: ptr.Deref(job.Status.Restarts, 0), Charged: jobSet.Status.RestartsCountTowardsMax,
		Leftover: e.leftovers(ctx),
	}
	for _, s := range job.Status.Slices {
		o.Slices[*s.Index] = sliceOutcome{ptr.Deref(s.Restarts, 0), ptr.Deref(s.Replacements, 0)}
	}
	return o
}

// head is the UID of the head's pod.
func (e *env) head(t *testing.T) types.UID {
	t.Helper()
	pods, err := e.pods(t.Context(), v1.HeadReplicatedJob, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) != 1 {
		t.Fatalf("there are %d heads", len(pods))
	}
	return pods[0].UID
}

// removeJob deletes the job and its pools, for the next run.
func removeJob(t *testing.T, e *env) {
	t.Helper()
	ctx := t.Context()
	job := &v1.PathwaysJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := e.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func(ctx context.Context) string {
		pods := &corev1.PodList{}
		if err := e.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil || len(pods.Items) > 0 {
			return fmt.Sprintf("%d pods of the deleted job are left (%v)", len(pods.Items), err)
		}
		if _, err := e.job(ctx); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Sprintf("the deleted job is left (%v)", err)
		}
		return e.leftovers(ctx)
	})
	if err := e.Client.DeleteAllOf(ctx, &corev1.Node{}, client.HasLabels{tpu.LabelNodePool}); err != nil {
		t.Fatal(err)
	}
}
