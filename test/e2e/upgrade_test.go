//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

// stuck is a job of the peer that can never run: in its JobSet, head and
// workers drive each other away (D10), so the workers of one slice stay
// pending.
const stuck = "colocate-v6e"

var _ = Describe("A cluster that google/pathways-job worked in", Ordered, func() {
	var (
		e     *env
		w     *world
		jobs  []*v1.PathwaysJob
		pods  map[string]types.UID
		specs map[string]int64
	)
	// long is the name of a job that never got its JobSet.
	long := strings.Repeat("n", 47)

	BeforeAll(func(ctx context.Context) {
		e = bootEnv(ctx, 0)
		_, err := e.Kubectl(ctx, "apply", "-f", filepath.Join(envtest.Root(), "test/e2e/testdata/peer-crd.yaml"))
		Expect(err).NotTo(HaveOccurred())
		established(ctx, e.Cluster)
		w = newWorld(ctx, e.Cluster)
		w.peerHosts(ctx, peerJobs())
		for _, name := range peerJobs() {
			jobs = append(jobs, w.peerJob(ctx, name))
		}
		w.peerObject(ctx, long, "train-v4")
		w.peerStatus(ctx, long, "Failed", "Failed")

		for _, job := range jobs {
			if job.Name != stuck {
				Eventually(w.readyPods(job.Name)).WithContext(ctx).Should(HaveExactElements(BeNumerically(">", 0), BeZero()), job.Name)
			}
		}
		pods, specs = w.podUIDs(ctx), w.jobSetGenerations(ctx)

		installer(ctx, e.Cluster)
		e.start(ctx)
	})

	It("gets the right status for each job, and nothing restarts", func(ctx context.Context) {
		for _, job := range jobs {
			wanted := []OmegaMatcher{
				haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""),
				haveCondition(v1.ConditionFailed, metav1.ConditionFalse, ""),
				haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""),
				haveMessage(v1.ConditionRunning, ContainSubstring("its JobSet was made by google/pathways-job")),
			}
			if job.Name == stuck {
				wanted = []OmegaMatcher{haveCondition(v1.ConditionPending, metav1.ConditionTrue, "")}
			}
			wanted = append(wanted, HaveField("Status.ObservedGeneration", job.Generation))
			got := w.until(ctx, job.Name, wanted...)
			Expect(got.Status.TerminalState).To(BeEmpty(), "%s: the peer was wrong", job.Name)
			Expect(got.Status.Restarts).To(HaveValue(BeZero()), job.Name)
			kinds := map[string]int{}
			for _, c := range got.Status.Conditions {
				kinds[c.Type]++
			}
			Expect(kinds).To(HaveEach(1), "%s: conditions that the peer had twice", job.Name)
		}
		Consistently(w.podUIDs).WithContext(ctx).Should(Equal(pods))
		Expect(w.jobSetGenerations(ctx)).To(Equal(specs), "no spec of a running JobSet may be written")
	})

	It("lets a job of its end as it does", func(ctx context.Context) {
		w.exitHead(ctx, "train-v4", 0, "")
		w.completed(ctx, "train-v4")
	})

	It("takes new fields for its jobs", func(ctx context.Context) {
		w.mergePatch(ctx, "single-host-8t", `{"spec":{"suspend":true,"ttlSecondsAfterFinished":3600}}`)
		w.until(ctx, "single-host-8t", haveCondition(v1.ConditionSuspended, metav1.ConditionTrue, v1.ReasonSuspendedByUser))
		Eventually(w.activePods("single-host-8t")).WithContext(ctx).Should(BeEmpty())
		w.mergePatch(ctx, "single-host-8t", `{"spec":{"suspend":false}}`)
		w.running(ctx, "single-host-8t")
	})

	It("creates a job's JobSet as ours when it restarts as a whole", func(ctx context.Context) {
		w.mergePatch(ctx, "components", `{"metadata":{"annotations":{"`+v1.AnnotationRestart+`":"1"}}}`)
		w.until(ctx, "components", haveWholeRestarts(1))
		job := w.running(ctx, "components")
		Expect(job).To(haveMessage(v1.ConditionRunning, Not(ContainSubstring("google/pathways-job"))))
		Expect(w.jobSet(ctx, "components")).To(HaveField("Spec.StartupPolicy.StartupPolicyOrder", jobsetv1alpha2.AnyOrder))
	})

	It("can annotate, observe and delete a job whose name is too long to run", func(ctx context.Context) {
		job := w.until(ctx, long, haveCondition(v1.ConditionFailed, metav1.ConditionTrue, ""), HaveField("Status.ObservedGeneration", int64(1)))
		w.gone(ctx, &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: long}})
		w.mergePatch(ctx, long, `{"metadata":{"annotations":{"note":"kept"}}}`)
		Expect(w.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		w.gone(ctx, job)
	})

	It("deletes a job of the peer with all that it owned", func(ctx context.Context) {
		job, err := w.get(ctx, "placement")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		w.gone(ctx, job)
		w.gone(ctx, &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "placement"}})
		Expect(w.activePods("placement")(ctx)).To(BeEmpty())
	})
})

const compat = "internal/render/testdata/compat/"

// peerJobs are the names of the jobs in compat.
func peerJobs() []string {
	files, err := filepath.Glob(filepath.Join(envtest.Root(), compat, "*.pathwaysjob.json"))
	if err != nil || len(files) == 0 {
		panic(fmt.Sprintf("no job in %s: %v", compat, err))
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".pathwaysjob.json"))
	}
	return names
}

func readCompat(name string, into any) {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join(envtest.Root(), compat, name))
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(data, into)).To(Succeed())
}

// peerHosts makes what the jobs in compat need to run.
func (w *world) peerHosts(ctx context.Context, names []string) {
	GinkgoHelper()
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "trainer"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high-prior-job"}, Value: 1000},
	} {
		Expect(w.Client.Create(ctx, o)).To(Succeed())
	}
	own := cluster.CPUPool("cpu-np", 1) // for the one head that asks for it
	own.Taints = []corev1.Taint{{Key: "cpu-only", Effect: corev1.TaintEffectNoSchedule}}
	pools := []cluster.Pool{cluster.CPUPool("heads", 10), own}
	for _, name := range names {
		job := &v1.PathwaysJob{}
		readCompat(name+".pathwaysjob.json", job)
		workers := job.Spec.Workers[0]
		for i := range int(workers.NumSlices) {
			pool := cluster.TPUPool(fmt.Sprintf("%s-%d", name, i), string(workers.Type), workers.Topology)
			pool.Labels = workers.NodeSelector
			pools = append(pools, pool)
		}
	}
	errs := make([]error, len(pools))
	var creating sync.WaitGroup
	for i, pool := range pools {
		creating.Go(func() { _, errs[i] = w.CreatePool(ctx, pool) })
	}
	creating.Wait()
	Expect(errs).To(HaveEach(BeNil()))
}

// peerObject stores a PathwaysJob of compat as a client of the peer did.
func (w *world) peerObject(ctx context.Context, name, file string) *unstructured.Unstructured {
	GinkgoHelper()
	o := &unstructured.Unstructured{}
	readCompat(file+".pathwaysjob.json", &o.Object)
	o.SetNamespace(w.namespace)
	o.SetName(name)
	Expect(w.Client.Create(ctx, o)).To(Succeed())
	return o
}

// peerStatus writes a status such as the peer's: a list of conditions in
// which a type comes twice.
func (w *world) peerStatus(ctx context.Context, name, condition, terminalState string) {
	GinkgoHelper()
	when := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	one := func(kind string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": kind, "message": "by the peer", "lastTransitionTime": when}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": "PathwaysJob",
		"metadata": map[string]any{"namespace": w.namespace, "name": name},
	}}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions":    []any{one("Pending"), one(condition), one(condition)},
		"terminalState": terminalState,
	}})
	Expect(err).NotTo(HaveOccurred())
	Expect(w.Client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("manager"))).To(Succeed())
}

// peerJob stores a job of compat with the JobSet that the peer made of it,
// and a terminal state that is wrong.
func (w *world) peerJob(ctx context.Context, name string) *v1.PathwaysJob {
	GinkgoHelper()
	o := w.peerObject(ctx, name, name)
	w.peerStatus(ctx, name, "Running", "Failed")
	job, err := w.get(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	js := &jobsetv1alpha2.JobSet{}
	readCompat(name+".jobset.json", js)
	js.Namespace = w.namespace
	Expect(controllerutil.SetControllerReference(o, js, cluster.NewScheme())).To(Succeed())
	Expect(w.Client.Create(ctx, js)).To(Succeed())
	return job
}

// readyPods counts the pods of a job that are Ready, and those that are not.
func (w *world) readyPods(job string) func(context.Context) ([]int, error) {
	return func(ctx context.Context) ([]int, error) {
		js, err := w.jobSet(ctx, job)
		if err != nil {
			return nil, err
		}
		missing := 0
		for _, rj := range js.Spec.ReplicatedJobs {
			missing += int(rj.Replicas) * int(*rj.Template.Spec.Parallelism)
		}
		list := &corev1.PodList{}
		err = w.Client.List(ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{jobsetv1alpha2.JobSetNameKey: job})
		ready := 0
		for _, p := range list.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready++
					missing--
				}
			}
		}
		return []int{ready, missing}, err
	}
}

// podUIDs are the pods of all jobs but the stuck one.
func (w *world) podUIDs(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(w.Client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	uids := map[string]types.UID{}
	for _, p := range list.Items {
		if p.Labels[jobsetv1alpha2.JobSetNameKey] != stuck {
			uids[p.Name] = p.UID
		}
	}
	return uids
}

func (w *world) jobSetGenerations(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	list := &jobsetv1alpha2.JobSetList{}
	Expect(w.Client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	generations := map[string]int64{}
	for _, js := range list.Items {
		generations[js.Name] = js.Generation
	}
	return generations
}
