package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/statuspatch"
	"pathways.domain/pathways-job/internal/testing/envtest"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "PathwaysJob controller")
}

var (
	apiServer *envtest.Environment
	admin     client.WithWatch
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	apiServer, err = envtest.Start(ctx, envtest.Options{JobSet: true})
	Expect(err).NotTo(HaveOccurred())
	admin, err = client.NewWithWatch(apiServer.Config, client.Options{Scheme: testScheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(2*time.Minute))

var _ = AfterSuite(func() {
	if apiServer != nil {
		Expect(apiServer.Stop()).To(Succeed())
	}
})

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1.AddToScheme(scheme))
	utilruntime.Must(jobsetv1alpha2.AddToScheme(scheme))
	return scheme
}

// world is a namespace with a reconciler of its own, whose clock stands still
// and whose requests can be made to fail.
type world struct {
	ctx       context.Context
	namespace string
	clock     *clocktesting.FakePassiveClock
	recorder  *events.FakeRecorder
	r         *Reconciler
	writes    int
}

func newWorld(ctx context.Context, faults interceptor.Funcs) *world {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "controller-"}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	w := &world{
		ctx: ctx, namespace: namespace.Name,
		// Later than the API server's own times.
		clock:    clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour).Truncate(time.Second)),
		recorder: events.NewFakeRecorder(100),
	}
	c := interceptor.NewClient(w.counting(), faults)
	w.r = New(c, c, w.recorder, statuspatch.NewJournal(), render.Options{}, w.clock)
	return w
}

// counting counts the writes that reach the API server.
func (w *world) counting() client.WithWatch {
	return interceptor.NewClient(admin, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.writes++
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			w.writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.writes++
			return c.SubResource(sub).Apply(ctx, obj, opts...)
		},
	})
}

// job starts a job in this world.
func (w *world) job(name string) *wrappers.PathwaysJobWrapper {
	return wrappers.MakePathwaysJob(name, w.namespace)
}

func (w *world) create(job *v1.PathwaysJob) *v1.PathwaysJob {
	GinkgoHelper()
	Expect(admin.Create(w.ctx, job)).To(Succeed())
	return job
}

// reconcile reconciles once, two seconds after whatever was before.
func (w *world) reconcile(job client.Object) (ctrl.Result, error) {
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	return w.r.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
}

// step reconciles without error and returns the job as it is then.
func (w *world) step(job client.Object) *v1.PathwaysJob {
	GinkgoHelper()
	_, err := w.reconcile(job)
	Expect(err).NotTo(HaveOccurred())
	return w.read(job)
}

func (w *world) read(job client.Object) *v1.PathwaysJob {
	GinkgoHelper()
	got := &v1.PathwaysJob{}
	Expect(admin.Get(w.ctx, client.ObjectKeyFromObject(job), got)).To(Succeed())
	return got
}

// jobSet returns the JobSet of the job, nil if there is none.
func (w *world) jobSet(job client.Object) *jobsetv1alpha2.JobSet {
	GinkgoHelper()
	got := &jobsetv1alpha2.JobSet{}
	err := admin.Get(w.ctx, client.ObjectKeyFromObject(job), got)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return got
}

func (w *world) setJobSetStatus(job client.Object, change func(*jobsetv1alpha2.JobSetStatus)) {
	GinkgoHelper()
	jobSet := w.jobSet(job)
	change(&jobSet.Status)
	if jobSet.Status.ReplicatedJobsStatus == nil {
		jobSet.Status.ReplicatedJobsStatus = []jobsetv1alpha2.ReplicatedJobStatus{}
	}
	Expect(admin.Status().Update(w.ctx, jobSet)).To(Succeed())
}

// finish gives the JobSet the condition Completed or Failed.
func (w *world) finish(job client.Object, how jobsetv1alpha2.JobSetConditionType) {
	GinkgoHelper()
	w.setJobSetStatus(job, func(s *jobsetv1alpha2.JobSetStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: string(how), Status: metav1.ConditionTrue, Reason: "Test", Message: "jobset is " + string(how)})
	})
}

// removeJobSet deletes the JobSet as an API server with a garbage collector
// would in the end.
func (w *world) removeJobSet(job client.Object) {
	GinkgoHelper()
	jobSet := w.jobSet(job)
	if len(jobSet.Finalizers) > 0 {
		jobSet.Finalizers = nil
		Expect(admin.Update(w.ctx, jobSet)).To(Succeed())
	}
	Expect(client.IgnoreNotFound(admin.Delete(w.ctx, jobSet, client.PropagationPolicy(metav1.DeletePropagationBackground)))).To(Succeed())
}

func (w *world) labels(job client.Object, part, index string) map[string]string {
	return map[string]string{
		jobsetv1alpha2.JobSetNameKey:        job.GetName(),
		jobsetv1alpha2.JobSetUIDKey:         string(w.jobSet(job).UID),
		jobsetv1alpha2.ReplicatedJobNameKey: part,
		jobsetv1alpha2.JobIndexKey:          index,
	}
}

// headPod makes the head's pod, running.
func (w *world) headPod(job client.Object, change func(*corev1.PodStatus)) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: job.GetName() + "-pathways-head-0-0-", Namespace: w.namespace,
			Labels: w.labels(job, v1.HeadReplicatedJob, "0"),
		},
		Spec: corev1.PodSpec{
			NodeName:      "cpu-1",
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/train:1"}},
		},
	}
	Expect(admin.Create(w.ctx, pod)).To(Succeed())
	w.setPodStatus(pod, func(s *corev1.PodStatus) {
		*s = runningStatus()
		if change != nil {
			change(s)
		}
	})
	return pod
}

func runningStatus() corev1.PodStatus {
	return corev1.PodStatus{
		Phase:             corev1.PodRunning,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
}

func (w *world) setPodStatus(pod *corev1.Pod, change func(*corev1.PodStatus)) {
	GinkgoHelper()
	change(&pod.Status)
	Expect(admin.Status().Update(w.ctx, pod)).To(Succeed())
}

// childJob makes a child Job without pods.
func (w *world) childJob(job client.Object, part string, index int, pods int32) *batchv1.Job {
	GinkgoHelper()
	child := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d", job.GetName(), part, index), Namespace: w.namespace,
			Labels: w.labels(job, part, fmt.Sprint(index)),
		},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyOnFailure,
				Containers:    []corev1.Container{{Name: v1.ContainerWorker, Image: "example.com/worker:1"}},
			}},
		},
	}
	Expect(admin.Create(w.ctx, child)).To(Succeed())
	return child
}

// slice makes the child Job of a slice of one worker, which is ready or not.
func (w *world) slice(job client.Object, index int, ready bool) *batchv1.Job {
	GinkgoHelper()
	child := w.childJob(job, v1.WorkerReplicatedJob, index, 1)
	if ready {
		now := metav1.Now()
		child.Status.StartTime, child.Status.Active, child.Status.Ready = &now, 1, ptr.To[int32](1)
		Expect(admin.Status().Update(w.ctx, child)).To(Succeed())
	}
	return child
}

// running brings a new job to Running.
func (w *world) running(job *v1.PathwaysJob) (*v1.PathwaysJob, *corev1.Pod) {
	GinkgoHelper()
	w.create(job)
	w.step(job)
	head := w.headPod(job, nil)
	for i := range int(numSlices(job)) {
		w.slice(job, i, true)
	}
	got := w.step(job)
	expectTrue(got, v1.ConditionRunning, v1.ReasonRunning)
	return got, head
}

// expectTrue expects the condition to be the only True one of the exclusive
// five, all of which are set for this generation.
func expectTrue(job *v1.PathwaysJob, condition, reason string) *metav1.Condition {
	GinkgoHelper()
	for _, t := range exclusive {
		c := meta.FindStatusCondition(job.Status.Conditions, t)
		Expect(c).NotTo(BeNil(), "condition %s", t)
		want := metav1.ConditionFalse
		if t == condition {
			want = metav1.ConditionTrue
		}
		Expect(c.Status).To(Equal(want), "condition %s of\n%s", t, job.Status.Conditions)
		Expect(c.ObservedGeneration).To(Equal(job.Generation), "condition %s", t)
	}
	Expect(string(job.Status.State)).To(Equal(condition))
	c := meta.FindStatusCondition(job.Status.Conditions, condition)
	Expect(c.Reason).To(Equal(reason), c.Message)
	return c
}

// events returns the events since the last call.
func (w *world) events() []string {
	var list []string
	for {
		select {
		case e := <-w.recorder.Events:
			list = append(list, e)
		default:
			return list
		}
	}
}

var errQuota = errors.New("exceeded quota: jobs")

func subdomain(job *v1.PathwaysJob) string { return render.Subdomain(job) }
