//go:build real

package real

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pathways.domain/pathways-job/test/realcluster/cluster"
)

var _ = Describe("Recovery goes on", Serial, func() {
	elastic := func() *training {
		t := newTraining(2, "--elastic=true", "--minimum_slice_count=1", "--poll_interval=2s")
		t.job.Spec.Controller.ElasticSlices = ptr.To[int32](1)
		return t
	}

	It("when the operator's pods are killed while a slice is being moved", func(ctx SpecContext) {
		t := elastic()
		t.start(ctx)
		pool := t.readyPool(ctx, 1)
		t.slowSaves(ctx, 10*time.Second)
		taint(ctx, t.workers(ctx, 1)[0].Spec.NodeName, "cloud.google.com/impending-node-termination")
		Eventually(func() bool {
			for _, p := range t.workers(ctx, 1) {
				if p.DeletionTimestamp != nil {
					return true
				}
			}
			return false
		}).Should(BeTrue(), "the slice is being stopped")
		Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(cluster.OperatorNamespace), client.GracePeriodSeconds(0))).To(Succeed())
		t.moves(ctx, 1, pool)
		t.slowSaves(ctx, 0)
		t.finish(ctx)
		t.chargedNothing(ctx)
	}, SpecTimeout(8*time.Minute))

	It("when the operator's own host is killed", func(ctx SpecContext) {
		leader := leaderPod(ctx)
		t := elastic()
		other := "cpu-0"
		if leader.Spec.NodeName == other {
			other = "cpu-1"
		}
		t.job.Spec.Controller.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: other}
		t.start(ctx)
		pool := t.readyPool(ctx, 1)
		killHost(ctx, leader.Spec.NodeName)
		taint(ctx, t.workers(ctx, 1)[0].Spec.NodeName, "cloud.google.com/impending-node-termination")
		t.moves(ctx, 1, pool)
		t.finish(ctx)
		t.chargedNothing(ctx)
	}, SpecTimeout(8*time.Minute))
})

// leaderPod is the operator's pod that holds its lease.
func leaderPod(ctx context.Context) corev1.Pod {
	GinkgoHelper()
	var leader corev1.Pod
	Eventually(func(g Gomega) {
		var leases coordinationv1.LeaseList
		g.Expect(k8s.List(ctx, &leases, client.InNamespace(cluster.OperatorNamespace))).To(Succeed())
		g.Expect(leases.Items).NotTo(BeEmpty())
		pod, _, _ := strings.Cut(ptr.Deref(leases.Items[0].Spec.HolderIdentity, ""), "_")
		g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: cluster.OperatorNamespace, Name: pod}, &leader)).To(Succeed())
	}).Should(Succeed())
	return leader
}
