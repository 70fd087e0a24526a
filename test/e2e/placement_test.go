//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
)

var _ = Describe("The name of a job", func() {
	for _, length := range []int{23, 39} {
		It(fmt.Sprintf("may have %d characters", length), func(ctx context.Context) {
			w := newWorld(ctx, shared)
			w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
			name := strings.Repeat("n", length)
			w.create(ctx, w.makeJob(name).Workers("ct6e-standard-4t", "2x4", 1))
			job := w.running(ctx, name)
			js, err := w.jobSet(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Status.ProxyAddress).To(Equal(fmt.Sprintf("grpc://%s-pathways-head-0-0.%s.%s.svc:29000", name, js.Spec.Network.Subdomain, w.namespace)))
			head, err := w.head(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(head.Labels[jobsetv1alpha2.CoordinatorKey])).To(BeNumerically("<=", validation.LabelValueMaxLength))
			Expect(head.Spec.Subdomain).To(Equal(js.Spec.Network.Subdomain))
		})
	}

	It("may not have 40, and kubectl says so", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		job := w.makeJob(strings.Repeat("n", 40)).Obj()
		err := w.Client.Create(ctx, job)
		Expect(err).To(MatchError(ContainSubstring("39")))
	})
})

// Alone, since so many writes at once can make the simulated kubelets of other
// specs miss their heartbeats on a small machine.
var _ = Describe("Jobs of many types that are created at once", Serial, func() {
	It("get each its own type, topology, VMs and chips", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		kinds := []struct {
			machine, topology, accelerator, instance string
			vms                                      int32
			chips                                    int64
		}{
			{"ct5p-hightpu-4t", "2x2x4", "tpu-v5p-slice", "tpuv5:2x2x4", 4, 4},
			{"ct6e-standard-8t", "2x4", "tpu-v6e-slice", "tpuv6e1t:2x4", 1, 8},
			{"ct5lp-hightpu-4t", "4x8", "tpu-v5-lite-podslice", "tpuv5e:4x8", 8, 4},
			{"tpu7x-standard-4t", "2x2x2", "tpu7x", "tpu7x:2x2x2", 2, 4},
		}
		const jobs = 60
		var creating sync.WaitGroup
		errs := make([]error, jobs)
		for i := range jobs {
			// Suspended, so that nothing but the JobSets is made of them.
			job := w.makeJob(fmt.Sprintf("job-%d", i)).Workers(kinds[i%4].machine, kinds[i%4].topology, 1).Suspend(true).Obj()
			creating.Go(func() { errs[i] = w.Client.Create(ctx, job) })
		}
		creating.Wait()
		Expect(errs).To(HaveEach(BeNil()))

		Eventually(func(ctx context.Context) (int, error) {
			list := &jobsetv1alpha2.JobSetList{}
			err := w.Client.List(ctx, list, client.InNamespace(w.namespace))
			return len(list.Items), err
		}).WithContext(ctx).Should(Equal(jobs))
		for i := range jobs {
			kind, name := kinds[i%4], fmt.Sprintf("job-%d", i)
			js, err := w.jobSet(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			head, workers := js.Spec.ReplicatedJobs[0], js.Spec.ReplicatedJobs[1]
			Expect(head.Template.Spec.Template.Spec.InitContainers[0].Args).To(ContainElement("--instance_type="+kind.instance), name)
			pod := workers.Template.Spec.Template.Spec
			Expect(pod.NodeSelector).To(And(
				HaveKeyWithValue("cloud.google.com/gke-tpu-accelerator", kind.accelerator),
				HaveKeyWithValue("cloud.google.com/gke-tpu-topology", kind.topology)), name)
			Expect(workers.Template.Spec.Completions).To(HaveValue(Equal(kind.vms)), name)
			chips := pod.Containers[0].Resources.Limits["google.com/tpu"]
			Expect(chips.Value()).To(Equal(kind.chips), name)
		}
		Eventually(func(ctx context.Context) ([]string, error) {
			list := &v1.PathwaysJobList{}
			err := w.Client.List(ctx, list, client.InNamespace(w.namespace))
			var others []string
			for _, job := range list.Items {
				if job.Status.State != v1.JobSuspended {
					others = append(others, fmt.Sprintf("%s is %s", job.Name, job.Status.State))
				}
			}
			return others, err
		}).WithContext(ctx).Should(BeEmpty())
		Expect(w.leftovers(ctx)).To(BeEmpty())
	})
})

var _ = Describe("The pods of a job", func() {
	It("carry the labels of the job where tools look for them", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).
			Label("kueue.x-k8s.io/queue-name", "tpus").Label("xpk.google.com/workload", "train").
			Annotation("kubectl.kubernetes.io/last-applied-configuration", "{}"))
		w.running(ctx, "train")
		js, err := w.jobSet(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(js.Labels).To(And(
			HaveKeyWithValue("kueue.x-k8s.io/queue-name", "tpus"), HaveKeyWithValue("xpk.google.com/workload", "train")))
		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(head.Labels).To(HaveKeyWithValue("xpk.google.com/workload", "train"))
		Expect(js.Annotations).NotTo(HaveKey("kubectl.kubernetes.io/last-applied-configuration"))
		Expect(head.Annotations).NotTo(HaveKey("kubectl.kubernetes.io/last-applied-configuration"))
	})

	It("are the head beside worker 0 of slice 0 in colocate mode", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "4x4")
		w.pool(ctx, "b", "ct6e-standard-4t", "4x4")
		w.create(ctx, w.makeJob("train").Colocated())
		w.running(ctx, "train")
		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		pools := map[string]bool{}
		for slice := range 2 {
			workers, err := w.workers(ctx, "train", slice)
			Expect(err).NotTo(HaveOccurred())
			Expect(workers).To(HaveLen(4))
			if slice == 0 {
				Expect(workers[0].Spec.NodeName).To(Equal(head.Spec.NodeName))
			}
			pool := poolOf(workers[0].Spec.NodeName)
			pools[pool] = true
			for _, p := range workers {
				Expect(p.Spec.NodeName).To(HavePrefix(pool+"-"), "a slice must not be spread over pools")
			}
		}
		Expect(pools).To(HaveLen(2))
	})

	It("are eight slices of one host each on one pool of eight", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		pool := cluster.TPUPool(w.namespace+"-eight", "ct6e-standard-4t", "2x2")
		pool.Hosts = 8
		nodes := w.addPool(ctx, pool)
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x2", 8))
		job := w.running(ctx, "train")
		Expect(job.Status.SliceSummary).To(Equal("8/8"))
		var used []string
		for slice := range 8 {
			workers, err := w.workers(ctx, "train", slice)
			Expect(err).NotTo(HaveOccurred())
			Expect(workers).To(HaveLen(1))
			used = append(used, workers[0].Spec.NodeName)
		}
		slices.Sort(used)
		Expect(used).To(Equal(nodes))
	})

	It("stay away while the job is created suspended", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).Suspend(true))
		w.until(ctx, "train", haveCondition(v1.ConditionSuspended, metav1.ConditionTrue, v1.ReasonSuspendedByUser))
		Consistently(w.activePods("train")).WithContext(ctx).Should(BeEmpty())
		Expect(w.jobSet(ctx, "train")).To(HaveField("Spec.Suspend", Equal(ptr.To(true))))
		w.mergePatch(ctx, "train", `{"spec":{"suspend":null}}`)
		w.running(ctx, "train")
	})
})

// poolOf is the pool of a node, by its name.
func poolOf(node string) string { return node[:strings.LastIndex(node, "-")] }
