//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

const (
	systemNamespace = "pathways-job-system"
	operatorAccount = "pathways-job-controller-manager"
	// operatorKubeconfig and operatorLog are files in a cluster's folder.
	operatorKubeconfig = "operator.kubeconfig"
	operatorLog        = "operator.log"
	// reservation is the label by which a spec's jobs select its own pools.
	reservation = "cloud.google.com/reservation-name"
)

// env is a cluster with the operator in it.
type env struct {
	*cluster.Cluster
	operator *cluster.Operator
	// kubeconfig is the operator's.
	kubeconfig string
	program    string
	args       []string
}

// install puts the product into a cluster, all but the running operator.
type install func(ctx context.Context, c *cluster.Cluster)

// newEnv boots a cluster, installs the product and starts the operator with
// these flags. All ends with the spec (or suite) that asked for it.
func newEnv(ctx context.Context, how install, args ...string) *env {
	GinkgoHelper()
	e := bootEnv(ctx, quickMonitor)
	how(ctx, e.Cluster)
	e.start(ctx, args...)
	return e
}

// quickMonitor is the grace period of silent hosts where specs let hosts fall
// silent. On a busy machine it is too short for hosts that should not; 0 is
// Kubernetes' own.
const quickMonitor = 30 * time.Second

// bootEnv boots a cluster with nothing of the product in it, and builds the
// operator meanwhile.
func bootEnv(ctx context.Context, monitor time.Duration) *env {
	GinkgoHelper()
	e := &env{}
	built := make(chan error, 1)
	go func() {
		var err error
		e.program, err = cluster.BuildOperator(ctx)
		built <- err
	}()
	c, err := cluster.Start(ctx, cluster.Options{
		NodeMonitorGracePeriod: monitor,
		Progress:               GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Stop)
	Expect(<-built).To(Succeed())
	e.Cluster, e.kubeconfig = c, filepath.Join(c.Dir, operatorKubeconfig)
	return e
}

// start runs the operator as its ServiceAccount.
func (e *env) start(ctx context.Context, args ...string) {
	GinkgoHelper()
	Expect(e.ServiceAccountKubeconfig(ctx, systemNamespace, operatorAccount, e.kubeconfig)).To(Succeed())
	e.args = append([]string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, args...)
	e.startAgain()
	DeferCleanup(func() {
		if err := e.operator.Stop(); err != nil {
			Fail("the operator: " + err.Error())
		}
	})
}

// startAgain runs a new operator process in the place of one that was killed.
func (e *env) startAgain() {
	GinkgoHelper()
	e.operator = e.startOperator(e.args...)
}

// startOperator runs one operator process; what it logs goes on in a file of
// the cluster's folder, where a failing spec looks for what speaks of it.
func (e *env) startOperator(args ...string) *cluster.Operator {
	GinkgoHelper()
	log, err := os.OpenFile(filepath.Join(e.Dir, operatorLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Expect(err).NotTo(HaveOccurred())
	operator, err := cluster.StartOperator(cluster.OperatorOptions{
		Program: e.program, Kubeconfig: e.kubeconfig, Args: args, Log: log,
	})
	Expect(err).NotTo(HaveOccurred())
	return operator
}

// installer installs dist/install.yaml with kubectl, as docs/install.md says.
func installer(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	run(ctx, "make", "build-installer", "DIST="+c.Dir, "IMG=example.com/pathways-job-controller:test")
	_, err := c.Kubectl(ctx, "apply", "-f", filepath.Join(c.Dir, "install.yaml"))
	Expect(err).NotTo(HaveOccurred())
	established(ctx, c)
}

// established waits until the API server serves PathwaysJobs.
func established(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	_, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=2m",
		"crd/pathwaysjobs.pathways-job.pathways.domain", "crd/jobsets.jobset.x-k8s.io")
	Expect(err).NotTo(HaveOccurred())
}

// chart installs with Helm, as README.md says.
func chart(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	run(ctx, "go", "tool", "-modfile=go.tools.mod", "helm", "install", "pathways-job", "charts/pathways-job",
		"--namespace", systemNamespace, "--create-namespace", "--kubeconfig", c.Kubeconfig)
	established(ctx, c)
}

// run runs a command in the repository's root and returns what it prints.
func run(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = envtest.Root()
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		Fail(fmt.Sprintf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out))
	}
	return string(out)
}

func createPool(ctx context.Context, c *cluster.Cluster, p cluster.Pool) []string {
	GinkgoHelper()
	nodes, err := c.CreatePool(ctx, p)
	Expect(err).NotTo(HaveOccurred())
	return nodes
}
