package controller

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/statuspatch"
)

var _ = Describe("a JobSet of the job's name", func() {
	foreign := func(w *world, owner []metav1.OwnerReference) *jobsetv1alpha2.JobSet {
		GinkgoHelper()
		jobSet, err := render.JobSet(w.job("train").Obj(), render.Options{})
		Expect(err).NotTo(HaveOccurred())
		jobSet.OwnerReferences = owner
		// As google/pathways-job makes them.
		jobSet.Spec.ReplicatedJobs[1].DependsOn = nil
		jobSet.Spec.StartupPolicy = &jobsetv1alpha2.StartupPolicy{StartupPolicyOrder: jobsetv1alpha2.InOrder}
		Expect(admin.Create(w.ctx, jobSet)).To(Succeed())
		return jobSet
	}

	It("that is somebody else's is left alone and fails the job until it goes", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		theirs := foreign(w, nil)
		job := w.create(w.job("train").Obj())
		got := w.step(job)
		c := expectTrue(got, v1.ConditionFailed, v1.ReasonJobSetNotOwned)
		Expect(c.Message).To(ContainSubstring("a JobSet train exists that is not this job's"))
		Expect(got.Status.TerminalState).To(BeEmpty())
		Expect(w.jobSet(job).ResourceVersion).To(Equal(theirs.ResourceVersion))
		Expect(w.events()).To(ConsistOf(HavePrefix("Warning JobFailed")))

		w.removeJobSet(job)
		expectTrue(w.step(job), v1.ConditionPending, v1.ReasonStarting)
		Expect(metav1.IsControlledBy(w.jobSet(job), got)).To(BeTrue())
	})

	It("of an earlier job of that name is waited for", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		foreign(w, []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion.String(), Kind: "PathwaysJob", Name: "train", UID: "earlier", Controller: ptr.To(true),
		}})
		job := w.create(w.job("train").Obj())
		expectTrue(w.step(job), v1.ConditionPending, v1.ReasonNameInUse)
		w.removeJobSet(job)
		expectTrue(w.step(job), v1.ConditionPending, v1.ReasonStarting)
	})

	It("with our UID is adopted, and the peer's false Failed is not believed", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Obj())
		foreign(w, []metav1.OwnerReference{*metav1.NewControllerRef(job, v1.GroupVersion.WithKind("PathwaysJob"))})
		job.Status.TerminalState = "Failed"
		Expect(admin.Status().Update(ctx, job)).To(Succeed())
		got := w.step(job)
		expectTrue(got, v1.ConditionPending, v1.ReasonStarting)
		Expect(got.Status.TerminalState).To(BeEmpty())
		Expect(got.Status.JobSet.UID).To(Equal(w.jobSet(job).UID))
		Expect(w.events()).To(ConsistOf(HavePrefix("Normal JobSetAdopted")))
		before := w.read(job).ResourceVersion
		w.step(job)
		Expect(w.read(job).ResourceVersion).To(Equal(before))
	})

	It("of the peer that is gone leaves its terminal state", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Obj())
		job.Status.TerminalState = "Completed"
		Expect(admin.Status().Update(ctx, job)).To(Succeed())
		got := w.step(job)
		expectTrue(got, v1.ConditionCompleted, v1.ReasonEndedBefore)
		Expect(w.jobSet(job)).To(BeNil())
	})

	It("is read by the type of its conditions, known or not, in any order", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, _ := w.running(w.job("train").Obj())
		for _, order := range [][]string{
			{"Unheard", "Completed", "StartupPolicyCompleted"},
			{"StartupPolicyCompleted", "Completed", "Unheard"},
		} {
			w.setJobSetStatus(job, func(s *jobsetv1alpha2.JobSetStatus) {
				s.Conditions = nil
				for _, t := range order {
					status := metav1.ConditionTrue
					if t == "Completed" {
						status = metav1.ConditionFalse
					}
					s.Conditions = append(s.Conditions, metav1.Condition{Type: t, Status: status, Reason: "Test", LastTransitionTime: metav1.Now()})
				}
			})
			expectTrue(w.step(job), v1.ConditionRunning, v1.ReasonRunning)
		}
	})
})

var _ = Describe("a Service of the job's name", func() {
	service := func(w *world, owner ...metav1.OwnerReference) *corev1.Service {
		GinkgoHelper()
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: w.namespace, OwnerReferences: owner},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"of": "somebody"}},
		}
		Expect(admin.Create(w.ctx, s)).To(Succeed())
		return s
	}
	ofJobSet := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: jobsetv1alpha2.SchemeGroupVersion.String(), Kind: "JobSet", Name: "train", UID: uid, Controller: ptr.To(true)}
	}

	It("that is somebody else's keeps the job from starting until it is gone", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		theirs := service(w)
		job := w.create(w.job("train").Obj())
		result, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(Equal(lookAgain))
		Expect(expectTrue(w.read(job), v1.ConditionPending, v1.ReasonNameInUse).Message).To(Equal(
			"a Service train exists that is not this job's, and its pods need one of that name: delete it and the job starts, or create the job under another name"))
		Expect(w.jobSet(job)).To(BeNil())
		Expect(w.events()).To(ConsistOf(HavePrefix("Warning JobPending a Service train exists")))

		Expect(admin.Delete(ctx, theirs)).To(Succeed())
		expectTrue(w.step(job), v1.ConditionPending, v1.ReasonStarting)
		Expect(w.jobSet(job)).NotTo(BeNil())
	})

	It("of an earlier JobSet is waited for, and that is no warning", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		earlier := service(w, ofJobSet("earlier"))
		job := w.create(w.job("train").Obj())
		result, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(Equal(time.Second))
		Expect(expectTrue(w.read(job), v1.ConditionPending, v1.ReasonStarting).Message).To(Equal("waits until Service train of an earlier JobSet is deleted"))
		Expect(w.jobSet(job)).To(BeNil())
		Expect(w.events()).To(BeEmpty())

		Expect(admin.Delete(ctx, earlier)).To(Succeed())
		w.step(job)
		Expect(w.jobSet(job)).NotTo(BeNil())
	})

	It("of its JobSet is in nobody's way, though the cache does not know that JobSet yet", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Obj())
		w.step(job)
		uid := w.jobSet(job).UID
		service(w, ofJobSet(uid))
		lagging := interceptor.NewClient(admin, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, ok := obj.(*jobsetv1alpha2.JobSet); ok {
					return apierrors.NewNotFound(jobSets, key.Name)
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		w.r = New(lagging, admin, w.recorder, statuspatch.NewJournal(), render.Options{}, w.clock)
		got := w.step(job)
		expectTrue(got, v1.ConditionPending, v1.ReasonStarting)
		Expect(got.Status.JobSet.UID).To(Equal(uid))
	})
})
