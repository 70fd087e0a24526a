package elastic

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/controller"
)

// The cache, the indexes, the watches and both controllers together, with the
// cache that the operator has.
var _ = Describe("The manager", func() {
	It("reacts to what happens to nodes, pods and Jobs", func(ctx SpecContext) {
		w := newWorld(ctx, 3)
		o := w.options
		o.Clock, o.Workers = clock.RealClock{}, 4
		mgr, err := ctrl.NewManager(config, ctrl.Options{
			Scheme: newScheme(), Cache: controller.CacheOptions(), Metrics: server.Options{BindAddress: "0"},
		})
		Expect(err).NotTo(HaveOccurred())
		run, stop := context.WithCancel(context.Background())
		DeferCleanup(stop)
		Expect(SetupWithManager(run, mgr, o)).To(Succeed())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(run) }()
		DeferCleanup(func() {
			stop()
			Eventually(ended).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
		})
		status := func(g Gomega) v1.PathwaysJobStatus {
			var job v1.PathwaysJob
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(w.job), &job)).To(Succeed())
			return job.Status
		}
		eventually := func(check func(Gomega)) {
			GinkgoHelper()
			Eventually(check).WithTimeout(30 * time.Second).WithPolling(100 * time.Millisecond).Should(Succeed())
		}
		eventually(func(g Gomega) { g.Expect(status(g).SliceSummary).To(Equal("3/3")) })

		By("a container of the head restarting")
		p := w.getPod(ctx, v1.HeadReplicatedJob, 0, 0)
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		p.Status.ContainerStatuses[0].RestartCount = 1
		Expect(api.Status().Update(ctx, p)).To(Succeed())
		eventually(func(g Gomega) {
			for _, c := range status(g).Conditions {
				g.Expect(c.Type == v1.ConditionHealthy && c.Status == "True").To(BeFalse())
			}
		})

		By("a host going silent")
		w.killHost(ctx, "p1")
		eventually(func(g Gomega) {
			g.Expect(status(g).Slices[1].State).To(Equal(v1.SliceReplacing))
			g.Expect(w.getJob(ctx, v1.WorkerReplicatedJob, 1).DeletionTimestamp).NotTo(BeNil())
			g.Expect(fenceOf(w.getNode(ctx, "p1-1"))).NotTo(BeNil())
		})
		Expect(w.getPod(ctx, v1.WorkerReplicatedJob, 0, 0).DeletionTimestamp).To(BeNil())

		By("the job ending: its fence goes, though the pool is broken")
		Expect(api.Delete(ctx, w.job)).To(Succeed())
		eventually(func(g Gomega) {
			for _, name := range []string{"p1-0", "p1-1"} {
				g.Expect(fenceOf(w.getNode(ctx, name))).To(BeNil())
			}
		})
	}, NodeTimeout(2*time.Minute))
})
