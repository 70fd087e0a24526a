package elastic

import (
	"context"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/statuspatch"
	"pathways.domain/pathways-job/internal/testing/wrappers"
	"pathways.domain/pathways-job/internal/tpu"
)

// world is one job with its JobSet, child Jobs, pods and nodes, as the
// controllers of Kubernetes and JobSet would have made them.
type world struct {
	namespace string
	clock     *testingclock.FakeClock
	job       *v1.PathwaysJob
	jobSet    *jobsetv1alpha2.JobSet
	recorder  *events.FakeRecorder
	options   Options
}

const (
	testMachine  = "ct5p-hightpu-4t"
	testTopology = "2x2x2" // 2 VMs
)

// newWorld makes an elastic job with slices on pools p0, p1, ..., all Ready,
// one idle pool spare, and its head on node cpu.
func newWorld(ctx context.Context, slices int, change ...func(*wrappers.PathwaysJobWrapper)) *world {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "elastic-"}}
	Expect(api.Create(ctx, ns)).To(Succeed())
	w := &world{
		namespace: ns.Name, clock: testingclock.NewFakeClock(time.Now().Truncate(time.Second)),
		recorder: events.NewFakeRecorder(100),
		options: Options{
			Mode: plan.Enforce, NotReadyGrace: 30 * time.Second, MaintenanceLeadTime: 10 * time.Minute,
			MaxUnhealthyPools: 40, FenceSlicePools: true, Journal: statuspatch.NewJournal(),
		},
	}
	w.options.Clock = w.clock
	m := wrappers.MakePathwaysJob("train", ns.Name).Workers(testMachine, testTopology, int32(slices)).ElasticSlices(1)
	for _, c := range change {
		c(m)
	}
	w.job = m.Obj()
	Expect(api.Create(ctx, w.job)).To(Succeed())
	w.job.Status.ObservedGeneration = w.job.Generation
	Expect(api.Status().Update(ctx, w.job)).To(Succeed())
	js, err := render.JobSet(w.job, render.Options{})
	Expect(err).NotTo(HaveOccurred())
	Expect(controllerutil.SetControllerReference(w.job, js, api.Scheme())).To(Succeed())
	Expect(api.Create(ctx, js)).To(Succeed())
	w.jobSet = js

	w.node(ctx, "cpu", nil)
	w.child(ctx, v1.HeadReplicatedJob, 0, 1)
	w.pod(ctx, v1.HeadReplicatedJob, 0, 0, "cpu")
	for i := range slices {
		w.pool(ctx, fmt.Sprintf("p%d", i), 2)
		w.slice(ctx, i, fmt.Sprintf("p%d", i))
	}
	w.pool(ctx, "spare", 2)
	DeferCleanup(func(ctx SpecContext) {
		// A manager in a later spec would repair it.
		Expect(client.IgnoreNotFound(api.Delete(ctx, w.job))).To(Succeed())
		cleanCluster(ctx)
	})
	return w
}

func (w *world) pool(ctx context.Context, name string, hosts int) {
	GinkgoHelper()
	for i := range hosts {
		w.node(ctx, fmt.Sprintf("%s-%d", name, i), map[string]string{
			tpu.LabelAccelerator: "tpu-v5p-slice", tpu.LabelTopology: testTopology,
			tpu.LabelAcceleratorCount: "4", tpu.LabelNodePool: name,
		})
	}
}

func (w *world) node(ctx context.Context, name string, labels map[string]string) {
	GinkgoHelper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if labels != nil {
		n.Spec.Taints = []corev1.Taint{{Key: tpu.Resource, Value: "present", Effect: corev1.TaintEffectNoSchedule}}
	}
	Expect(api.Create(ctx, n)).To(Succeed())
	w.setReady(ctx, name, corev1.ConditionTrue)
}

func (w *world) setReady(ctx context.Context, name string, status corev1.ConditionStatus) {
	GinkgoHelper()
	n := w.getNode(ctx, name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	Expect(api.Status().Update(ctx, n)).To(Succeed())
	// The admission plugin TaintNodesByCondition taints new nodes; the node
	// life cycle controller is not here to take that off.
	n.Spec.Taints = removeTaint(n.Spec.Taints, corev1.TaintNodeNotReady)
	Expect(api.Update(ctx, n)).To(Succeed())
}

func removeTaint(taints []corev1.Taint, key string) []corev1.Taint {
	var kept []corev1.Taint
	for _, t := range taints {
		if t.Key != key {
			kept = append(kept, t)
		}
	}
	return kept
}

func (w *world) getNode(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	var n corev1.Node
	Expect(api.Get(ctx, client.ObjectKey{Name: name}, &n)).To(Succeed())
	return &n
}

func childLabels(rj string, index int) map[string]string {
	return map[string]string{
		jobsetNameLabel: "train", replicatedJobLabel: rj, jobIndexLabel: strconv.Itoa(index), restartAttemptLabel: "0",
	}
}

func childName(rj string, index int) string { return fmt.Sprintf("train-%s-%d", rj, index) }

func (w *world) child(ctx context.Context, rj string, index, vms int) *batchv1.Job {
	GinkgoHelper()
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: childName(rj, index), Namespace: w.namespace, Labels: childLabels(rj, index)},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(int32(vms)), Completions: ptr.To(int32(vms)), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			}},
		},
	}
	Expect(controllerutil.SetControllerReference(w.jobSet, j, api.Scheme())).To(Succeed())
	Expect(api.Create(ctx, j)).To(Succeed())
	return j
}

func (w *world) slice(ctx context.Context, index int, pool string) {
	GinkgoHelper()
	w.child(ctx, v1.WorkerReplicatedJob, index, 2)
	for vm := range 2 {
		w.pod(ctx, v1.WorkerReplicatedJob, index, vm, fmt.Sprintf("%s-%d", pool, vm))
	}
}

func podName(rj string, index, vm int) string { return fmt.Sprintf("train-%s-%d-%d", rj, index, vm) }

func (w *world) pod(ctx context.Context, rj string, index, vm int, node string) *corev1.Pod {
	GinkgoHelper()
	labels := childLabels(rj, index)
	labels[completionIndexLabel] = strconv.Itoa(vm)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(rj, index, vm), Namespace: w.namespace, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyNever},
	}
	container := "main"
	if rj == v1.WorkerReplicatedJob {
		container = v1.ContainerWorker
		p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	p.Spec.Containers = []corev1.Container{{Name: container, Image: "i"}}
	if rj == v1.WorkerReplicatedJob {
		chips := corev1.ResourceList{tpu.Resource: resource.MustParse("4")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: chips, Requests: chips}
	}
	Expect(controllerutil.SetControllerReference(w.getJob(ctx, rj, index), p, api.Scheme())).To(Succeed())
	Expect(api.Create(ctx, p)).To(Succeed())
	now := metav1.NewTime(w.clock.Now())
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: container, Ready: true, Image: "i", ImageID: "i",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	Expect(api.Status().Update(ctx, p)).To(Succeed())
	return p
}

func (w *world) getJob(ctx context.Context, rj string, index int) *batchv1.Job {
	GinkgoHelper()
	var j batchv1.Job
	Expect(api.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: childName(rj, index)}, &j)).To(Succeed())
	return &j
}

func (w *world) getPod(ctx context.Context, rj string, index, vm int) *corev1.Pod {
	GinkgoHelper()
	var p corev1.Pod
	Expect(api.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: podName(rj, index, vm)}, &p)).To(Succeed())
	return &p
}

func (w *world) getPathwaysJob(ctx context.Context) *v1.PathwaysJob {
	GinkgoHelper()
	var job v1.PathwaysJob
	Expect(api.Get(ctx, client.ObjectKeyFromObject(w.job), &job)).To(Succeed())
	return &job
}

// reconciler is a fresh one, as after a start of the operator, over c.
func (w *world) reconciler(c client.Client) *Reconciler {
	return New(indexed{c}, c, w.recorder, w.options)
}

func (w *world) reconcile(ctx context.Context, r *Reconciler) (ctrl.Result, error) {
	w.clock.Step(2 * time.Second) // past the least time between two status patches
	r.observer.pools.invalidate() // as an event of a node does
	return r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.job)})
}

// told returns the events so far.
func (w *world) told() []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}
