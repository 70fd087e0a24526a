package elastic

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

var _ = Describe("The fence controller", func() {
	fences := func(w *world) *FenceReconciler { return NewFences(indexed{api}, w.options) }
	look := func(ctx context.Context, w *world) {
		GinkgoHelper()
		_, err := fences(w).Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: "spare"}})
		Expect(err).NotTo(HaveOccurred())
	}
	fenced := func(ctx context.Context, change ...func(*wrappers.PathwaysJobWrapper)) *world {
		GinkgoHelper()
		w := newWorld(ctx, 1, change...)
		Expect(w.actor(api).do(ctx, w.job, plan.Action{Kind: plan.FencePool, Pool: "spare"})).To(Succeed())
		return w
	}
	standing := func(ctx context.Context, w *world) int {
		GinkgoHelper()
		n := 0
		for _, name := range []string{"spare-0", "spare-1"} {
			if fenceOf(w.getNode(ctx, name)) != nil {
				n++
			}
		}
		return n
	}

	It("lifts the fence of a pool that is whole", func(ctx SpecContext) {
		w := fenced(ctx)
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
		Expect(w.getNode(ctx, "spare-0").Spec.Taints).To(HaveLen(1), "the taint of TPU nodes stays")
		look(ctx, w)
	})

	It("keeps it while a host is not Ready", func(ctx SpecContext) {
		w := fenced(ctx)
		w.setReady(ctx, "spare-1", corev1.ConditionUnknown)
		look(ctx, w)
		Expect(standing(ctx, w)).To(Equal(2))
		w.setReady(ctx, "spare-1", corev1.ConditionTrue)
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
	})

	It("keeps it while a node is missing, and counts one that comes without it", func(ctx SpecContext) {
		w := fenced(ctx)
		Expect(api.Delete(ctx, w.getNode(ctx, "spare-1"))).To(Succeed())
		look(ctx, w)
		Expect(fenceOf(w.getNode(ctx, "spare-0"))).NotTo(BeNil())
		w.node(ctx, "spare-1", w.getNode(ctx, "spare-0").Labels)
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
	})

	It("keeps it while pods of the job still stop there", func(ctx SpecContext) {
		w := fenced(ctx)
		p := w.pod(ctx, v1.WorkerReplicatedJob, 0, 7, "spare-0")
		Expect(api.Delete(ctx, p, client.GracePeriodSeconds(600))).To(Succeed())
		look(ctx, w)
		Expect(standing(ctx, w)).To(Equal(2))
		Expect(api.Delete(ctx, p, client.GracePeriodSeconds(0))).To(Succeed())
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
	})

	It("lifts it when the job is gone, though the pool is broken", func(ctx SpecContext) {
		w := fenced(ctx)
		w.setReady(ctx, "spare-1", corev1.ConditionUnknown)
		Expect(api.Delete(ctx, w.job)).To(Succeed())
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
	})

	It("leaves no fence on a node where a write was lost", func(ctx SpecContext) {
		w := fenced(ctx)
		failing := interceptor.NewClient(api, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if o.GetName() == "spare-1" {
					return apierrors.NewConflict(corev1.Resource("nodes"), o.GetName(), errNo)
				}
				return c.Patch(ctx, o, p, opts...)
			},
		})
		result, err := NewFences(indexed{failing}, w.options).Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: "spare"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically(">", 0))
		Expect(standing(ctx, w)).To(Equal(1))
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
	})

	It("lifts all fences where fencing is switched off", func(ctx SpecContext) {
		w := fenced(ctx)
		w.setReady(ctx, "spare-1", corev1.ConditionUnknown)
		w.options.FenceSlicePools = false
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
	})

	It("lifts a fence that was for a limited time", func(ctx SpecContext) {
		w := fenced(ctx)
		w.setReady(ctx, "spare-1", corev1.ConditionUnknown)
		job := w.getPathwaysJob(ctx)
		job.Status.Slices = []v1.SliceStatus{{
			Index: ptr.To[int32](0), State: v1.SlicePending, Reason: v1.ReasonPartiallyScheduled,
			Fence: &v1.SliceFence{Pool: "spare", Until: ptr.To(metav1.NewTime(w.clock.Now().Add(5 * time.Minute)))},
		}}
		Expect(api.Status().Update(ctx, job)).To(Succeed())
		result, err := fences(w).Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: "spare"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically("~", 5*time.Minute, time.Second))
		Expect(standing(ctx, w)).To(Equal(2))
		w.clock.Step(5 * time.Minute)
		look(ctx, w)
		Expect(standing(ctx, w)).To(BeZero())
	})
})
