package controller

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

var _ = Describe("suspension", func() {
	It("follows spec.suspend, and its removal", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, _ := w.running(w.job("train").Obj())
		w.events()
		set := func(value *bool) *v1.PathwaysJob {
			job = w.read(job)
			job.Spec.Suspend = value
			Expect(admin.Update(ctx, job)).To(Succeed())
			return w.step(job)
		}
		expectTrue(set(ptr.To(true)), v1.ConditionSuspended, v1.ReasonSuspendedByUser)
		Expect(w.jobSet(job).Spec.Suspend).To(HaveValue(BeTrue()))
		Expect(w.events()).To(ConsistOf(HavePrefix("Normal JobSuspended")))
		set(nil)
		Expect(w.jobSet(job).Spec.Suspend).To(HaveValue(BeFalse()))
		set(ptr.To(true))
		set(ptr.To(false))
		Expect(w.jobSet(job).Spec.Suspend).To(HaveValue(BeFalse()))
	})

	It("by Kueue is told at once and never fought", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.job("train").Obj()
		job.Labels = map[string]string{labelQueue: "team"}
		job.Spec.Suspend = ptr.To(false)
		w.create(job)
		w.step(job)
		kueue := func(suspend bool) *v1.PathwaysJob {
			jobSet := w.jobSet(job)
			jobSet.Spec.Suspend = ptr.To(suspend)
			Expect(admin.Update(ctx, jobSet)).To(Succeed())
			got := w.step(job)
			Expect(w.jobSet(job).ResourceVersion).To(Equal(jobSet.ResourceVersion), "Kueue's write was answered by one")
			return got
		}
		c := expectTrue(kueue(true), v1.ConditionSuspended, v1.ReasonQueued)
		Expect(c.Message).To(ContainSubstring("spec.active of its Workload"))
		expectTrue(kueue(false), v1.ConditionPending, v1.ReasonStarting)
		expectTrue(kueue(true), v1.ConditionSuspended, v1.ReasonQueued)
		expectTrue(kueue(false), v1.ConditionPending, v1.ReasonStarting)
	})
})

var _ = Describe("a whole restart", func() {
	It("re-creates a JobSet that was deleted under a running job, with what is left of maxRestarts", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.job("train").Obj()
		job.Spec.MaxRestarts = ptr.To[int32](3)
		job, _ = w.running(job)
		w.setJobSetStatus(job, func(s *jobsetv1alpha2.JobSetStatus) { s.Restarts, s.RestartsCountTowardsMax = 4, 2 })
		Expect(w.step(job).Status.Restarts).To(HaveValue(Equal(int32(4))))
		w.events()
		first := w.jobSet(job).UID

		w.removeJobSet(job)
		got := w.step(job)
		Expect(w.jobSet(job).UID).NotTo(Equal(first))
		Expect(w.jobSet(job).Spec.FailurePolicy.MaxRestarts).To(Equal(int32(1)))
		Expect(got.Status.Restarts).To(HaveValue(Equal(int32(5))))
		Expect(got.Status.JobSet.ChargedRestarts).To(HaveValue(Equal(int32(2))))
		Expect(w.events()).To(ContainElement(HavePrefix("Normal JobRestarted restart 5 of the whole job")))

		w.setJobSetStatus(job, func(s *jobsetv1alpha2.JobSetStatus) { s.Restarts, s.RestartsCountTowardsMax = 1, 1 })
		got = w.step(job)
		Expect(got.Status.Restarts).To(HaveValue(Equal(int32(6))))
		Expect(got.Status.JobSet.ChargedRestarts).To(HaveValue(Equal(int32(3))))
	})

	It("follows a head that exits with 0 because it was disrupted", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, head := w.running(w.job("train").Obj())
		w.events()
		// Drained: the condition comes first, then the program checkpoints and
		// ends, and the pod is gone before the JobSet tells that it completed.
		w.setPodStatus(head, func(s *corev1.PodStatus) {
			s.Conditions = append(s.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.Now(),
			})
		})
		got := w.step(job)
		Expect(got.Status.HeadDisruption).To(HaveValue(HaveField("Reason", "EvictionByEvictionAPI")))
		Expect(admin.Delete(ctx, head, client.GracePeriodSeconds(0))).To(Succeed())
		w.finish(job, jobsetv1alpha2.JobSetCompleted)
		got = w.step(job)
		expectTrue(got, v1.ConditionPending, v1.ReasonRestarting)
		Expect(got.Status.TerminalState).To(BeEmpty())
		Expect(w.jobSet(job).DeletionTimestamp).NotTo(BeNil())

		w.removeJobSet(job)
		got = w.step(job)
		Expect(got.Status.Restarts).To(HaveValue(Equal(int32(1))))
		Expect(w.jobSet(job).DeletionTimestamp).To(BeNil())

		// The next head ends by itself.
		w.headPod(job, func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded })
		w.finish(job, jobsetv1alpha2.JobSetCompleted)
		expectTrue(w.step(job), v1.ConditionCompleted, v1.ReasonSucceeded)
	})

	It("follows a head that failed because its pod was deleted, and no other failure", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, head := w.running(w.job("train").Obj())
		w.events()
		Expect(admin.Delete(ctx, head, client.GracePeriodSeconds(30))).To(Succeed()) // stays: no kubelet ends it here
		Expect(w.step(job).Status.HeadDisruption).To(HaveValue(HaveField("Reason", reasonDeleted)))
		failed := func(first string) {
			w.setJobSetStatus(job, func(s *jobsetv1alpha2.JobSetStatus) {
				meta.SetStatusCondition(&s.Conditions, metav1.Condition{
					Type: string(jobsetv1alpha2.JobSetFailed), Status: metav1.ConditionTrue, Reason: "ReachedMaxRestarts",
					Message: "jobset failed due to reaching max number of restarts (first failed job: " + first + ")",
				})
			})
		}
		failed("train-pathways-head-0")
		got := w.step(job)
		expectTrue(got, v1.ConditionPending, v1.ReasonRestarting)
		Expect(got.Status.TerminalState).To(BeEmpty())
		Expect(w.jobSet(job).DeletionTimestamp).NotTo(BeNil())
		Expect(admin.Delete(ctx, head, client.GracePeriodSeconds(0))).To(Succeed())
		w.removeJobSet(job)
		got = w.step(job)
		Expect(got.Status.Restarts).To(HaveValue(Equal(int32(1))))
		Expect(got.Status.JobSet.ChargedRestarts).To(HaveValue(BeZero()))

		w.headPod(job, func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
		failed("train-pathways-head-0")
		expectTrue(w.step(job), v1.ConditionFailed, v1.ReasonJobSetFailed)
	})

	It("follows a head whose deletion was seen, though its kubelet overwrote the time of it before that was written", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, head := w.running(w.job("train").Obj())
		Expect(admin.Delete(ctx, head, client.GracePeriodSeconds(30))).To(Succeed())
		w.clock.SetTime(w.clock.Now().Add(-1700 * time.Millisecond)) // reconcile adds 2 s
		_, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.read(job).Status.HeadDisruption).To(BeNil(), "it had to wait")
		Expect(admin.Delete(ctx, head, client.GracePeriodSeconds(0))).To(Succeed())
		Expect(w.step(job).Status.HeadDisruption).To(HaveValue(HaveField("PodUID", head.UID)))
	})

	It("of a program that failed says why before its pod is gone", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.job("train").Obj()
		job.Spec.MaxRestarts = ptr.To[int32](2)
		job, head := w.running(job)
		w.events()
		w.setPodStatus(head, func(s *corev1.PodStatus) {
			s.Phase = corev1.PodFailed
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
			}}}
		})
		got := w.step(job)
		words := "the head's container main ended with exit code 137 (OOMKilled); 0 of maxRestarts 2 are used"
		Expect(expectTrue(got, v1.ConditionPending, v1.ReasonContainerFailed).Message).To(Equal(words))
		Expect(w.events()).To(ConsistOf("Warning JobPending " + words))

		Expect(admin.Delete(ctx, head, client.GracePeriodSeconds(0))).To(Succeed())
		w.finish(job, jobsetv1alpha2.JobSetFailed)
		Expect(expectTrue(w.step(job), v1.ConditionFailed, v1.ReasonContainerFailed).Message).To(Equal(words))
	})

	It("that was asked for is no end of the job, though nobody saw the head stop", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.job("train").Obj()
		job, head := w.running(job)
		job.Annotations = map[string]string{v1.AnnotationRestart: "now"}
		Expect(admin.Update(ctx, job)).To(Succeed())
		w.step(job)
		Expect(admin.Delete(ctx, head, client.GracePeriodSeconds(0))).To(Succeed())
		w.r.heads.forget(job.UID) // another process goes on
		w.finish(job, jobsetv1alpha2.JobSetCompleted)
		expectTrue(w.step(job), v1.ConditionPending, v1.ReasonRestarting)
	})

	It("that an annotation asks for evicts the head, once", func(ctx SpecContext) {
		evictions := 0
		w := newWorld(ctx, interceptor.Funcs{
			SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
				Expect(sub).To(Equal("eviction"))
				evictions++
				return c.SubResource(sub).Create(ctx, obj, body, opts...)
			},
		})
		job := w.job("train").Obj()
		job.Annotations = map[string]string{v1.AnnotationRestart: "old"}
		job, head := w.running(job)
		Expect(evictions).To(BeZero(), "the value that a job is created with asks for nothing")
		job.Annotations[v1.AnnotationRestart] = "new"
		Expect(admin.Update(ctx, job)).To(Succeed())
		got := w.step(job)
		Expect(evictions).To(Equal(1))
		Expect(got.Status.RestartRequest).To(HaveValue(Equal(v1.RestartRequest{Value: "new", TargetUID: head.UID})))
		w.step(job)
		Expect(evictions).To(Equal(1))
	})

	It("that an annotation asks for deletes the JobSet of a headless job", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.job("notebook").Obj()
		job.Spec.Controller.Template = nil
		job, _ = w.running(job)
		first := w.jobSet(job).UID
		job.Annotations = map[string]string{v1.AnnotationRestart: "now"}
		Expect(admin.Update(ctx, job)).To(Succeed())
		w.step(job)
		Expect(w.jobSet(job).DeletionTimestamp).NotTo(BeNil())
		w.removeJobSet(job)
		w.step(job)
		Expect(w.jobSet(job).UID).NotTo(Equal(first))
		w.step(job)
		Expect(w.jobSet(job).DeletionTimestamp).To(BeNil(), "the request was taken up twice")
	})
})

var _ = Describe("a job with a long name", func() {
	It("waits for a foreign Service to go, and creates nothing meanwhile", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("a-name-of-some-more-than-22-letters").Obj())
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: subdomain(job), Namespace: w.namespace},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		Expect(admin.Create(ctx, service)).To(Succeed())
		c := expectTrue(w.step(job), v1.ConditionPending, v1.ReasonNameInUse)
		Expect(c.Message).To(ContainSubstring(service.Name))
		Expect(w.jobSet(job)).To(BeNil())
		Expect(admin.Delete(ctx, service)).To(Succeed())
		expectTrue(w.step(job), v1.ConditionPending, v1.ReasonStarting)
	})
})

var _ = Describe("the status", func() {
	It("is patched at most once a second", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Obj())
		w.step(job)
		jobSet := w.jobSet(job)
		jobSet.Spec.Suspend = ptr.To(true)
		Expect(admin.Update(ctx, jobSet)).To(Succeed())
		w.clock.SetTime(w.clock.Now().Add(-1700 * time.Millisecond)) // step adds 2 s
		result, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(Equal(700 * time.Millisecond))
		expectTrue(w.read(job), v1.ConditionPending, v1.ReasonStarting)
		expectTrue(w.step(job), v1.ConditionSuspended, v1.ReasonSuspendedByOther)
	})
})
