package controller

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/statuspatch"
)

var none interceptor.Funcs

var jobSets = schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}

var _ = Describe("a new job", func() {
	It("gets its JobSet once and all conditions at the first look", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Obj())
		got := w.step(job)
		expectTrue(got, v1.ConditionPending, v1.ReasonStarting)
		jobSet := w.jobSet(job)
		Expect(metav1.IsControlledBy(jobSet, got)).To(BeTrue())
		Expect(jobSet.OwnerReferences[0].BlockOwnerDeletion).To(HaveValue(BeTrue()))
		Expect(got.Status.ProxyAddress).To(Equal("grpc://train-pathways-head-0-0.train." + w.namespace + ".svc:29000"))
		Expect(got.Status.ObservedGeneration).To(Equal(got.Generation))
		Expect(w.events()).To(ConsistOf("Normal JobSetCreated created JobSet train"))
		w.step(job)
		Expect(w.jobSet(job).ResourceVersion).To(Equal(jobSet.ResourceVersion), "the JobSet was written again")
		Expect(w.read(job).ResourceVersion).To(Equal(got.ResourceVersion), "a status without news was written")
	})

	It("runs once its head and slices do, with few writes", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		got, head := w.running(w.job("train").Obj())
		Expect(got.Status.Head).To(HaveValue(Equal(v1.HeadStatus{PodName: head.Name, PodUID: head.UID, NodeName: "cpu-1", Ready: ptr.To(true)})))
		Expect(w.events()).To(HaveLen(2))
		Expect(w.writes).To(BeNumerically("<=", 4), "writes beside two events")
	})

	It("waits for all slices, an elastic one for all but elasticSlices", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		for name, want := range map[string]string{"rigid": v1.ConditionPending, "elastic": v1.ConditionRunning} {
			job := w.job(name).Obj()
			if name == "elastic" {
				job.Spec.Controller.ElasticSlices = ptr.To[int32](1)
			}
			w.create(job)
			w.step(job)
			w.headPod(job, nil)
			w.slice(job, 0, true)
			w.slice(job, 1, false)
			Expect(string(w.step(job).Status.State)).To(Equal(want), name)
		}
	})

	It("is left alone if somebody else manages it, or if it is being deleted", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.job("other").Obj()
		job.Spec.ManagedBy = ptr.To("example.com/other")
		w.create(job)
		Expect(w.step(job).Status).To(BeZero())
		Expect(w.jobSet(job)).To(BeNil())

		job = w.job("going").Obj()
		job.Finalizers = []string{"example.com/hold"}
		w.create(job)
		Expect(admin.Delete(ctx, job)).To(Succeed())
		Expect(w.step(job).Status).To(BeZero())
		Expect(w.jobSet(job)).To(BeNil())
	})
})

var _ = Describe("API errors", func() {
	It("creates nothing while the JobSet cannot be read, and says why", func(ctx SpecContext) {
		for name, fault := range map[string]error{
			"timeout":   apierrors.NewTimeoutError("too slow", 1),
			"forbidden": apierrors.NewForbidden(jobSets, "train", nil),
		} {
			broken := true
			w := newWorld(ctx, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if _, ok := obj.(*jobsetv1alpha2.JobSet); ok && broken {
						return fault
					}
					return c.Get(ctx, key, obj, opts...)
				},
			})
			job := w.create(w.job("train").Obj())
			_, err := w.reconcile(job)
			Expect(err).To(MatchError(ContainSubstring(fault.Error())), name)
			c := expectTrue(w.read(job), v1.ConditionPending, v1.ReasonReadFailed)
			Expect(c.Message).To(ContainSubstring(fault.Error()))
			Expect(w.jobSet(job)).To(BeNil())
			Expect(w.read(job).Status.TerminalState).To(BeEmpty())

			broken = false
			expectTrue(w.step(job), v1.ConditionPending, v1.ReasonStarting)
			Expect(w.jobSet(job)).NotTo(BeNil())
		}
	})

	It("keeps a job Running whose JobSet cannot be read", func(ctx SpecContext) {
		broken := false
		w := newWorld(ctx, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, ok := obj.(*jobsetv1alpha2.JobSet); ok && broken {
					return apierrors.NewTimeoutError("too slow", 1)
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		job, _ := w.running(w.job("train").Obj())
		broken = true
		_, err := w.reconcile(job)
		Expect(err).To(HaveOccurred())
		expectTrue(w.read(job), v1.ConditionRunning, v1.ReasonReadFailed)
		broken = false
		expectTrue(w.step(job), v1.ConditionRunning, v1.ReasonRunning)
	})

	It("tells the API server's words if the JobSet is refused, and tries again", func(ctx SpecContext) {
		broken := true
		quota := apierrors.NewForbidden(jobSets, "train", errQuota)
		w := newWorld(ctx, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if broken {
					return quota
				}
				return c.Create(ctx, obj, opts...)
			},
		})
		job := w.create(w.job("train").Obj())
		result, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred(), "a quota is no error of the operator")
		Expect(result.RequeueAfter).To(Equal(lookAgain))
		got := w.read(job)
		c := expectTrue(got, v1.ConditionPending, v1.ReasonCreateRefused)
		Expect(c.Message).To(ContainSubstring("exceeded quota"))
		Expect(got.Status.TerminalState).To(BeEmpty())
		Expect(w.events()).To(ConsistOf(And(HavePrefix("Warning JobPending"), ContainSubstring("exceeded quota"))))
		_, err = w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.events()).To(BeEmpty(), "the same refusal was told twice")

		broken = false
		expectTrue(w.step(job), v1.ConditionPending, v1.ReasonStarting)
	})

	It("says what to do about a JobSet that is refused as invalid, and calls that no error of its own", func(ctx SpecContext) {
		w := newWorld(ctx, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return apierrors.NewInvalid(jobsetv1alpha2.SchemeGroupVersion.WithKind("JobSet").GroupKind(), "train", field.ErrorList{field.Required(field.NewPath("spec"), "")})
			},
		})
		job := w.create(w.job("train").Obj())
		result, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(Equal(lookAgain))
		Expect(expectTrue(w.read(job), v1.ConditionPending, v1.ReasonCreateRefused).Message).To(Equal(
			`its JobSet could not be created; correct the manifest, then delete the PathwaysJob and create it again: JobSet.jobset.x-k8s.io "train" is invalid: spec: Required value`))
	})

	It("makes no JobSet in a namespace that is being deleted, and calls that no error", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Obj())
		w.step(job)
		Expect(admin.Delete(ctx, w.jobSet(job))).To(Succeed())
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
		got := w.step(job)
		Expect(expectTrue(got, v1.ConditionPending, v1.ReasonCreateRefused).Message).To(ContainSubstring("is being terminated"))
		Expect(got.Status.Restarts).To(HaveValue(BeZero()))
	})

	It("looks at the events of a namespace once for all jobs that wait for pods", func(ctx SpecContext) {
		looks := 0
		w := newWorld(ctx, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*corev1.EventList); ok {
					looks++
				}
				return c.List(ctx, list, opts...)
			},
		})
		var jobs []*v1.PathwaysJob
		for _, name := range []string{"one", "two", "three"} {
			job := w.create(w.job(name).Obj())
			w.step(job)
			jobs = append(jobs, job)
		}
		looks = 0
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		for _, job := range jobs {
			_, err := w.r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(looks).To(Equal(1))
	})

	It("takes a JobSet of its own that the cache did not know", func(ctx SpecContext) {
		lagging := false
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Obj())
		w.step(job)
		uid := w.jobSet(job).UID
		// A new operator whose cache lags: the first read finds nothing.
		w.r = New(interceptor.NewClient(admin, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, ok := obj.(*jobsetv1alpha2.JobSet); ok && !lagging {
					lagging = true
					return apierrors.NewNotFound(jobSets, key.Name)
				}
				return c.Get(ctx, key, obj, opts...)
			},
		}), admin, w.recorder, statuspatch.NewJournal(), render.Options{}, w.clock)
		got := w.step(job)
		Expect(lagging).To(BeTrue())
		Expect(got.Status.JobSet.UID).To(Equal(uid))
		Expect(got.Status.Restarts).To(HaveValue(BeZero()))
	})
})

var _ = Describe("a finished job", func() {
	It("stays Completed and never starts again", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, _ := w.running(w.job("train").Obj())
		w.events()
		w.finish(job, jobsetv1alpha2.JobSetCompleted)
		got := w.step(job)
		expectTrue(got, v1.ConditionCompleted, v1.ReasonSucceeded)
		Expect(got.Status.TerminalState).To(Equal("Completed"))
		Expect(got.Status.CompletionTime).NotTo(BeNil())
		Expect(w.events()).To(ConsistOf(HavePrefix("Normal JobCompleted")))

		w.removeJobSet(job)
		expectTrue(w.step(job), v1.ConditionCompleted, v1.ReasonSucceeded)
		// Nor after a restart of the operator.
		w.r = New(admin, admin, w.recorder, statuspatch.NewJournal(), render.Options{}, w.clock)
		expectTrue(w.step(job), v1.ConditionCompleted, v1.ReasonSucceeded)
		Expect(w.jobSet(job)).To(BeNil())
		Expect(w.events()).To(BeEmpty())
	})

	It("is not started again by a stale read either", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, _ := w.running(w.job("train").Obj())
		stale := w.read(job)
		w.finish(job, jobsetv1alpha2.JobSetCompleted)
		w.step(job)
		w.removeJobSet(job)
		w.r = New(interceptor.NewClient(admin, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if into, ok := obj.(*v1.PathwaysJob); ok {
					stale.DeepCopyInto(into)
					return nil
				}
				return c.Get(ctx, key, obj, opts...)
			},
		}), admin, w.recorder, statuspatch.NewJournal(), render.Options{}, w.clock)
		_, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.jobSet(job)).To(BeNil())
	})

	It("tells what ended it", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job, head := w.running(w.job("train").Obj())
		w.setPodStatus(head, func(s *corev1.PodStatus) {
			s.Phase = corev1.PodFailed
			s.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "no such dataset"}}
		})
		w.finish(job, jobsetv1alpha2.JobSetFailed)
		got := w.step(job)
		c := expectTrue(got, v1.ConditionFailed, v1.ReasonContainerFailed)
		Expect(c.Message).To(Equal("the head's container main ended with exit code 3: no such dataset; maxRestarts is 0"))
		Expect(got.Status.TerminalState).To(Equal("Failed"))
	})

	It("is deleted when its time has come, not before", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.job("train").Obj()
		job.Spec.TTLSecondsAfterFinished = ptr.To[int32](10000)
		job, _ = w.running(job)
		w.finish(job, jobsetv1alpha2.JobSetCompleted)
		w.step(job)
		result, err := w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically("~", 10000*time.Second-time.Hour, time.Minute))
		w.clock.SetTime(w.clock.Now().Add(3 * time.Hour))
		_, err = w.reconcile(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.read(job).DeletionTimestamp).NotTo(BeNil())
	})

	It("is Failed for good if no JobSet can be made of it", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		// As stored by an operator that did not refuse it at once.
		job := w.job("train").Containers(corev1.Container{Name: "a", Image: "example.com/a"}, corev1.Container{Name: "b", Image: "example.com/b"}).Obj()
		job.UID, job.Generation = "uid", 1
		o := &observation{job: job, now: w.clock.Now()}
		Expect(w.r.ensureJobSet(ctx, o)).To(Succeed())
		next := nextStatus(o)
		Expect(next.TerminalState).To(Equal("Failed"))
		Expect(meta.FindStatusCondition(next.Conditions, v1.ConditionFailed).Reason).To(Equal(render.ReasonMainContainerNotFound))
	})
})
