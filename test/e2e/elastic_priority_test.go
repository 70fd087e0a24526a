//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

var _ = Describe("A job of higher priority", func() {
	It("takes a slice's pool as a whole, and the slice resumes when it is done", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		// As the documentation of elastic training defines it.
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high-prior-job"}, Value: 2000, Description: "for high priority jobs"}
		Expect(client.IgnoreAlreadyExists(w.Client.Create(ctx, class))).To(Succeed())
		w.pools2(ctx, "a", "b")
		low := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0).Worker(workerAnnotations(map[string]string{cluster.StopAfter: "3s"})), 0)
		before := []snapshot{low.before, w.snapshot(ctx, low.name, 1)}

		high := w.makeJob("urgent").Workers(machine, shape, 1).Worker(func(s *v1.WorkerSpec) { s.PriorityClassName = class.Name }).
			Template(func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName = class.Name })
		w.create(ctx, high)
		Eventually(w.job("urgent")).WithContext(ctx).WithTimeout(time.Minute + recovery).Should(haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""))
		Eventually(low.job(low.name)).WithContext(ctx).Should(And(
			HaveField("Status.SliceSummary", "1/2"), haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
		job := low.current(ctx)
		low.slice = slices.IndexFunc(job.Status.Slices, func(s v1.SliceStatus) bool { return s.State != v1.SliceReady })
		low.before = before[low.slice]
		was := sliceStatus(job, low.slice)
		low.incarnation = was.ReadyJobUID
		Eventually(low.job(low.name)).WithContext(ctx).Should(haveSlice(low.slice, v1.SliceSuspended, v1.ReasonPreempted))
		Eventually(func(ctx context.Context) ([]corev1.Pod, error) { return w.workers(ctx, low.name, low.slice) }).WithContext(ctx).Should(BeEmpty(), "it is not half running")
		urgent, err := w.get(ctx, "urgent")
		Expect(err).NotTo(HaveOccurred())
		low.pool = sliceStatus(urgent, 0).NodePool
		Expect(low.seen.states(low.slice)).To(ContainElement("Suspending Preempted"))
		Expect(low.seen.gracePeriods(low.slice)).To(Equal([]int64{30}))
		Eventually(low.events(low.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix(fmt.Sprintf("SliceSuspended: Slice %d: ", low.slice)), ContainSubstring("was preempted by pods of a higher priority"))))
		Expect(w.snapshot(ctx, low.name, low.slice)).To(Equal(low.before))

		head, err := w.head(ctx, "urgent")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.ExitContainer(ctx, clientKey(head), cluster.Exit{Container: "main"})).To(Succeed())
		w.completed(ctx, "urgent")
		// It stays away from the nodes that it freed for a minute.
		Eventually(low.job(low.name)).WithContext(ctx).WithTimeout(time.Minute + recovery).Should(haveSlice(low.slice, v1.SliceReady, ""))
		Expect(low.resumes(ctx, v1.ReasonPreempted)).To(Equal(low.pool))
		low.unharmed(ctx)
	})
})

// The longest of all specs: it comes first, so that no process is left alone
// with it.
var _ = Describe("Four slices of 16 VMs", SpecPriority(1), func() {
	It("survive that all are preempted at once, five times, on any budget", func(ctx context.Context) {
		const machine, shape = "ct5p-hightpu-4t", "4x4x4"
		w := newWorld(ctx, shared)
		var pools []string
		for i := range 4 {
			pools = append(pools, w.pool(ctx, fmt.Sprint(i), machine, shape))
		}
		p := w.treat(ctx, w.makeJob("train").Workers(machine, shape, 4).ElasticSlices(4).MaxSliceRestarts(0), 0)
		for round := range 5 {
			By(fmt.Sprintf("preempting all, time %d", round+1))
			job := p.current(ctx)
			for _, pool := range pools {
				Expect(w.Notice(ctx, node(pool, round))).To(Succeed())
			}
			Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(recovery).Should(HaveField("Status.SliceSummary", "0/4"))
			for _, pool := range pools {
				Expect(w.DeletePool(ctx, pool)).To(Succeed())
			}
			Eventually(p.leftoverPods).WithContext(ctx).Should(BeEmpty())
			for _, pool := range pools {
				createPool(ctx, w.Cluster, w.reserved(cluster.TPUPool(pool, machine, shape)))
			}
			// The fifth replacement in a row waits for a minute.
			Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(time.Minute + recovery).Should(And(
				haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""), haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
			for i := range 4 {
				Expect(p.current(ctx)).To(haveOtherIncarnation(i, sliceStatus(job, i).JobUID))
				Expect(p.current(ctx)).To(haveRestarts(i, 0))
			}
		}
		now := w.snapshot(ctx, p.name, 0, 1, 2, 3)
		Expect(now.Head).To(Equal(p.before.Head))
		Expect(now.Restarts + now.Charged).To(BeZero())
		for i := range 4 {
			Expect(p.seen.states(i)).NotTo(ContainElement(HavePrefix("Lost")))
			Expect(ptr.Deref(sliceStatus(p.current(ctx), i).Replacements, 0)).To(BeNumerically(">=", 5))
		}
		p.clean(ctx)
	})
})

// leftoverPods are the terminating pods of this spec.
func (w *world) leftoverPods(ctx context.Context) ([]string, error) {
	all, err := w.leftovers(ctx)
	return slices.DeleteFunc(all, func(s string) bool { return s[:4] == "held" }), err
}
