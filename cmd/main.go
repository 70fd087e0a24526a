// Command manager is the operator of PathwaysJobs.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/controller"
	"pathways.domain/pathways-job/internal/elastic"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/metrics"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/statuspatch"
)

// version is set by the linker: see the Makefile.
var version = "dev"

func main() {
	o := parse()
	ctrl.SetLogger(logr.New(quiet{zap.New(zap.UseFlagOptions(&o.zap)).GetSink()}))
	ctrl.Log.Info("the operator starts", "version", version)
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "the operator stops")
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	render  render.Options
	elastic elastic.Options
	mode    string
	zap     zap.Options

	qps, burst, workers    int
	leaderElect            bool
	leaderNamespace        string
	metricsAddr, probeAddr string
	metricsSecure          bool
	metricsCertDir         string
}

func parse() *options {
	o := &options{}
	flag.StringVar(&o.render.DefaultVersion, "default-pathways-version", render.DefaultVersion, "image tag of jobs without a pathwaysVersion")
	flag.StringVar(&o.render.ServerImage, "pathways-server-image", render.DefaultServerImage, "image, without tag, of resource manager and workers")
	flag.StringVar(&o.render.ProxyImage, "pathways-proxy-image", render.DefaultProxyImage, "image, without tag, of the proxy")
	flag.StringVar(&o.render.ElasticFlag, "elastic-flag", render.ElasticFlagAuto, "flag that tells the proxy of an elastic job: auto, instances or slices")
	flag.StringVar(&o.mode, "elastic-mode", string(plan.Enforce), "repair of slices: Enforce, DryRun (only says what it would do) or Off (only tells the state)")
	flag.DurationVar(&o.elastic.NotReadyGrace, "not-ready-grace", 30*time.Second, "how long a node may be not ready before it counts as failed")
	flag.DurationVar(&o.elastic.MaintenanceLeadTime, "maintenance-lead-time", 10*time.Minute, "how long before an announced maintenance a slice is moved; 0 never")
	flag.IntVar(&o.elastic.MaxUnhealthyPools, "max-unhealthy-pools", 40, "percentage of failed slice pools beyond which repair pauses")
	flag.BoolVar(&o.elastic.FenceSlicePools, "fence-slice-pools", true, "taint the nodes of broken slice pools that a slice was moved off")
	flag.IntVar(&o.qps, "kube-api-qps", 500, "requests per second to the API server; below 0 without limit")
	flag.IntVar(&o.burst, "kube-api-burst", 1000, "requests in a burst to the API server")
	flag.IntVar(&o.workers, "workers", 16, "PathwaysJobs that each controller works on at a time")
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "let one of several operators lead")
	flag.StringVar(&o.leaderNamespace, "leader-elect-namespace", "", "namespace of the lease; default: the operator's own")
	flag.StringVar(&o.metricsAddr, "metrics-bind-address", "0", "address of the metrics, such as :8443; 0 for none")
	flag.BoolVar(&o.metricsSecure, "metrics-secure", true, "serve metrics by HTTPS, to callers who may read them")
	flag.StringVar(&o.metricsCertDir, "metrics-cert-path", "", "folder of tls.crt and tls.key of the metrics; default: self-signed")
	flag.StringVar(&o.probeAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	o.zap.BindFlags(flag.CommandLine)
	flag.Parse()
	return o
}

// check refuses flag values that are none.
func (o *options) check() error {
	var errs []error
	switch o.render.ElasticFlag {
	case render.ElasticFlagAuto, render.ElasticFlagInstances, render.ElasticFlagSlices:
	default:
		errs = append(errs, fmt.Errorf("--elastic-flag=%s: want auto, instances or slices", o.render.ElasticFlag))
	}
	switch o.elastic.Mode = plan.Mode(o.mode); o.elastic.Mode {
	case plan.Enforce, plan.DryRun, plan.Off:
	default:
		errs = append(errs, fmt.Errorf("--elastic-mode=%s: want Enforce, DryRun or Off", o.mode))
	}
	if o.elastic.MaxUnhealthyPools < 0 || o.elastic.MaxUnhealthyPools > 100 {
		errs = append(errs, fmt.Errorf("--max-unhealthy-pools=%d: want 0 to 100", o.elastic.MaxUnhealthyPools))
	}
	if o.workers < 1 {
		errs = append(errs, fmt.Errorf("--workers=%d: want at least 1", o.workers))
	}
	return errors.Join(errs...)
}

func run(ctx context.Context, o *options) error {
	if err := o.check(); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	config.QPS, config.Burst = float32(o.qps), o.burst
	if err := waitUntilServed(ctx, config, servedInterval, servedTimeout); err != nil {
		return err
	}
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	journal := statuspatch.NewJournal()
	jobs := controller.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("pathways-job-controller"), journal, o.render, clock.RealClock{})
	if err := jobs.SetupWithManager(ctx, mgr, o.workers); err != nil {
		return err
	}
	o.elastic.Journal, o.elastic.Workers, o.elastic.Metrics = journal, o.workers, metrics.NewRecorder(ctrlmetrics.Registry)
	if err := elastic.SetupWithManager(ctx, mgr, o.elastic); err != nil {
		return err
	}
	if err := ctrlmetrics.Registry.Register(metrics.NewCollector(mgr.GetClient(), clock.RealClock{})); err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

func newManager(config *rest.Config, o *options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1.AddToScheme(scheme))
	utilruntime.Must(jobsetv1alpha2.AddToScheme(scheme))

	serving := metricsserver.Options{
		BindAddress:   o.metricsAddr,
		SecureServing: o.metricsSecure,
		CertDir:       o.metricsCertDir,
		// HTTP/2 lets one client open and reset streams without end.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
	if o.metricsSecure {
		serving.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controller.CacheOptions(),
		Metrics:                       serving,
		HealthProbeBindAddress:        o.probeAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "pathways-job-controller",
		LeaderElectionNamespace:       o.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}
