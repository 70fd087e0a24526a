package elastic

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/testing/wrappers"
	"pathways.domain/pathways-job/internal/tpu"
)

var errNo = errors.New("no")

// killHost makes the first host of a pool Unknown and lets its slice-mate's
// pod be not Ready, as the kubelet's silence does.
func (w *world) killHost(ctx context.Context, pool string) {
	GinkgoHelper()
	w.setReady(ctx, pool+"-0", corev1.ConditionUnknown)
}

// unwritable refuses to write any status.
type unwritable struct{ client.Client }

func (c unwritable) Status() client.SubResourceWriter { return noStatus{c.Client.Status()} }

type noStatus struct{ client.SubResourceWriter }

func (noStatus) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNo
}

// hiding is a cache that does not know a node yet, or no more.
type hiding struct {
	client.Client
	node string
}

func (c hiding) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Node); ok && key.Name == c.node {
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func (c hiding) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if nodes, ok := list.(*corev1.NodeList); ok {
		nodes.Items = slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == c.node })
	}
	return err
}

var _ = Describe("The elastic sub-controller", func() {
	It("sets slices and conditions at its first look", func(ctx SpecContext) {
		w := newWorld(ctx, 2)
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		status := w.getPathwaysJob(ctx).Status
		Expect(status.SliceSummary).To(Equal("2/2"))
		Expect(status.ReadySlices).To(HaveValue(BeEquivalentTo(2)))
		Expect(status.TotalSlices).To(HaveValue(BeEquivalentTo(2)))
		Expect(status.Slices).To(HaveLen(2))
		for i, s := range status.Slices {
			Expect(s.State).To(Equal(v1.SliceReady))
			Expect(s.NodePool).To(Equal([]string{"p0", "p1"}[i]))
		}
		for _, t := range []string{v1.ConditionSlicesReady, v1.ConditionHealthy} {
			c := meta.FindStatusCondition(status.Conditions, t)
			Expect(c).NotTo(BeNil(), t)
			Expect(c.Status).To(BeEquivalentTo("True"), "%s: %s", t, c.Message)
			Expect(c.Reason).NotTo(BeEmpty())
			Expect(c.Message).NotTo(BeEmpty())
		}
	})

	It("sets conditions before there is a JobSet", func(ctx SpecContext) {
		w := newWorld(ctx, 1)
		Expect(api.Delete(ctx, w.jobSet)).To(Succeed())
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		status := w.getPathwaysJob(ctx).Status
		Expect(status.SliceSummary).To(Equal("0/1"))
		Expect(meta.IsStatusConditionFalse(status.Conditions, v1.ConditionSlicesReady)).To(BeTrue())
	})

	It("writes nothing while nothing changes", func(ctx SpecContext) {
		w := newWorld(ctx, 2)
		r := w.reconciler(api)
		for range 2 {
			_, err := w.reconcile(ctx, r)
			Expect(err).NotTo(HaveOccurred())
		}
		before := w.dump(ctx)
		for _, again := range []*Reconciler{r, w.reconciler(api)} {
			_, err := w.reconcile(ctx, again)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(w.dump(ctx)).To(Equal(before))
	})

	It("leaves the jobs of others alone", func(ctx SpecContext) {
		w := newWorld(ctx, 1, func(m *wrappers.PathwaysJobWrapper) { m.ManagedBy("example.com/other") })
		before := w.dump(ctx)
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.dump(ctx)).To(Equal(before))
	})

	It("moves a slice off a dead host, and leaves the others and the head alone", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		r := w.reconciler(api)
		_, err := w.reconcile(ctx, r)
		Expect(err).NotTo(HaveOccurred())
		w.told()
		w.killHost(ctx, "p1")
		_, err = w.reconcile(ctx, r)
		Expect(err).NotTo(HaveOccurred())

		status := w.getPathwaysJob(ctx).Status
		Expect(status.Slices[1].State).To(Equal(v1.SliceReplacing))
		Expect(status.Slices[1].Reason).To(Equal(v1.ReasonHostFailed))
		Expect(status.Slices[1].Replacements).To(HaveValue(BeEquivalentTo(1)))
		Expect(status.Slices[1].Restarts).To(HaveValue(BeEquivalentTo(0)), "nothing is charged")
		Expect(fenceOf(w.getNode(ctx, "p1-0"))).NotTo(BeNil())
		Expect(fenceOf(w.getNode(ctx, "p1-1"))).NotTo(BeNil())
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 1).DeletionTimestamp).NotTo(BeNil())
		expectGone(ctx, w, podName(v1.WorkerReplicatedJob, 1, 0))
		for _, i := range []int{0, 2} {
			Expect(w.getJob(ctx, v1.WorkerReplicatedJob, i).DeletionTimestamp).To(BeNil())
			Expect(w.getPod(ctx, v1.WorkerReplicatedJob, i, 0).DeletionTimestamp).To(BeNil())
		}
		Expect(w.getPod(ctx, v1.HeadReplicatedJob, 0, 0).DeletionTimestamp).To(BeNil())
		Expect(w.told()).To(ConsistOf(ContainSubstring(plan.EventSliceReplacing)))
	})

	It("acts only after it has written what it is about to do", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		w.killHost(ctx, "p0")
		unwritten := unwritable{api}
		before := w.dump(ctx)
		_, err = w.reconcile(ctx, w.reconciler(unwritten))
		Expect(err).To(MatchError(errNo))
		Expect(w.dump(ctx)).To(Equal(before))
		Expect(fenceOf(w.getNode(ctx, "p0-0"))).To(BeNil())
	})

	It("finishes what a killed operator began, and doubles nothing", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		w.told()
		w.killHost(ctx, "p0")
		killed := interceptor.NewClient(api, interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return errNo
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return errNo },
		})
		_, err = w.reconcile(ctx, w.reconciler(killed))
		Expect(err).To(MatchError(errNo))
		status := w.getPathwaysJob(ctx).Status
		Expect(status.Slices[0].State).To(Equal(v1.SliceReplacing))
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).To(BeNil())

		for range 2 {
			_, err = w.reconcile(ctx, w.reconciler(api))
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).NotTo(BeNil())
		Expect(fenceOf(w.getNode(ctx, "p0-1"))).NotTo(BeNil())
		status = w.getPathwaysJob(ctx).Status
		Expect(status.Slices[0].Replacements).To(HaveValue(BeEquivalentTo(1)))
		Expect(status.History).To(HaveLen(1))
		replacing := 0
		for _, e := range w.told() {
			if strings.Contains(e, plan.EventSliceReplacing) {
				replacing++
			}
		}
		Expect(replacing).To(Equal(1))
	})

	It("does not act on a job that has changed since it was read", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		w.killHost(ctx, "p0")
		stale := w.getPathwaysJob(ctx)
		newer := stale.DeepCopy()
		newer.Annotations = map[string]string{v1.AnnotationSliceRepair: v1.SliceRepairDisabled}
		Expect(api.Update(ctx, newer)).To(Succeed())
		behind := interceptor.NewClient(api, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if job, ok := o.(*v1.PathwaysJob); ok {
					stale.DeepCopyInto(job)
					return nil
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		result, err := w.reconcile(ctx, w.reconciler(behind))
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically(">", 0))
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).To(BeNil())
		Expect(fenceOf(w.getNode(ctx, "p0-0"))).To(BeNil())
	})

	for name, change := range map[string]func(*world){
		"DryRun":         func(w *world) { w.options.Mode = plan.DryRun },
		"Off":            func(w *world) { w.options.Mode = plan.Off },
		"the annotation": func(*world) {},
	} {
		It("only observes with "+name, func(ctx SpecContext) {
			w := newWorld(ctx, 3, func(m *wrappers.PathwaysJobWrapper) {
				if name == "the annotation" {
					m.Annotation(v1.AnnotationSliceRepair, v1.SliceRepairDisabled)
				}
			})
			change(w)
			r := w.reconciler(api)
			_, err := w.reconcile(ctx, r)
			Expect(err).NotTo(HaveOccurred())
			Expect(w.getPathwaysJob(ctx).Status.SliceSummary).To(Equal("3/3"))
			w.killHost(ctx, "p0")
			p := w.getPod(ctx, v1.WorkerReplicatedJob, 0, 0)
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			Expect(api.Status().Update(ctx, p)).To(Succeed())
			_, err = w.reconcile(ctx, r)
			Expect(err).NotTo(HaveOccurred())
			Expect(w.getPathwaysJob(ctx).Status.SliceSummary).To(Equal("2/3"))
			Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).To(BeNil())
			Expect(fenceOf(w.getNode(ctx, "p0-0"))).To(BeNil())
			if name == "DryRun" {
				Expect(w.told()).To(ContainElement(ContainSubstring(plan.EventWouldAct)))
			}
		})
	}

	It("believes only a live read that a node is gone", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		lagging := New(indexed{hiding{api, "p0-0"}}, api, w.recorder, w.options)
		_, err = w.reconcile(ctx, lagging)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).To(BeNil())

		Expect(api.Delete(ctx, w.getNode(ctx, "p0-0"))).To(Succeed())
		_, err = w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).NotTo(BeNil())
		Expect(w.getPathwaysJob(ctx).Status.Slices[0].Reason).To(Equal(v1.ReasonHostFailed))
	})

	It("does not take a pool for idle that pods of others use", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		chips := corev1.ResourceList{tpu.Resource: resource.MustParse("4")}
		foreign := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: w.namespace},
			Spec: corev1.PodSpec{NodeName: "spare-1", Containers: []corev1.Container{{
				Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Limits: chips, Requests: chips},
			}}},
		}
		Expect(api.Create(ctx, foreign)).To(Succeed())
		w.killHost(ctx, "p0")
		_, err = w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).To(BeNil(), "there is nowhere to go, and the host may return")

		Expect(api.Delete(ctx, foreign, client.GracePeriodSeconds(0))).To(Succeed())
		_, err = w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).NotTo(BeNil())
	})

	It("releases the holds of a job that is gone", func(ctx SpecContext) {
		w := newWorld(ctx, 1)
		j := w.getJob(ctx, v1.WorkerReplicatedJob, 0)
		j.Finalizers = append(j.Finalizers, v1.FinalizerHold)
		Expect(api.Update(ctx, j)).To(Succeed())
		Expect(api.Delete(ctx, w.job)).To(Succeed())
		_, err := w.reconcile(ctx, w.reconciler(api))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).Finalizers).To(BeEmpty())
	})

	It("waits with a patch that comes too soon after the last", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		r := w.reconciler(api)
		_, err := w.reconcile(ctx, r)
		Expect(err).NotTo(HaveOccurred())
		w.killHost(ctx, "p0")
		result, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.job)})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically("~", time.Second, time.Second))
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).To(BeNil())
	})
})
