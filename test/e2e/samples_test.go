//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
	"pathways.domain/pathways-job/internal/tpu"
)

var _ = Describe("A sample", func() {
	for _, file := range sampleFiles() {
		It("does what it is for: "+filepath.Base(file), func(ctx SpecContext) {
			w := newWorld(ctx, shared)
			job := w.sample(file)
			w.poolsFor(ctx, job)
			manifest, err := yaml.Marshal(job)
			Expect(err).NotTo(HaveOccurred())
			Expect(w.apply(ctx, string(manifest))).To(Equal("pathwaysjob.pathways-job.pathways.domain/"+job.Name+" created\n"),
				"kubectl should have nothing to warn of")

			running := w.running(ctx, job.Name)
			Expect(running.Status.SliceSummary).To(Equal(fmt.Sprintf("%[1]d/%[1]d", job.Spec.Workers[0].NumSlices)))
			Expect(running.Status.ProxyAddress).To(HavePrefix("grpc://" + job.Name + "-pathways-head-0-0."))
			if render.Headless(job) {
				Consistently(w.job(job.Name)).WithContext(ctx).Should(haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""))
				return
			}
			w.exitHead(ctx, job.Name, 0, "")
			w.completed(ctx, job.Name)
		})
	}
})

// sampleFiles are the manifests in config/samples.
func sampleFiles() []string {
	files, err := filepath.Glob(filepath.Join(envtest.Root(), "config", "samples", "*.yaml"))
	if err != nil || len(files) < 2 {
		panic(fmt.Sprintf("there are no samples: %v", err))
	}
	var samples []string
	for _, f := range files {
		if !strings.HasSuffix(f, "kustomization.yaml") {
			samples = append(samples, f)
		}
	}
	return samples
}

// sample reads a sample, and lets it run on this spec's pools.
func (w *world) sample(file string) *v1.PathwaysJob {
	GinkgoHelper()
	data, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	job := &v1.PathwaysJob{}
	Expect(yaml.UnmarshalStrict(data, job)).To(Succeed())
	job.Namespace = w.namespace
	job.Spec.Workers[0].NodeSelector = map[string]string{reservation: w.namespace}
	return job
}

// poolsFor makes a pool for each slice of a job; slices of one VM share one.
func (w *world) poolsFor(ctx context.Context, job *v1.PathwaysJob) {
	GinkgoHelper()
	workers := job.Spec.Workers[0]
	topology, err := tpu.ParseTopology(workers.Topology)
	Expect(err).NotTo(HaveOccurred())
	machine, err := tpu.ParseMachineType(string(workers.Type))
	Expect(err).NotTo(HaveOccurred())
	hosts, err := machine.VMsPerSlice(topology)
	Expect(err).NotTo(HaveOccurred())
	if hosts == 1 {
		pool := cluster.TPUPool(w.namespace+"-single", string(workers.Type), workers.Topology)
		pool.Hosts = int(workers.NumSlices)
		w.addPool(ctx, pool)
		return
	}
	for i := range int(workers.NumSlices) {
		w.pool(ctx, fmt.Sprintf("s%d", i), string(workers.Type), workers.Topology)
	}
}
