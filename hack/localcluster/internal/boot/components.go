package boot

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// Names of the components, which are those of their programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	JobSet            = "jobset"
	KWOK              = "kwok"
)

// kubernetesService is the ClusterIP of the Service kubernetes: the first of the service range.
const kubernetesService = "10.96.0.1"

// AllComponents is the whole cluster, in the order in which it starts.
var AllComponents = []string{Etcd, APIServer, ControllerManager, Scheduler, JobSet, KWOK}

// component is a program and how it is run.
type component struct {
	name string
	args []string
	// health answers 200 when the component works; it is asked with the cluster's CA.
	health string
}

// ports of one cluster, all on 127.0.0.1.
type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler int
	jobsetWebhook, jobsetHealth, kwok                       int
}

// components says how each program is run, from the files that layout names.
func (o Options) components(l layout, p ports) map[string]component {
	url := func(scheme string, port int, path string) string {
		return fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, port, path)
	}
	etcd, peer := url("http", p.etcd, ""), url("http", p.etcdPeer, "")
	all := []component{
		{
			name: Etcd,
			args: []string{
				"--name=localcluster",
				"--data-dir=" + filepath.Join(l.dir, "etcd"),
				"--listen-client-urls=" + etcd,
				"--advertise-client-urls=" + etcd,
				"--listen-peer-urls=" + peer,
				"--initial-advertise-peer-urls=" + peer,
				"--initial-cluster=localcluster=" + peer,
				"--unsafe-no-fsync", // it need not survive a loss of power
				"--quota-backend-bytes=8589934592",
				"--log-level=warn",
			},
			health: etcd + "/health",
		},
		{
			name: APIServer,
			args: []string{
				"--etcd-servers=" + etcd,
				"--bind-address=127.0.0.1",
				"--secure-port=" + strconv.Itoa(p.apiServer),
				"--cert-dir=" + l.pki,
				"--tls-cert-file=" + l.servingCert,
				"--tls-private-key-file=" + l.servingKey,
				"--client-ca-file=" + l.ca,
				"--service-account-issuer=https://kubernetes.default.svc",
				"--service-account-key-file=" + l.serviceAccountPublic,
				"--service-account-signing-key-file=" + l.serviceAccountKey,
				"--service-cluster-ip-range=10.96.0.0/16",
				"--authorization-mode=RBAC",
				"--endpoint-reconciler-type=none",
				// GKE has it on: a pod that asks for google.com/tpu tolerates the taint of that name.
				"--enable-admission-plugins=ExtendedResourceToleration",
				"--allow-privileged",
				"--profiling=false",
				// Without a cloud's load balancer, aggregated servers or other replicas there is nothing to wait for.
				"--shutdown-delay-duration=0s",
			},
			health: url("https", p.apiServer, "/readyz"),
		},
		{
			name: ControllerManager,
			args: []string{
				"--kubeconfig=" + l.kubeconfig,
				"--leader-elect=false",
				"--bind-address=127.0.0.1",
				"--secure-port=" + strconv.Itoa(p.controllerManager),
				"--cert-dir=" + l.pki,
				"--tls-cert-file=" + l.servingCert,
				"--tls-private-key-file=" + l.servingKey,
				"--service-account-private-key-file=" + l.serviceAccountKey,
				"--root-ca-file=" + l.ca,
				// The default of 20 hides every other cost.
				"--kube-api-qps=1000",
				"--kube-api-burst=2000",
				"--node-monitor-grace-period=" + o.NodeMonitorGracePeriod.String(),
				"--node-monitor-period=" + o.nodeMonitorPeriod().String(),
			},
			health: url("https", p.controllerManager, "/healthz"),
		},
		{
			name: Scheduler,
			args: []string{
				"--kubeconfig=" + l.kubeconfig,
				"--leader-elect=false",
				"--bind-address=127.0.0.1",
				"--secure-port=" + strconv.Itoa(p.scheduler),
				"--cert-dir=" + l.pki,
				"--tls-cert-file=" + l.servingCert,
				"--tls-private-key-file=" + l.servingKey,
				"--kube-api-qps=1000",
				"--kube-api-burst=2000",
			},
			health: url("https", p.scheduler, "/readyz"),
		},
		{
			name: JobSet,
			args: []string{
				"--kubeconfig=" + l.kubeconfig,
				"--config=" + l.jobsetConfig,
				"--zap-log-level=info",
			},
			health: url("http", p.jobsetHealth, "/readyz"),
		},
		{
			name: KWOK,
			args: []string{
				"--kubeconfig=" + l.kubeconfig,
				"--config=" + l.kwokConfig,
				"--server-address=127.0.0.1:" + strconv.Itoa(p.kwok),
			},
			health: url("http", p.kwok, "/readyz"),
		},
	}
	out := map[string]component{}
	for _, c := range all {
		if c.name == APIServer && o.Address != "" { // of a flag that is given twice, the last one counts
			c.args = append(c.args, "--bind-address=0.0.0.0", "--advertise-address="+o.Address, "--endpoint-reconciler-type=lease")
		}
		out[c.name] = c
	}
	return out
}

// nodeMonitorPeriod is how often the controller manager looks at the nodes: its own default of 5 s, or a quarter
// of a shorter grace period.
func (o Options) nodeMonitorPeriod() time.Duration {
	return min(5*time.Second, o.NodeMonitorGracePeriod/4)
}

// leaseDuration is that of the simulated kubelets, which renew their lease after a quarter of it. Kubelets take
// 40 s, and with them the default grace period of 50 s forgives four missed renewals; a shorter grace period
// forgives three.
func (o Options) leaseDuration() time.Duration {
	return min(40*time.Second, max(4*time.Second, o.NodeMonitorGracePeriod))
}

// jobsetConfig is JobSet's configuration: it serves its webhooks on loopback, with a certificate of ours.
func jobsetConfig(l layout, p ports) string {
	return fmt.Sprintf(`apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection:
  leaderElect: false
internalCertManagement:
  enable: false
webhook:
  host: 127.0.0.1
  port: %d
  certDir: %s
metrics:
  bindAddress: "0"
health:
  healthProbeBindAddress: 127.0.0.1:%d
clientConnection:
  qps: 1000
  burst: 2000
`, p.jobsetWebhook, l.pki, p.jobsetHealth)
}
