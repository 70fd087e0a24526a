//go:build real

// Package real shows, on hosts with real kubelets and containers, what
// docs/elastic.md promises to users. A stand-in plays Pathways:
// docs/how-it-is-tested.md.
package real

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/test/realcluster/cluster"
)

var (
	config *rest.Config
	k8s    client.Client
	kube   kubernetes.Interface
)

func TestReal(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	RunSpecs(t, "real")
}

// The cluster is booted, and ended afterwards; REAL_KEEP=1 uses one that runs
// and leaves it running. Specs that need a spare pool, or take a host away
// from the others, are Serial.
var _ = SynchronizedBeforeSuite(func(ctx SpecContext) {
	if os.Getenv("REAL_KEEP") != "" {
		return
	}
	DeferCleanup(func(ctx SpecContext) {
		Expect(cluster.Down(ctx, GinkgoWriter)).To(Succeed())
		Expect(cluster.Leftovers()).To(BeEmpty())
	}, NodeTimeout(2*time.Minute))
	Expect(cluster.Up(ctx, os.Stderr, "--node-monitor-grace-period=25s")).To(Succeed())
	wholeAgain(ctx, "cpu-1") // specs drain and kill hosts with CPUs
	Expect(cluster.InstallOperator(ctx, os.Stderr)).To(Succeed())
	fmt.Fprintf(os.Stderr, "the cluster takes %d MB of memory\n", cluster.Memory()>>20)
}, connect, NodeTimeout(30*time.Minute))

func connect() {
	GinkgoHelper()
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	var err error
	config, err = clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig())
	Expect(err).NotTo(HaveOccurred())
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(jobsetv1alpha2.AddToScheme(scheme))
	utilruntime.Must(v1.AddToScheme(scheme))
	k8s, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	kube, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
}

// wholeAgain starts hosts that are down, or spare.
func wholeAgain(ctx context.Context, hosts ...string) {
	GinkgoHelper()
	for _, name := range hosts {
		host, err := cluster.Find(name)
		Expect(err).NotTo(HaveOccurred())
		Expect(host.Start(ctx)).To(Succeed(), fmt.Sprintf("start %s again", name))
	}
}
