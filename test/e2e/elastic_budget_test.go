//go:build e2e

package e2e

import (
	"context"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

// crashes makes a worker of a slice exit so often, each time with 1.
func (w *world) crashes(ctx context.Context, job string, slice, worker, times int) {
	GinkgoHelper()
	pods, err := w.workers(ctx, job, slice)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.AnnotatePod(ctx, clientKey(&pods[worker]), map[string]string{
		cluster.ExitCode: "1", cluster.ExitMessage: "boom", cluster.RestartAfter: "500ms", cluster.ExitTimes: strconv.Itoa(times),
	})).To(Succeed())
}

// patch changes the spec of a job.
func (w *world) patch(ctx context.Context, job, path, value string) {
	GinkgoHelper()
	_, err := w.Kubectl(ctx, "patch", "--namespace", w.namespace, "pathwaysjob", job, "--type=json", "-p",
		`[{"op":"replace","path":"`+path+`","value":`+value+`}]`)
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("A slice whose workers crash too often", func() {
	It("is Lost, the job goes on, and a raised budget brings it back", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(2), 1)
		w.crashes(ctx, p.name, 1, 1, 3)
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(chargeable).Should(And(
			haveSlice(1, v1.SliceLost, v1.ReasonWorkerFailed), haveRestarts(1, 3),
			haveCondition(v1.ConditionSlicesReady, metav1.ConditionFalse, string(v1.SliceLost)),
			haveMessage(v1.ConditionSlicesReady, And(
				ContainSubstring("Worker 1 exited with code 1: boom"), ContainSubstring("used up its restart budget (3 of 2)"))),
			haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(HavePrefix("SliceLost: Slice 1: ")))
		Eventually(func(ctx context.Context) ([]corev1.Pod, error) { return w.workers(ctx, p.name, 1) }).WithContext(ctx).Should(BeEmpty())
		Eventually(func(ctx context.Context) (*int32, error) {
			j, err := w.childJob(ctx, p.name, 1)
			if err != nil {
				return nil, err
			}
			return j.Spec.Parallelism, nil
		}).WithContext(ctx).Should(HaveValue(BeZero()))
		Consistently(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceLost, v1.ReasonWorkerFailed))

		w.patch(ctx, p.name, "/spec/workers/0/maxSliceRestarts", "3")
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceReady, ""), haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, "")))
		p.before.SliceRestarts[1] = 3
		p.unharmed(ctx)
	})

	It("is revived by name", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		p.crash(ctx, 0, "boom")
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(chargeable).Should(haveSlice(1, v1.SliceLost, v1.ReasonWorkerFailed))
		p.annotate(ctx, v1.AnnotationReplaceSlice, "1")
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceReady, ""), haveRestarts(1, 0), HaveField("Annotations", Not(HaveKey(v1.AnnotationReplaceSlice)))))
		p.unharmed(ctx)
	})

	It("costs a charged whole restart where more are lost than may be missing", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(3).MaxSliceRestarts(0).MaxRestarts(1), 0)
		w.crashes(ctx, p.name, 0, 1, 1)
		w.crashes(ctx, p.name, 1, 0, 1)
		job := w.restarted(ctx, p, chargeable)
		js, err := w.jobSet(ctx, p.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(js.Status.RestartsCountTowardsMax).To(BeEquivalentTo(1), "it is charged")
		for i := range 3 {
			Expect(job).To(haveRestarts(i, 0))
			Expect(sliceStatus(job, i).PendingCharges).To(BeEmpty())
		}
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("JobRestarting: "), ContainSubstring("Worker "), ContainSubstring("exited with code 1: boom"),
			ContainSubstring("2 slices are lost, more than the 1 that may be missing"), ContainSubstring("charged: 0 of 1 whole restarts are used"))))
		p.clean(ctx)
	})

	It("fails a job without restarts left, and the message tells why", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.makeJob("train").Workers(machine, shape, 2), 1)
		w.crashes(ctx, p.name, 1, 1, 5)
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(chargeable).Should(And(
			haveCondition(v1.ConditionFailed, metav1.ConditionTrue, v1.ReasonSliceFailed),
			haveMessage(v1.ConditionFailed, And(
				ContainSubstring("slice 1 failed (WorkerFailed)"), ContainSubstring("Worker 1 exited with code 1: boom"),
				ContainSubstring("5 times"), ContainSubstring("maxRestarts is 0")))))
		Expect(p.seen.states(0)).NotTo(ContainElement(Or(HavePrefix("Restarting"), HavePrefix("Replacing"), HavePrefix("Lost"))))
		p.clean(ctx)
	})
})

// restarted waits until the whole job was restarted once, and runs again.
func (w *world) restarted(ctx context.Context, p *patient, timeout time.Duration) *v1.PathwaysJob {
	GinkgoHelper()
	Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(timeout).Should(And(
		HaveField("Status.Restarts", HaveValue(BeEquivalentTo(1))),
		haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""),
		haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""),
		haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
	head, err := w.head(ctx, p.name)
	Expect(err).NotTo(HaveOccurred())
	Expect(head.UID).NotTo(Equal(p.before.Head))
	return p.current(ctx)
}

var _ = Describe("A job in which more slices are down than may be missing", func() {
	It("is not Healthy, and waits", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(3).MaxSliceRestarts(0), 0)
		other := sliceStatus(p.current(ctx), 1).NodePool
		before := w.snapshot(ctx, p.name, 0, 1)
		Expect(w.DeletePool(ctx, p.pool)).To(Succeed())
		Expect(w.DeletePool(ctx, other)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(recovery).Should(And(
			haveSlice(0, v1.SliceSuspended, v1.ReasonHostFailed), haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed),
			haveCondition(v1.ConditionHealthy, metav1.ConditionFalse, "SlicesDown"),
			haveMessage(v1.ConditionHealthy, Equal("2 slices are down, and 1 may be (elasticSlices). The client waits for them.")),
			haveCondition(v1.ConditionRunning, metav1.ConditionTrue, "")))
		Consistently(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(2, v1.SliceReady, ""), haveCondition(v1.ConditionHealthy, metav1.ConditionFalse, "SlicesDown")))
		createPool(ctx, w.Cluster, w.reserved(cluster.TPUPool(other, machine, shape)))
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(recovery).Should(And(
			haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, ""), HaveField("Status.SliceSummary", "2/3")))
		createPool(ctx, w.Cluster, w.reserved(cluster.TPUPool(p.pool, machine, shape)))
		Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(recovery).Should(haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""))
		Expect(w.snapshot(ctx, p.name, 0, 1)).To(Equal(before))
		Expect(p.seen.states(2)).To(BeEmpty())
		p.clean(ctx)
	})
})

var _ = Describe("A headless job", func() {
	It("runs on, uncharged, when its client disconnects and all workers exit with 1", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.makeJob("train").Workers(machine, shape, 2).Headless(), 1)
		all := w.snapshot(ctx, p.name)
		for slice := range 2 {
			for worker := range 2 {
				w.crashes(ctx, p.name, slice, worker, 2)
			}
		}
		Eventually(p.seen.states).WithArguments(0).Should(ContainElement("Restarting WorkerFailed"))
		Eventually(p.seen.states).WithArguments(1).Should(ContainElement("Restarting WorkerFailed"))
		Eventually(func(ctx context.Context) ([]corev1.Pod, error) { return w.workers(ctx, p.name, 1) }).WithContext(ctx).Should(
			HaveEach(HaveField("Status.ContainerStatuses", ConsistOf(HaveField("RestartCount", BeEquivalentTo(2))))))
		Eventually(p.job(p.name)).WithContext(ctx).Should(haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""))
		Expect(p.current(ctx)).To(haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""))
		for i := range 2 {
			Expect(sliceStatus(p.current(ctx), i)).To(And(
				HaveField("PendingCharges", BeEmpty()), HaveField("Restarts", HaveValue(BeZero())), HaveField("Replacements", HaveValue(BeZero()))))
		}
		Expect(w.snapshot(ctx, p.name)).To(Equal(all))
		p.clean(ctx)
	})
})
