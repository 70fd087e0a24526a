//go:build e2e

// Package e2e shows, on a local cluster whose only fakes are the kubelets,
// what users of PathwaysJobs see. The operator runs as a process with the
// rights of the ServiceAccount that its Helm chart makes.
//
// Specs run in parallel on one cluster, each in a world of its own: a
// namespace, and TPU pools that only its jobs select.
package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "End to end")
}

var pluginDir = filepath.Join(envtest.Root(), "bin", "test")

// shared is the cluster that most specs run on.
var shared *cluster.Cluster

var _ = SynchronizedBeforeSuite(func(ctx context.Context) []byte {
	logf.SetLogger(GinkgoLogr)
	e := bootEnv(ctx, quickMonitor)
	pools := make(chan error, 1)
	go func() {
		// Failed hosts must stay a small part of all pools, or repair pauses;
		// and heads want a machine each.
		_, heads := e.CreatePool(ctx, cluster.CPUPool("heads", 40))
		_, spare := e.CreatePool(ctx, cluster.Pool{
			Name: "spare", MachineType: "ct5lp-hightpu-1t", Topology: "1x1", Hosts: 30,
			Labels: map[string]string{reservation: "spare"},
		})
		pools <- errors.Join(heads, spare)
	}()
	chart(ctx, e.Cluster)
	e.start(ctx)
	run(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(pluginDir, "kubectl-pathways"), "./cmd/kubectl-pathways")
	Expect(<-pools).To(Succeed())
	return []byte(e.Dir)
}, func(dir []byte) {
	logf.SetLogger(GinkgoLogr)
	format.MaxLength = 2000
	// As long as a busy machine may need; no spec waits for it in vain.
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	SetDefaultConsistentlyDuration(3 * time.Second)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	// kubectl finds its plugins in the PATH.
	err := os.Setenv("PATH", pluginDir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	Expect(err).NotTo(HaveOccurred())
	shared, err = cluster.Attach(string(dir))
	Expect(err).NotTo(HaveOccurred())
})
