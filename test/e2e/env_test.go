//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

const (
	systemNamespace = "pathways-job-system"
	operatorAccount = "pathways-job-controller-manager"
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
	e := bootEnv(ctx)
	how(ctx, e.Cluster)
	e.start(ctx, args...)
	return e
}

// bootEnv boots a cluster with nothing of the product in it.
func bootEnv(ctx context.Context) *env {
	GinkgoHelper()
	c, err := cluster.Start(ctx, cluster.Options{
		NodeMonitorGracePeriod: 8 * time.Second,
		Progress:               GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Stop)
	program, err := cluster.BuildOperator(ctx)
	Expect(err).NotTo(HaveOccurred())
	return &env{Cluster: c, program: program, kubeconfig: filepath.Join(c.Dir, "operator.kubeconfig")}
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
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println(e.operator.Tail(200))
		}
		Expect(e.operator.Stop()).To(Succeed())
	})
}

// startAgain runs a new operator process in the place of one that was killed.
func (e *env) startAgain() {
	GinkgoHelper()
	operator, err := cluster.StartOperator(cluster.OperatorOptions{
		Program: e.program, Kubeconfig: e.kubeconfig, Args: e.args,
	})
	Expect(err).NotTo(HaveOccurred())
	e.operator = operator
}

// chart installs with Helm, as README.md says.
func chart(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	run(ctx, "go", "tool", "-modfile=go.tools.mod", "helm", "install", "pathways-job", "charts/pathways-job",
		"--namespace", systemNamespace, "--create-namespace", "--kubeconfig", c.Kubeconfig)
}

// run runs a command in the repository's root and returns what it prints.
func run(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = envtest.Root()
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s %v: %s", name, args, out)
	return string(out)
}

func createPool(ctx context.Context, c *cluster.Cluster, p cluster.Pool) []string {
	GinkgoHelper()
	nodes, err := c.CreatePool(ctx, p)
	Expect(err).NotTo(HaveOccurred())
	return nodes
}
