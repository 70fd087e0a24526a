package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

var _ = Describe("many new jobs at once", func() {
	It("get their JobSets before the first of them gets its status", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		first, second := w.create(w.job("first").Obj()), w.create(w.job("second").Obj())
		w.r.queued.add(client.ObjectKeyFromObject(first))
		w.r.queued.add(client.ObjectKeyFromObject(second))

		result, err := w.reconcile(first)
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(Equal(ctrl.Result{RequeueAfter: giveWay}))
		Expect(w.jobSet(first).UID).NotTo(BeEmpty())
		Expect(w.read(first).Status.Conditions).To(BeEmpty())

		expectTrue(w.step(second), v1.ConditionPending, v1.ReasonStarting)
		expectTrue(w.step(first), v1.ConditionPending, v1.ReasonStarting)
		Expect(w.events()).To(ConsistOf(HavePrefix("Normal JobSetCreated"), HavePrefix("Normal JobSetCreated")))
	})

	It("do not keep back what is wrong with one", func(ctx SpecContext) {
		w := newWorld(ctx, none)
		job := w.create(w.job("train").Suspend(true).Obj())
		w.r.queued.add(types.NamespacedName{Namespace: w.namespace, Name: "other"})
		Expect(w.step(job).Status.State).To(Equal(v1.JobSuspended))
	})
})
