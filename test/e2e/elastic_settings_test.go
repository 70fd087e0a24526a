//go:build e2e

package e2e

import (
	"context"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

// restart runs the operator with other flags.
func (e *env) restart(flags ...string) {
	GinkgoHelper()
	Expect(e.operator.Stop()).To(Succeed())
	e.args = append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, flags...)
	e.startAgain()
}

// torment kills the operator at random every few seconds, and starts it
// again, until the returned function is called.
func (e *env) torment() (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2*time.Second + time.Duration(random.Int64N(int64(3*time.Second)))):
				Expect(e.operator.Kill()).To(Succeed())
				e.startAgain()
			}
		}
	}()
	return func() { close(stop); <-ended }
}

var _ = Describe("An operator of its own", Ordered, func() {
	var e *env
	BeforeAll(func(ctx context.Context) {
		e = newEnv(ctx, chart, "--elastic-mode=DryRun")
		createPool(ctx, e.Cluster, cluster.CPUPool("heads", 8))
	})

	It("only says what it would do, in mode DryRun", func(ctx context.Context) {
		w := newWorld(ctx, e.Cluster)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		Expect(p.Notice(ctx, p.node(1))).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(HaveField("Status.Slices", ContainElement(And(
			HaveField("State", v1.SliceReady), HaveField("Reason", v1.ReasonNodeTerminating),
			HaveField("Message", ContainSubstring("DryRun: in mode Enforce, the slice would be given up"))))))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("WouldAct: Slice 1: "), ContainSubstring("is being terminated"))))
		Expect(p.Untaint(ctx, p.node(1), cluster.TaintImpendingTermination.Key)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceReady, ""))

		Expect(p.Taint(ctx, p.node(1), cluster.TaintShutdown)).To(Succeed())
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("WouldAct: Slice 1: "), ContainSubstring("is shut down"))))
		Consistently(p.fences).WithContext(ctx).Should(BeEmpty())
		Expect(p.Untaint(ctx, p.node(1), cluster.TaintShutdown.Key)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceReady, ""))
		p.untouched(ctx)
	})

	It("only tells the state, in mode Off", func(ctx context.Context) {
		e.restart("--elastic-mode=Off")
		w := newWorld(ctx, e.Cluster)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		Expect(p.Taint(ctx, p.node(1), cluster.TaintShutdown)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed),
			haveMessage(v1.ConditionSlicesReady, ContainSubstring("Repair is switched off"))))
		Consistently(p.fences).WithContext(ctx).Should(BeEmpty())
		Expect(p.Untaint(ctx, p.node(1), cluster.TaintShutdown.Key)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceReady, ""))
		p.untouched(ctx)
		Expect(p.events(p.name)(ctx)).NotTo(ContainElement(HavePrefix("WouldAct")))
	})

	It("moves a slice whose host is not Ready for longer than --not-ready-grace", func(ctx context.Context) {
		e.restart("--not-ready-grace=5s")
		w := newWorld(ctx, e.Cluster)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		Expect(p.SetNotReady(ctx, p.node(1), "PLEG is not healthy")).To(Succeed())
		p.moves(ctx, v1.ReasonHostFailed)
		Expect(p.seen.states(1)).To(Equal([]string{"Suspended HostFailed", "Replacing HostFailed"}))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceReplacing: Slice 1: Host "+p.node(1)), ContainSubstring("is not Ready since"))))
		Expect(p.SetReady(ctx, p.node(1))).To(Succeed())
		p.unharmed(ctx)
	})

	It("waits for the repair where it may not fence and the pool would take the slice back", func(ctx context.Context) {
		e.restart("--fence-slice-pools=false")
		w := newWorld(ctx, e.Cluster)
		w.pools2(ctx, "a", "b", "c")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0), 1)
		Expect(p.Taint(ctx, p.node(1), cluster.TaintShutdown)).To(Succeed())
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed),
			haveMessage(v1.ConditionSlicesReady, ContainSubstring("Fencing is switched off and nodes of pool "+p.pool+" could take the slice back, so it waits"))))
		Consistently(p.job(p.name)).WithContext(ctx).Should(haveSlice(1, v1.SliceSuspended, v1.ReasonHostFailed))
		p.untouched(ctx)
		By("moving it when no node of the pool is schedulable")
		Expect(p.Cordon(ctx, p.node(0))).To(Succeed())
		p.moves(ctx, v1.ReasonHostFailed)
		p.unharmed(ctx)
	})

	It("pauses repair while three of four pools are not Ready", func(ctx context.Context) {
		e.restart("--not-ready-grace=10s")
		w := newWorld(ctx, e.Cluster)
		w.pools2(ctx, "a", "b", "c", "d")
		p := w.treat(ctx, w.elasticJob(3).MaxSliceRestarts(0), 0)
		whole := w.snapshot(ctx, p.name)
		var lost []string
		for i := range 3 {
			lost = append(lost, node(sliceStatus(p.current(ctx), i).NodePool, 1))
			Expect(w.SetNotReady(ctx, lost[i], "network plugin is not ready")).To(Succeed())
		}
		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveMessage(v1.ConditionSlicesReady, ContainSubstring("RepairPaused: 3 of 4 node pools look failed at once")),
			HaveField("Status.Repair.Paused", Not(BeNil()))))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(HavePrefix("RepairPaused: ")))
		// Longer than one host that is not Ready is waited for.
		Consistently(p.fences).WithContext(ctx).WithTimeout(12 * time.Second).WithPolling(time.Second).Should(BeEmpty())
		Expect(w.snapshot(ctx, p.name)).To(Equal(whole))
		for _, name := range lost[1:] {
			Expect(w.SetReady(ctx, name)).To(Succeed())
		}
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(HavePrefix("RepairResumed: ")))
		By("giving the last host its grace anew")
		Expect(p.current(ctx)).To(And(haveSlice(0, v1.SliceSuspended, v1.ReasonHostFailed),
			haveMessage(v1.ConditionSlicesReady, ContainSubstring("If it does not return until"))))
		p.moves(ctx, v1.ReasonHostFailed)
		Expect(w.SetReady(ctx, lost[0])).To(Succeed())
		p.clean(ctx)
		Expect(w.snapshot(ctx, p.name, 0)).To(Equal(p.before))
	})

	It("replaces a slice of which a worker exited with 0 while nobody looked", func(ctx context.Context) {
		e.restart()
		w := newWorld(ctx, e.Cluster)
		w.pools2(ctx, "a", "b")
		p := w.treat(ctx, w.elasticJob(2).MaxSliceRestarts(0).Worker(workerAnnotations(map[string]string{cluster.StopExitCode: "0"})), 1)
		Expect(e.operator.Kill()).To(Succeed())
		// To a Job controller that looks earlier, the pod has failed, and the
		// index starts again.
		thaw, err := e.Freeze("kube-controller-manager")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(thaw)
		worker := p.worker(ctx, 1)
		Expect(w.Client.Delete(ctx, worker)).To(Succeed())
		Eventually(func(ctx context.Context) (corev1.PodPhase, error) {
			err := w.Client.Get(ctx, clientKey(worker), worker)
			return worker.Status.Phase, err
		}).WithContext(ctx).Should(Equal(corev1.PodSucceeded))
		Expect(thaw()).To(Succeed())
		Eventually(func(ctx context.Context) (string, error) {
			job, err := w.childJob(ctx, p.name, 1)
			return job.Status.CompletedIndexes, err
		}).WithContext(ctx).Should(Equal("1"))
		e.startAgain()
		p.resumes(ctx, v1.ReasonWorkerExited)
		Expect(p.seen.states(1)).To(ContainElement("Replacing WorkerExited"))
		Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix("SliceReplacing: Slice 1: "), ContainSubstring("exited with 0 while it was being stopped"))))
		p.unharmed(ctx)
	})

	It("loses and doubles nothing when it is killed at random", func(ctx context.Context) {
		e.restart()
		w := newWorld(ctx, e.Cluster)
		w.pools2(ctx, "a", "b", "c", "d")
		p := w.treat(ctx, w.elasticJob(3).MaxSliceRestarts(0), 0)
		var hosts []string
		for i := range 3 {
			hosts = append(hosts, node(sliceStatus(p.current(ctx), i).NodePool, 0))
		}
		end := e.torment()
		defer func() {
			if end != nil {
				end()
			}
		}()
		ready := func(slice int, was v1.SliceStatus) {
			GinkgoHelper()
			Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(2 * time.Minute).Should(And(
				haveSlice(slice, v1.SliceReady, ""), haveOtherIncarnation(slice, was.JobUID)))
		}
		was := p.current(ctx)
		By("losing a host")
		Expect(w.KillHost(ctx, hosts[0])).To(Succeed())
		ready(0, sliceStatus(was, 0))
		Expect(w.ReviveHost(ctx, hosts[0])).To(Succeed())
		By("deleting all pods of a slice")
		pods, err := w.workers(ctx, p.name, 1)
		Expect(err).NotTo(HaveOccurred())
		for i := range pods {
			Expect(w.Client.Delete(ctx, &pods[i])).To(Succeed())
		}
		ready(1, sliceStatus(was, 1))
		By("announcing the end of a node")
		Expect(w.Notice(ctx, hosts[2])).To(Succeed())
		ready(2, sliceStatus(was, 2))
		Expect(w.Untaint(ctx, hosts[2], cluster.TaintImpendingTermination.Key)).To(Succeed())
		By("asking for a hot-swap")
		was = p.current(ctx)
		p.annotate(ctx, v1.AnnotationReplaceSlice, "0")
		ready(0, sliceStatus(was, 0))
		end()
		end = nil

		Eventually(p.job(p.name)).WithContext(ctx).Should(And(
			haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""), haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, ""),
			HaveField("Annotations", Not(HaveKey(v1.AnnotationReplaceSlice)))))
		now := w.snapshot(ctx, p.name, 0, 1, 2)
		Expect(now).To(Equal(snapshot{Head: p.before.Head, Slices: now.Slices, SliceRestarts: map[int32]int32{0: 0, 1: 0, 2: 0}}))
		var replaced []int32
		for i := range 3 {
			replaced = append(replaced, ptr.Deref(sliceStatus(p.current(ctx), i).Replacements, 0))
		}
		Expect(replaced).To(Equal([]int32{2, 1, 1}), "each fault is answered once")
		Expect(p.current(ctx).Status.History).To(HaveLen(4))
		p.clean(ctx)
		var nodes corev1.NodeList
		Expect(w.Client.List(ctx, &nodes)).To(Succeed())
		Expect(nodes.Items).To(HaveEach(HaveField("Spec.Taints", Not(ContainElement(HaveField("Key", v1.TaintSliceDegraded))))))
	})
})
