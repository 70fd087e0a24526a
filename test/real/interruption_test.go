//go:build real

package real

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/test/realcluster/cluster"
	"pathways.domain/pathways-job/test/standin/report"
)

var _ = Describe("A job that is interrupted", Serial, func() {
	It("loses no step by a planned interruption: its program only waits", func(ctx SpecContext) {
		t := newTraining(2)
		t.start(ctx)
		before, head, pool := t.progress(ctx), t.head(ctx).UID, t.readyPool(ctx, 1)
		node := t.workers(ctx, 1)[0].Spec.NodeName

		By("giving notice to the node " + node)
		taint(ctx, node, "cloud.google.com/impending-node-termination")
		t.moves(ctx, 1, pool)
		t.goesOn(ctx)

		got := t.finish(ctx)
		Expect(got.Process).To(Equal(before.process), "the same process")
		Expect(t.head(ctx).UID).To(Equal(head), "the same head")
		Expect(got.Repeated).To(BeZero())
		Expect(got.Events).NotTo(ContainElement(HaveField("Kind", report.SliceDown)))
		Expect(got.FewestSlices).To(Equal(2))
		t.chargedNothing(ctx)
	}, SpecTimeout(8*time.Minute))

	It("trains on with fewer slices while one is down, if it is elastic", func(ctx SpecContext) {
		t := newTraining(2, "--elastic=true", "--minimum_slice_count=1", "--snapshot_interval=5", "--poll_interval=2s")
		t.job.Spec.Controller.ElasticSlices = ptr.To[int32](1)
		t.start(ctx)
		before, head, pool := t.progress(ctx), t.head(ctx).UID, t.readyPool(ctx, 1)
		victim := t.workers(ctx, 1)[0].Spec.NodeName

		By("killing the host " + victim)
		killHost(ctx, victim)
		Eventually(func() string { return t.progress(ctx).slices }).Should(Equal("0"), "training on slice 0 alone")
		t.moves(ctx, 1, pool)
		Eventually(func() string { return t.progress(ctx).slices }).Should(Equal("0 1"), "training on both slices again")

		got := t.finish(ctx)
		Expect(got.Process).To(Equal(before.process), "the same process")
		Expect(t.head(ctx).UID).To(Equal(head), "the same head")
		Expect(got.MostRepeated).To(BeNumerically("<=", 5), "at most the steps since the last snapshot")
		Expect(got.FewestSlices).To(Equal(1))
		Expect(got.MostSlices).To(Equal(2))
		Expect(got.Count(report.ScaledUp)).To(BeNumerically(">=", 1))
		t.chargedNothing(ctx)
	}, SpecTimeout(8*time.Minute))

	It("restarts as a whole from its checkpoint when a host is lost, if it is not elastic", func(ctx SpecContext) {
		t := newTraining(2)
		t.start(ctx)
		t.reaches(ctx, 30)
		before := t.progress(ctx)
		victim := t.workers(ctx, 1)[0].Spec.NodeName

		By("killing the host " + victim)
		killHost(ctx, victim)
		Eventually(func() string { return t.progress(ctx).process }).Should(
			And(Not(BeEmpty()), Not(Equal(before.process))), "another process")
		t.goesOn(ctx)

		got := t.finish(ctx)
		Expect(got.Count(report.Resumed)).To(Equal(1))
		Expect(got.First).To(BeNumerically(">=", before.step-10))
		Expect(ptr.Deref(t.get(ctx).Status.Restarts, 0)).To(BeNumerically("==", 1), "one whole restart, with maxRestarts 0")
	}, SpecTimeout(8*time.Minute))

	It("goes on from where its program checkpointed when its head was drained", func(ctx SpecContext) {
		t := newTraining(1, "--on_sigterm=checkpoint", "--checkpoint_interval=100000")
		t.start(ctx)
		before := t.reaches(ctx, 20)
		head := t.head(ctx)

		By("draining the host of the head")
		DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "uncordon", head.Spec.NodeName) }, NodeTimeout(time.Minute))
		kubectl(ctx, "drain", head.Spec.NodeName, "--pod-selector=jobset.sigs.k8s.io/jobset-name="+t.job.Name, "--timeout=2m")
		Eventually(func() string { return t.progress(ctx).process }).Should(
			And(Not(BeEmpty()), Not(Equal(before.process))), "another process")
		t.goesOn(ctx)
		got := t.finish(ctx)
		Expect(got.Count(report.Resumed)).To(Equal(1))
		Expect(got.First).To(BeNumerically(">", before.step))
		Expect(t.head(ctx).Spec.NodeName).NotTo(Equal(head.Spec.NodeName))
	}, SpecTimeout(8*time.Minute))

	It("is not charged for a head whose pod someone deletes, though the program fails on SIGTERM at once", func(ctx SpecContext) {
		t := newTraining(1)
		t.start(ctx)
		before := t.reaches(ctx, 30)

		By("deleting the pod of the head")
		kubectl(ctx, "-n", t.job.Namespace, "delete", "pod", t.head(ctx).Name, "--wait=false")
		Eventually(func() string { return t.progress(ctx).process }).Should(
			And(Not(BeEmpty()), Not(Equal(before.process))), "another process")
		t.goesOn(ctx)
		Expect(t.finish(ctx).Count(report.Resumed)).To(Equal(1))
		status := t.get(ctx).Status
		Expect(status.Restarts).To(HaveValue(BeEquivalentTo(1)), "one whole restart, with maxRestarts 0")
		Expect(status.JobSet.ChargedRestarts).To(HaveValue(BeZero()))
		Expect(t.events(ctx)).To(ContainElement(HavePrefix("HeadDisrupted: The head is being stopped (its pod was deleted)")))
	}, SpecTimeout(8*time.Minute))

	DescribeTable("saves a slice's state in 20 s", func(ctx SpecContext, grace int64, saved bool) {
		t := newTraining(1)
		t.job.Spec.Workers[0].TerminationGracePeriodSeconds = &grace
		t.start(ctx)
		before, pool := t.reaches(ctx, 20), t.readyPool(ctx, 0)
		logs := t.follow(ctx, t.workers(ctx, 0)[0].Name, v1.ContainerWorker)
		t.slowSaves(ctx, 20*time.Second)
		taint(ctx, t.workers(ctx, 0)[0].Spec.NodeName, "cloud.google.com/impending-node-termination")
		Eventually(logs.ended, "2m").Should(BeTrue(), "the worker has ended")
		Expect(logs.String()).To(ContainSubstring("SIGTERM: saving to"))
		t.slowSaves(ctx, 0)
		if !saved {
			Expect(logs.String()).NotTo(ContainSubstring("SUSPENDED to"))
			By("restarting the whole job, and saying why")
			Eventually(func() string { return t.progress(ctx).process }).Should(
				And(Not(BeEmpty()), Not(Equal(before.process))), "another process")
			t.goesOn(ctx)
			Expect(t.finish(ctx).Count(report.Resumed)).To(Equal(1))
			Expect(t.get(ctx).Status.History).To(ContainElement(And(
				HaveField("Reason", v1.ReasonNodeTerminating), HaveField("StateLost", HaveValue(BeTrue())))))
			Expect(t.events(ctx)).To(ContainElement(MatchRegexp(`^JobRestarting: Slice 0: Worker [01] was killed before it had saved ` +
				`the slice's state: its grace period of 5 s was too short\. The job is not elastic\. The whole job restarts; this is not charged\.$`)))
			return
		}
		Expect(logs.String()).To(ContainSubstring("SUSPENDED to"))
		t.moves(ctx, 0, pool)
		for _, p := range t.workers(ctx, 0) {
			Expect(t.log(ctx, p.Name, v1.ContainerWorker)).To(ContainSubstring("RESUMED from"))
		}
		t.goesOn(ctx)
		got := t.finish(ctx)
		Expect(got.Process).To(Equal(before.process), "the same process")
		Expect(got.Repeated).To(BeZero())
		for _, e := range t.get(ctx).Status.History {
			Expect(e.StateLost).To(BeNil())
		}
	},
		Entry("with a grace period of 30 s", int64(30), true, SpecTimeout(8*time.Minute)),
		Entry("not with one of 5 s", int64(5), false, SpecTimeout(8*time.Minute)),
	)
})

// kubectl runs kubectl as administrator.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	bin, err := cluster.Programs(ctx)
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), append([]string{"--kubeconfig=" + cluster.Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

// readyPool waits until a slice is Ready and returns its pool.
func (t *training) readyPool(ctx context.Context, slice int) string {
	GinkgoHelper()
	pool := ""
	Eventually(func() string {
		pool = t.pool(ctx, slice)
		return pool
	}).WithContext(ctx).ShouldNot(BeEmpty(), "slice %d is Ready", slice)
	return pool
}

// moves waits until a slice is Ready on another pool.
func (t *training) moves(ctx context.Context, slice int, from string) {
	GinkgoHelper()
	Eventually(func() string { return t.pool(ctx, slice) }).WithContext(ctx).Should(
		And(Not(BeEmpty()), Not(Equal(from))), "slice %d is Ready on another pool than %s", slice, from)
}

func (t *training) chargedNothing(ctx context.Context) {
	GinkgoHelper()
	status := t.get(ctx).Status
	Expect(ptr.Deref(status.Restarts, 0)).To(BeZero(), "whole restarts")
	for _, s := range status.Slices {
		Expect(ptr.Deref(s.Restarts, 0)).To(BeZero(), "charged restarts of slice %d", *s.Index)
	}
}

// taint gives notice to a node, and takes it back after the spec.
func taint(ctx context.Context, name, key string) {
	GinkgoHelper()
	change := func(ctx context.Context, fn func([]corev1.Taint) []corev1.Taint) func() error {
		return func() error {
			node := &corev1.Node{}
			if err := k8s.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
				return err
			}
			node.Spec.Taints = fn(node.Spec.Taints)
			return k8s.Update(ctx, node)
		}
	}
	Eventually(change(ctx, func(all []corev1.Taint) []corev1.Taint {
		return append(all, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	})).Should(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Eventually(change(ctx, func(all []corev1.Taint) []corev1.Taint {
			var kept []corev1.Taint
			for _, t := range all {
				if t.Key != key {
					kept = append(kept, t)
				}
			}
			return kept
		})).Should(Succeed())
	}, NodeTimeout(time.Minute))
}

// killHost ends a host, and starts it again after the spec.
func killHost(ctx context.Context, name string) {
	GinkgoHelper()
	host, err := cluster.Find(name)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { wholeAgain(ctx, name) }, NodeTimeout(3*time.Minute))
	Expect(host.Kill(ctx)).To(Succeed())
}
