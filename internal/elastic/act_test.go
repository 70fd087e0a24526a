package elastic

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
)

// actionCase is one kind of action on a world with one slice.
type actionCase struct {
	action func(context.Context, *world) plan.Action
	// before prepares the world.
	before func(context.Context, *world)
	// done must hold after the action, and after doing it twice.
	done func(context.Context, *world)
	// byName: what it is about has no UID.
	byName bool
}

var actionCases = map[string]actionCase{
	"fence a pool": {
		byName: true,
		action: func(context.Context, *world) plan.Action {
			return plan.Action{Kind: plan.FencePool, Pool: "p0"}
		},
		done: func(ctx context.Context, w *world) {
			for _, name := range []string{"p0-0", "p0-1"} {
				n := w.getNode(ctx, name)
				Expect(n.Spec.Taints).To(HaveLen(2), "the taint of TPU nodes stays")
				Expect(fenceOf(n)).To(HaveField("Value", string(w.job.UID)))
				Expect(fenceOf(n).Effect).To(Equal(corev1.TaintEffectNoSchedule))
			}
			Expect(fenceOf(w.getNode(ctx, "spare-0"))).To(BeNil())
		},
	},
	"delete a child Job": {
		action: childAction(plan.DeleteChildJob),
		done: func(ctx context.Context, w *world) {
			j := w.getJob(ctx, v1.WorkerReplicatedJob, 0)
			Expect(j.DeletionTimestamp).NotTo(BeNil())
			Expect(j.Finalizers).To(ConsistOf(metav1.FinalizerDeleteDependents))
		},
	},
	"delete a child Job and hold it": {
		action: func(ctx context.Context, w *world) plan.Action {
			x := childAction(plan.DeleteChildJob)(ctx, w)
			x.Hold = true
			return x
		},
		done: func(ctx context.Context, w *world) {
			j := w.getJob(ctx, v1.WorkerReplicatedJob, 0)
			Expect(j.DeletionTimestamp).NotTo(BeNil())
			Expect(j.Finalizers).To(ConsistOf(metav1.FinalizerDeleteDependents, v1.FinalizerHold))
		},
	},
	"release a hold": {
		before: func(ctx context.Context, w *world) {
			j := w.getJob(ctx, v1.WorkerReplicatedJob, 0)
			j.Finalizers = append(j.Finalizers, v1.FinalizerHold)
			Expect(api.Update(ctx, j)).To(Succeed())
		},
		action: childAction(plan.ReleaseHold),
		done: func(ctx context.Context, w *world) {
			Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).Finalizers).To(BeEmpty())
		},
	},
	"shorten a pod's grace": {
		action: func(ctx context.Context, w *world) plan.Action {
			x := podAction(plan.ShortenGrace, v1.WorkerReplicatedJob)(ctx, w)
			x.GraceSeconds = 7
			return x
		},
		done: func(ctx context.Context, w *world) {
			Expect(w.getPod(ctx, v1.WorkerReplicatedJob, 0, 0).DeletionGracePeriodSeconds).To(HaveValue(BeEquivalentTo(7)))
		},
	},
	"force-delete a pod": {
		action: podAction(plan.ForceDeletePod, v1.WorkerReplicatedJob),
		done: func(ctx context.Context, w *world) {
			expectGone(ctx, w, podName(v1.WorkerReplicatedJob, 0, 0))
		},
	},
	"delete a Failed leader": {
		action: podAction(plan.DeleteFailedLeaderPod, v1.WorkerReplicatedJob),
		done: func(ctx context.Context, w *world) {
			Expect(w.getPod(ctx, v1.WorkerReplicatedJob, 0, 0).DeletionTimestamp).NotTo(BeNil())
		},
	},
	"hold a lost slice": {
		action: childAction(plan.HoldLost),
		done: func(ctx context.Context, w *world) {
			Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).Spec.Parallelism).To(HaveValue(BeEquivalentTo(0)))
		},
	},
	"release a lost slice": {
		before: func(ctx context.Context, w *world) {
			j := w.getJob(ctx, v1.WorkerReplicatedJob, 0)
			j.Spec.Parallelism = ptr.To[int32](0)
			Expect(api.Update(ctx, j)).To(Succeed())
		},
		action: func(ctx context.Context, w *world) plan.Action {
			x := childAction(plan.ReleaseLost)(ctx, w)
			x.Parallelism = 2
			return x
		},
		done: func(ctx context.Context, w *world) {
			Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).Spec.Parallelism).To(HaveValue(BeEquivalentTo(2)))
		},
	},
	"fail a child Job": {
		action: childAction(plan.FailChildJob),
		done: func(ctx context.Context, w *world) {
			Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).Spec.ActiveDeadlineSeconds).To(HaveValue(BeEquivalentTo(1)))
		},
	},
	"evict the head": {
		action: podAction(plan.EvictHead, v1.HeadReplicatedJob),
		done: func(ctx context.Context, w *world) {
			p := w.getPod(ctx, v1.HeadReplicatedJob, 0, 0)
			Expect(p.DeletionTimestamp).NotTo(BeNil())
			Expect(disruption(p)).To(Equal("EvictionByEvictionAPI"))
		},
	},
	"delete the JobSet to create it again": {
		action: func(_ context.Context, w *world) plan.Action {
			return plan.Action{Kind: plan.RecreateJobSet, UID: w.jobSet.UID}
		},
		done: func(ctx context.Context, w *world) {
			var js jobsetv1alpha2.JobSet
			Expect(api.Get(ctx, client.ObjectKeyFromObject(w.jobSet), &js)).To(Succeed())
			Expect(js.DeletionTimestamp).NotTo(BeNil())
			Expect(js.Finalizers).To(ContainElement(metav1.FinalizerDeleteDependents))
		},
	},
	"mark the head's pod Failed": {
		action: podAction(plan.MarkHeadPodFailed, v1.HeadReplicatedJob),
		done: func(ctx context.Context, w *world) {
			p := w.getPod(ctx, v1.HeadReplicatedJob, 0, 0)
			Expect(p.Status.Phase).To(Equal(corev1.PodFailed))
			Expect(disruption(p)).To(Equal(disruptionHostLost))
			Expect(podCondition(p, corev1.PodReady)).NotTo(BeNil(), "other conditions stay")
		},
	},
	"mark the head's pod disrupted": {
		action: podAction(plan.MarkHeadDisrupted, v1.HeadReplicatedJob),
		done: func(ctx context.Context, w *world) {
			p := w.getPod(ctx, v1.HeadReplicatedJob, 0, 0)
			Expect(disruption(p)).To(Equal(disruptionDeleted))
			Expect(p.Status.Phase).To(Equal(corev1.PodRunning))
			Expect(podCondition(p, corev1.PodReady)).NotTo(BeNil(), "other conditions stay")
		},
	},
	"leave a head alone that its Job stops": {
		byName: true,
		before: func(ctx context.Context, w *world) {
			j := w.getJob(ctx, v1.HeadReplicatedJob, 0)
			j.Spec.Suspend = ptr.To(true)
			Expect(api.Update(ctx, j)).To(Succeed())
		},
		action: podAction(plan.MarkHeadDisrupted, v1.HeadReplicatedJob),
		done: func(ctx context.Context, w *world) {
			Expect(disruption(w.getPod(ctx, v1.HeadReplicatedJob, 0, 0))).To(BeEmpty())
		},
	},
	"delete a pod that lost its Job": {
		action: podAction(plan.DeleteOrphanPod, v1.WorkerReplicatedJob),
		done: func(ctx context.Context, w *world) {
			Expect(w.getPod(ctx, v1.WorkerReplicatedJob, 0, 0).DeletionTimestamp).NotTo(BeNil())
		},
	},
	"take the replace-slice annotation off": {
		byName: true,
		before: func(ctx context.Context, w *world) {
			w.job.Annotations = map[string]string{v1.AnnotationReplaceSlice: "0", "other": "stays"}
			Expect(api.Update(ctx, w.job)).To(Succeed())
		},
		action: func(context.Context, *world) plan.Action {
			return plan.Action{Kind: plan.ClearReplaceSlice, Slice: plan.JobLevel}
		},
		done: func(ctx context.Context, w *world) {
			Expect(w.getPathwaysJob(ctx).Annotations).To(Equal(map[string]string{"other": "stays"}))
		},
	},
}

func childAction(kind plan.ActionKind) func(context.Context, *world) plan.Action {
	return func(ctx context.Context, w *world) plan.Action {
		j := w.getJob(ctx, v1.WorkerReplicatedJob, 0)
		return plan.Action{Kind: kind, Object: j.Name, UID: j.UID}
	}
}

func podAction(kind plan.ActionKind, rj string) func(context.Context, *world) plan.Action {
	return func(ctx context.Context, w *world) plan.Action {
		p := w.getPod(ctx, rj, 0, 0)
		return plan.Action{Kind: kind, Object: p.Name, UID: p.UID, Message: "why"}
	}
}

func expectGone(ctx context.Context, w *world, pod string) {
	GinkgoHelper()
	err := api.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: pod}, &corev1.Pod{})
	Expect(apierrors.IsNotFound(err)).To(BeTrue(), "got %v", err)
}

func (w *world) actor(c client.Client) *actor {
	return &actor{client: indexed{c}, live: c, clock: w.clock}
}

var _ = Describe("An action", func() {
	for name, tc := range actionCases {
		It("does what it says, and may be repeated: "+name, func(ctx SpecContext) {
			w := newWorld(ctx, 1)
			if tc.before != nil {
				tc.before(ctx, w)
			}
			x := tc.action(ctx, w)
			for range 2 {
				Expect(w.actor(api).do(ctx, w.job, x)).To(Succeed())
				tc.done(ctx, w)
			}
		})

		if tc.byName {
			continue
		}
		It("leaves another object of that name alone: "+name, func(ctx SpecContext) {
			w := newWorld(ctx, 1)
			x := tc.action(ctx, w)
			x.UID = types.UID("00000000-0000-0000-0000-000000000000")
			before := w.dump(ctx)
			Expect(w.actor(api).do(ctx, w.job, x)).To(Succeed())
			Expect(w.dump(ctx)).To(Equal(before))
		})
	}

	It("finds its object gone", func(ctx SpecContext) {
		w := newWorld(ctx, 1)
		for name, tc := range actionCases {
			if x := tc.action(ctx, w); x.UID != "" && x.Kind != plan.RecreateJobSet {
				x.Object += "-gone"
				Expect(w.actor(api).do(ctx, w.job, x)).To(Succeed(), name)
			}
		}
	})

	It("keeps a newer replace-slice request", func(ctx SpecContext) {
		w := newWorld(ctx, 1)
		w.job.Annotations = map[string]string{v1.AnnotationReplaceSlice: "0"}
		Expect(api.Update(ctx, w.job)).To(Succeed())
		newer := w.job.DeepCopy()
		newer.Annotations[v1.AnnotationReplaceSlice] = "1"
		Expect(api.Update(ctx, newer)).To(Succeed())
		Expect(w.actor(api).do(ctx, w.job, plan.Action{Kind: plan.ClearReplaceSlice})).To(Succeed())
		Expect(w.getPathwaysJob(ctx).Annotations).To(HaveKeyWithValue(v1.AnnotationReplaceSlice, "1"))
	})

	It("fences by a live read where the cache is out of date, and keeps the new taint", func(ctx SpecContext) {
		w := newWorld(ctx, 1)
		stale := w.getNode(ctx, "p0-0")
		fresh := stale.DeepCopy()
		fresh.Spec.Taints = append(fresh.Spec.Taints, corev1.Taint{Key: "new", Effect: corev1.TaintEffectNoSchedule})
		Expect(api.Update(ctx, fresh)).To(Succeed())
		Expect(w.actor(api).fenceNode(ctx, stale, w.job.UID)).To(Succeed())
		n := w.getNode(ctx, "p0-0")
		Expect(fenceOf(n)).NotTo(BeNil())
		Expect(hasTaint(n, "new")).To(BeTrue())
	})

	It("fences a node that is being deleted, too: the scheduler still chooses it", func(ctx SpecContext) {
		w := newWorld(ctx, 1)
		n := w.getNode(ctx, "p0-0")
		n.Finalizers = []string{"example.com/keep"}
		Expect(api.Update(ctx, n)).To(Succeed())
		Expect(api.Delete(ctx, n)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			n := w.getNode(ctx, "p0-0")
			n.Finalizers = nil
			Expect(api.Update(ctx, n)).To(Succeed())
		})
		Expect(w.actor(api).do(ctx, w.job, plan.Action{Kind: plan.FencePool, Pool: "p0"})).To(Succeed())
		for _, name := range []string{"p0-0", "p0-1"} {
			Expect(fenceOf(w.getNode(ctx, name))).NotTo(BeNil())
		}
	})

	for _, kind := range []plan.ActionKind{plan.FailChildJob, plan.EvictHead, plan.RecreateJobSet} {
		It(fmt.Sprintf("restarts nothing once the program has ended: %s", kind), func(ctx SpecContext) {
			w := newWorld(ctx, 1)
			p := w.getPod(ctx, v1.HeadReplicatedJob, 0, 0)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0}}
			Expect(api.Status().Update(ctx, p)).To(Succeed())
			x := plan.Action{Kind: kind, Slice: plan.JobLevel, Object: p.Name, UID: p.UID}
			switch kind {
			case plan.FailChildJob:
				x = childAction(kind)(ctx, w)
			case plan.RecreateJobSet:
				x.UID = w.jobSet.UID
			}
			before := w.dump(ctx)
			Expect(w.actor(api).do(ctx, w.job, x)).To(Succeed())
			Expect(w.dump(ctx)).To(Equal(before))
		})
	}

	It("waits for the one before it on the same slice, and only for that", func(ctx SpecContext) {
		w := newWorld(ctx, 2)
		broken := interceptor.NewClient(api, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if o.GetName() == "p0-0" {
					return errors.New("no")
				}
				return c.Patch(ctx, o, p, opts...)
			},
		})
		first, second := w.getJob(ctx, v1.WorkerReplicatedJob, 0), w.getJob(ctx, v1.WorkerReplicatedJob, 1)
		err := w.actor(broken).act(ctx, w.job, []plan.Action{
			{Kind: plan.FencePool, Slice: 0, Pool: "p0"},
			{Kind: plan.DeleteChildJob, Slice: 0, Object: first.Name, UID: first.UID},
			{Kind: plan.FencePool, Slice: 1, Pool: "p1"},
			{Kind: plan.DeleteChildJob, Slice: 1, Object: second.Name, UID: second.UID},
			{Kind: plan.RecreateJobSet, Slice: plan.JobLevel, UID: w.jobSet.UID},
		})
		Expect(err).To(MatchError(ContainSubstring("fencing node p0-0: no")))
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 0).DeletionTimestamp).To(BeNil())
		Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 1).DeletionTimestamp).NotTo(BeNil())
		var js jobsetv1alpha2.JobSet
		Expect(api.Get(ctx, client.ObjectKeyFromObject(w.jobSet), &js)).To(Succeed())
		Expect(js.DeletionTimestamp).To(BeNil(), "an action of the whole job waits for all before it")
	})
})

// dump tells the version of every object of the job.
func (w *world) dump(ctx context.Context) []string {
	GinkgoHelper()
	var out []string
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &jobsetv1alpha2.JobSetList{}, &v1.PathwaysJobList{}} {
		Expect(api.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
		items, err := meta.ExtractList(list)
		Expect(err).NotTo(HaveOccurred())
		for _, item := range items {
			o := item.(client.Object)
			out = append(out, fmt.Sprintf("%T %s at %s", o, o.GetName(), o.GetResourceVersion()))
		}
	}
	return out
}
