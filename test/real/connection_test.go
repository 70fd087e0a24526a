//go:build real

package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/test/realcluster/cluster"
	"pathways.domain/pathways-job/test/standin/report"
)

// Each of these jobs trains only if all its addresses, flags and variables
// lead where they should: the stand-in takes no others.
var _ = DescribeTable("All parts of a job find each other", func(ctx SpecContext, managerPort int, describe func() *training) {
	t := describe()
	t.start(ctx)
	c := t.manager(ctx, managerPort)
	Expect(c.Violations).To(BeEmpty())
	Expect(c.Notes).To(HaveKeyWithValue("host-address-is", "this host"), "HOST_ADDRESS is a name of the head")
	for s := range t.job.Spec.Workers[0].NumSlices {
		for w := range 2 {
			Expect(c.Notes).To(HaveKeyWithValue(fmt.Sprintf("megascale-%d-%d", s, w), c.Notes["host-address"]))
		}
	}
	Expect(kubectl(ctx, "-n", t.job.Namespace, "exec", t.workers(ctx, 0)[0].Name, "-c", v1.ContainerWorker, "--", "/standin", "-h")).
		To(ContainSubstring("Usage of /standin"))
	t.finish(ctx)
},
	Entry("as it is", 29001, with(2, nil), SpecTimeout(5*time.Minute)),
	Entry("with the longest name", 29001, with(1, func(t *training) {
		t.job.Name += strings.Repeat("n", 39-len(t.job.Name))
	}), SpecTimeout(5*time.Minute)),
	Entry("with ports of its own", 29101, with(1, func(t *training) {
		t.component(v1.ComponentPathwaysServer).CustomFlags = []string{"--server_port=29101"}
		t.component(v1.ComponentProxyServer).CustomFlags = []string{"--server_port=29100"}
		t.component(v1.ComponentWorker).CustomFlags = []string{"--server_port=29105"}
	}), SpecTimeout(5*time.Minute)),
	Entry("on the pods' own network", 29001, with(2, func(t *training) {
		t.job.Spec.HostNetwork = ptr.To(false)
	}), SpecTimeout(5*time.Minute)),
	Entry("with the head beside a worker", 29001, with(2, func(t *training) {
		t.job.Spec.Controller.DeploymentMode = v1.DeploymentModeColocate
		t.job.Spec.Controller.Template.Spec.NodeSelector = nil
	}), SpecTimeout(5*time.Minute)),
	Entry("with colocated Python", 29001, with(1, func(t *training) {
		t.component(v1.ComponentColocatedPythonSidecar).Image = cluster.ImageSidecar
	}, "--colocated_python=true"), SpecTimeout(5*time.Minute)),
	Entry("with metrics and XLA flags", 29001, with(1, func(t *training) {
		t.job.Spec.Controller.EnableMetricsCollection = ptr.To(true)
		t.component(v1.ComponentProxyServer).CustomFlags = []string{"--xla_tpu_enable_x=true"}
	}), SpecTimeout(5*time.Minute)),
	Entry("elastic, with images of an older version", 29001, with(2, func(t *training) {
		t.job.Spec.PathwaysVersion = cluster.TagPinned
		t.job.Spec.Controller.ElasticSlices = ptr.To[int32](1)
	}, "--elastic=true", "--poll_interval=2s"), SpecTimeout(5*time.Minute)),
)

// with describes a training anew for each try of a spec.
func with(slices int32, change func(*training), args ...string) func() *training {
	return func() *training {
		t := newTraining(slices, args...)
		if change != nil {
			change(t)
		}
		return t
	}
}

// managed is what a test reads of the resource manager's answer.
type managed struct {
	Violations []string
	Notes      map[string]string
}

func (t *training) manager(ctx context.Context, port int) managed {
	GinkgoHelper()
	address := net.JoinHostPort(t.head(ctx).Status.PodIP, fmt.Sprint(port))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/cluster", nil)
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	var m managed
	Expect(json.NewDecoder(resp.Body).Decode(&m)).To(Succeed())
	return m
}

var _ = Describe("A headless job", func() {
	It("serves one client after another, and charges nothing", func(ctx SpecContext) {
		t := newTraining(1)
		t.job.Spec.Controller.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{cluster.LabelNodePool: "cpu"},
		}}
		t.create(ctx)
		t.becomes(ctx, v1.ConditionRunning)
		t.readyPool(ctx, 0)
		port := portForward(ctx, t.job.Namespace, t.head(ctx).Name)
		for client := range 2 {
			By(fmt.Sprintf("connecting client %d", client))
			cmd := exec.CommandContext(ctx, filepath.Join(cluster.Root, "bin/standin"), "main", "--steps=20", "--step_time=10ms")
			cmd.Env = []string{"JAX_PLATFORMS=proxy", "JAX_BACKEND_TARGET=grpc://localhost:" + port}
			out, err := cmd.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(out))
			result, err := report.FromLog(string(out))
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Done).To(BeTrue())
			By("waiting for its workers to end and start again")
			Eventually(func() bool {
				for _, p := range t.workers(ctx, 0) {
					if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount <= int32(client) {
						return false
					}
				}
				return true
			}).Should(BeTrue())
			Eventually(func() string { return t.pool(ctx, 0) }).ShouldNot(BeEmpty(), "the slice is Ready again")
		}
		t.becomes(ctx, v1.ConditionRunning)
		t.chargedNothing(ctx)
	}, SpecTimeout(8*time.Minute))
})

var forwarding = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:(\d+)`)

// portForward forwards a local port to the pod's proxy and returns it.
func portForward(ctx context.Context, namespace, pod string) string {
	GinkgoHelper()
	bin, err := cluster.Programs(ctx)
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(filepath.Join(bin, "kubectl"), "--kubeconfig="+cluster.Kubeconfig(),
		"-n", namespace, "port-forward", pod, ":29000")
	out := &follower{text: bytes.Buffer{}}
	cmd.Stdout, cmd.Stderr = out, GinkgoWriter
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(cmd.Process.Kill()).To(Succeed())
		_ = cmd.Wait() // Killed.
	})
	var port string
	Eventually(func() string {
		if m := forwarding.FindStringSubmatch(out.String()); m != nil {
			port = m[1]
		}
		return port
	}).ShouldNot(BeEmpty(), "kubectl port-forward")
	return port
}
