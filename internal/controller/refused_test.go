package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

const (
	quotaWords  = `Error creating: pods "train-worker-0-1-9bkrt" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2`
	followWords = `Error creating: admission webhook "vpod.kb.io" denied the request: follower pod node selector for topology domain not found. missing selector: cloud.google.com/gke-nodepool`
)

func TestRefusedWords(t *testing.T) {
	for name, tc := range map[string]struct{ reason, words, want string }{
		"pod security": {
			"FailedCreate",
			`Error creating: pods "train-pathways-head-0-0-x7x2k" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`,
			`X; it is tried again: the pod is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`,
		},
		"many alike": {
			"FailedCreate", "(combined from similar events): " + quotaWords,
			"X; it is tried again: the pod is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2",
		},
		"Jobs that are invalid, a line each": {
			"JobCreationFailed",
			"job \"train-worker-1\" creation failed with error: Job.batch \"train-worker-1\" is invalid: spec.template.spec.priorityClassName: Invalid value: \"No Pe\"\n" +
				"job \"train-worker-0\" creation failed with error: Job.batch \"train-worker-0\" is invalid: spec.template.spec.priorityClassName: Invalid value: \"No Pe\"",
			`X; correct the manifest, then delete the PathwaysJob and create it again: Job.batch "train-worker-1" is invalid: spec.template.spec.priorityClassName: Invalid value: "No Pe"`,
		},
		"the Service": {
			"HeadlessServiceCreationFailed", `services "train" is forbidden: exceeded quota: none`,
			`X; it is tried again: services "train" is forbidden: exceeded quota: none`,
		},
		"another webhook of that name": {
			"FailedCreate", `Error creating: admission webhook "vpod.kb.io" denied the request: the queue is closed`,
			`X; it is tried again: admission webhook "vpod.kb.io" denied the request: the queue is closed`,
		},
		"JobSet's order of pods":           {"FailedCreate", followWords, ""},
		"JobSet's order of pods, at first": {"FailedCreate", `Error creating: admission webhook "vpod.kb.io" denied the request: expected 1 leader pod (train-worker-0-0), but got 0. this is an expected, transient error`, ""},
		"a failure policy":                 {"RestartJobSetFailurePolicyAction", "applying RestartJobSet failure policy action", ""},
	} {
		got := ""
		if tellsRefusal(&corev1.Event{Reason: tc.reason, Message: tc.words}) {
			got = refusedMessage("X", refusal(tc.words))
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

var _ = Describe("a refusal", func() {
	var w *world
	var job *v1.PathwaysJob
	looks := 0
	begin := func(ctx context.Context) {
		GinkgoHelper()
		w = newWorld(ctx, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*corev1.EventList); ok {
					looks++
				}
				return c.List(ctx, list, opts...)
			},
		})
		job = w.create(w.job("train").Workers("ct6e-standard-4t", "2x4", 2).Obj())
		w.step(job)
		w.events()
		looks = 0
	}
	// later steps once, that long after.
	later := func(d time.Duration) *v1.PathwaysJob {
		GinkgoHelper()
		w.clock.SetTime(w.clock.Now().Add(d))
		return w.step(job)
	}

	It("of a slice's second pod is told, JobSet's own order of pods is not", func(ctx SpecContext) {
		begin(ctx)
		w.childJob(job, v1.HeadReplicatedJob, 0, 1)
		w.headPod(job, nil)
		w.slice(job, 1, true)
		slice := w.childJob(job, v1.WorkerReplicatedJob, 0, 2)
		leader := w.workerPod(job, slice, "")
		later(10 * time.Second)
		Expect(looks).To(BeZero(), "its pods follow the first, which has no node")

		Expect(admin.Delete(w.ctx, leader, client.GracePeriodSeconds(0))).To(Succeed())
		w.workerPod(job, slice, "tpu-1")
		w.refuse(slice, "FailedCreate", followWords)
		result, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(Equal(lookAgain))
		expectTrue(w.read(job), v1.ConditionPending, v1.ReasonStarting)
		Expect(looks).To(Equal(1))
		Expect(w.events()).To(BeEmpty())

		w.refuse(slice, "FailedCreate", quotaWords)
		got := later(10 * time.Second)
		Expect(expectTrue(got, v1.ConditionPending, v1.ReasonPodsRefused).Message).To(Equal(
			"pods of slice 0 cannot be created; it is tried again: the pod is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"))
		Expect(w.events()).To(ConsistOf(HavePrefix("Warning JobPending pods of slice 0 cannot be created")))

		w.workerPod(job, slice, "tpu-2")
		expectTrue(later(10*time.Second), v1.ConditionPending, v1.ReasonStarting)
	})

	It("of the slices' Jobs is told once they could be there", func(ctx SpecContext) {
		begin(ctx)
		w.childJob(job, v1.HeadReplicatedJob, 0, 1)
		head := w.headPod(job, func(s *corev1.PodStatus) { s.Conditions[0].Status = corev1.ConditionFalse })
		later(10 * time.Minute)
		expectTrue(w.read(job), v1.ConditionPending, v1.ReasonStarting)
		Expect(looks).To(BeZero(), "the Jobs wait for the head")

		w.setPodStatus(head, func(s *corev1.PodStatus) {
			s.Conditions[0].Status, s.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(w.clock.Now())
		})
		w.refuse(w.jobSet(job), "JobCreationFailed", `job "train-worker-0" creation failed with error: Job.batch "train-worker-0" is invalid: spec.template.spec.nodeSelector: Invalid value: "c d"`)
		w.step(job)
		Expect(looks).To(BeZero())
		got := later(10 * time.Second)
		Expect(expectTrue(got, v1.ConditionPending, v1.ReasonPodsRefused).Message).To(Equal(
			`the Jobs of 2 slices cannot be created; correct the manifest, then delete the PathwaysJob and create it again: ` +
				`Job.batch "train-worker-0" is invalid: spec.template.spec.nodeSelector: Invalid value: "c d"`))
	})

	It("is not told of an earlier time", func(ctx SpecContext) {
		begin(ctx)
		w.childJob(job, v1.HeadReplicatedJob, 0, 1)
		w.refuse(w.jobSet(job), "JobCreationFailed", `services "train" is forbidden`)
		later(10 * time.Second)
		w.headPod(job, func(s *corev1.PodStatus) { s.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Now()) })
		expectTrue(later(10*time.Second), v1.ConditionPending, v1.ReasonStarting)
		Expect(looks).To(Equal(2))
	})

	It("that no event tells is guessed", func(ctx SpecContext) {
		begin(ctx)
		expectTrue(later(silent/2), v1.ConditionPending, v1.ReasonStarting)
		Expect(expectTrue(later(silent), v1.ConditionPending, v1.ReasonJobsMissing).Message).To(Equal(
			"JobSet has not created the head's Job, and no event tells why: look whether its controller runs, and what it logs"))
	})

	It("does not end that a job is Running, and is told there", func(ctx SpecContext) {
		begin(ctx)
		w.childJob(job, v1.HeadReplicatedJob, 0, 1)
		w.headPod(job, nil)
		w.slice(job, 0, true)
		slice := w.slice(job, 1, true)
		w.slicesReady(job, metav1.ConditionTrue)
		expectTrue(w.step(job), v1.ConditionRunning, v1.ReasonRunning)
		later(time.Hour)
		Expect(looks).To(BeZero())

		slice.Status.Active, slice.Status.Ready = 0, ptr.To[int32](0)
		Expect(admin.Status().Update(w.ctx, slice)).To(Succeed())
		w.slicesReady(job, metav1.ConditionFalse)
		w.refuse(slice, "FailedCreate", quotaWords)
		got := later(time.Minute)
		Expect(expectTrue(got, v1.ConditionRunning, v1.ReasonRunning).Message).To(Equal(
			"the head runs and the slices have started; but pods of slice 1 cannot be created; it is tried again: " +
				"the pod is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"))
	})
})

// refuse tells, as the parent's controller does, that it could not create
// something.
func (w *world) refuse(parent client.Object, reason, words string) {
	GinkgoHelper()
	now := metav1.NewTime(w.clock.Now())
	Expect(admin.Create(w.ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "refusal-", Namespace: w.namespace},
		InvolvedObject: corev1.ObjectReference{Namespace: w.namespace, Name: parent.GetName(), UID: parent.GetUID()},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: words, FirstTimestamp: now, LastTimestamp: now,
	})).To(Succeed())
}

// workerPod makes a pod of a slice, on a node or not.
func (w *world) workerPod(job client.Object, slice *batchv1.Job, node string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: slice.Name + "-", Namespace: w.namespace,
			Labels: w.labels(job, v1.WorkerReplicatedJob, slice.Labels[jobsetv1alpha2.JobIndexKey]),
		},
		Spec: slice.Spec.Template.Spec,
	}
	pod.Labels[batchv1.JobNameLabel] = slice.Name
	pod.Spec.NodeName = node
	Expect(admin.Create(w.ctx, pod)).To(Succeed())
	return pod
}

// slicesReady sets the condition that the other controller sets.
func (w *world) slicesReady(job client.Object, status metav1.ConditionStatus) {
	GinkgoHelper()
	got := w.read(job)
	got.Status.Conditions = append(got.Status.Conditions[:len(exclusive)], metav1.Condition{
		Type: v1.ConditionSlicesReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(w.clock.Now()),
	})
	Expect(admin.Status().Update(w.ctx, got)).To(Succeed())
}
