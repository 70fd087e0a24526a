// Package boot starts and ends local clusters: each lives in a folder of its own, on ports of 127.0.0.1.
package boot

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"pathways.domain/pathways-job/hack/localcluster/internal/builder"
	"pathways.domain/pathways-job/hack/localcluster/internal/kwok"
	"pathways.domain/pathways-job/hack/localcluster/internal/pki"
)

// DefaultNodeMonitorGracePeriod is Kubernetes' own.
const DefaultNodeMonitorGracePeriod = 50 * time.Second

// bootTimeout bounds a boot: it takes about 6 s on two idle cores.
const bootTimeout = 5 * time.Minute

// Options of a cluster.
type Options struct {
	Dir        string   // absolute
	Components []string // some of AllComponents; etcd and kube-apiserver at least
	// NodeMonitorGracePeriod is how long a node may be silent until its condition Ready is Unknown.
	NodeMonitorGracePeriod time.Duration
	// Address, where set, is an address of this machine on which pods reach the API server, beside 127.0.0.1; the
	// Service kubernetes then leads to it.
	Address string
	// Bound makes the cluster die with this process.
	Bound bool
	// Extra holds more arguments for components, by their names.
	Extra map[string][]string
}

func (o Options) has(component string) bool { return slices.Contains(o.Components, component) }

func (o Options) check() error {
	for _, c := range o.Components {
		if !slices.Contains(AllComponents, c) {
			return fmt.Errorf("no component is called %q: there are %s", c, strings.Join(AllComponents, ", "))
		}
	}
	if !o.has(Etcd) || !o.has(APIServer) {
		return fmt.Errorf("components %s: a cluster needs %s and %s", strings.Join(o.Components, ","), Etcd, APIServer)
	}
	for c := range o.Extra {
		if !o.has(c) {
			return fmt.Errorf("extra arguments for %q, which is not among the components", c)
		}
	}
	if o.NodeMonitorGracePeriod < 4*time.Second {
		return fmt.Errorf("node-monitor-grace-period %s: at least 4s, the simulated kubelets renew their leases every second at most", o.NodeMonitorGracePeriod)
	}
	return nil
}

// Cluster is a running cluster.
type Cluster struct {
	State
	dir      string
	children []*child
}

// Up starts a cluster with the programs of cache, and returns when it is healthy and JobSet's webhooks answer.
// What it started is ended if it fails.
func Up(ctx context.Context, o Options, cache builder.Cache, progress io.Writer) (_ *Cluster, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, fmt.Errorf("the cluster is not healthy after %s", bootTimeout))
	defer cancel()

	l := newLayout(o.Dir)
	unlock, err := claim(o.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := os.MkdirAll(l.logs, 0o755); err != nil {
		return nil, err
	}
	p, err := newPorts()
	if err != nil {
		return nil, err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", p.apiServer)
	ca, admin, err := writeFiles(o, l, p, server)
	if err != nil {
		return nil, err
	}
	api, err := newClient(server, ca, admin)
	if err != nil {
		return nil, err
	}

	cluster := &Cluster{
		dir:   o.Dir,
		State: State{Kubernetes: cache.Kubernetes, Bin: cache.Bin(), Kubeconfig: l.kubeconfig, Server: server},
	}
	defer func() {
		if err != nil {
			_ = stop(o.Dir, cluster.Processes) // the first error is the one that tells
		}
	}()
	components := o.components(l, p)
	run := func(names ...string) error {
		for _, name := range names {
			if !o.has(name) {
				continue
			}
			c := components[name]
			c.args = append(c.args, o.Extra[name]...)
			ch, err := start(cache.Program(name), c, l, o.Bound)
			if err != nil {
				return err
			}
			cluster.children = append(cluster.children, ch)
			cluster.Processes = append(cluster.Processes, ch.Process)
			if err := cluster.write(l); err != nil {
				return err
			}
		}
		return nil
	}
	healthy := func(names ...string) error {
		for _, name := range names {
			if !o.has(name) {
				continue
			}
			err := cluster.waitFor(ctx, name, func() bool { return api.healthy(ctx, components[name].health) })
			if err != nil {
				return err
			}
			fmt.Fprintf(progress, "%s is healthy\n", name)
		}
		return nil
	}

	// etcd and the API server start together: the server waits for etcd by itself.
	if err := run(Etcd, APIServer); err != nil {
		return nil, err
	}
	if err := healthy(Etcd, APIServer); err != nil {
		return nil, err
	}
	if o.has(JobSet) {
		if err := api.installJobSet(ctx, cache.Manifests(), p.jobsetWebhook, ca.PEM); err != nil {
			return nil, err
		}
	}
	if err := run(ControllerManager, Scheduler, KWOK); err != nil {
		return nil, err
	}
	if o.has(JobSet) { // it ends if its CRD is not served yet
		err := cluster.waitFor(ctx, "JobSet's CRD", func() bool { return api.exists(ctx, jobsetsPath) })
		if err != nil {
			return nil, err
		}
	}
	if err := run(JobSet); err != nil {
		return nil, err
	}
	if err := healthy(ControllerManager, Scheduler, KWOK, JobSet); err != nil {
		return nil, err
	}
	if o.has(JobSet) {
		var last error
		err := cluster.waitFor(ctx, "JobSet's webhooks", func() bool { last = api.jobsetAnswers(ctx); return last == nil })
		if err != nil {
			return nil, fmt.Errorf("%w (last answer: %v)", err, last)
		}
	}
	if o.has(ControllerManager) { // pods need it
		err := cluster.waitFor(ctx, "the default service account", func() bool {
			return api.exists(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
		})
		if err != nil {
			return nil, err
		}
	}
	cluster.Ready = true
	return cluster, cluster.write(l)
}

// writeFiles makes the certificates and configuration files.
func writeFiles(o Options, l layout, p ports, server string) (*pki.Authority, pki.Pair, error) {
	fail := func(err error) (*pki.Authority, pki.Pair, error) { return nil, pki.Pair{}, err }
	ca, err := pki.NewAuthority("localcluster")
	if err != nil {
		return fail(err)
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if o.Address != "" {
		names = append(names, o.Address, kubernetesService)
	}
	serving, err := ca.Serving(names...)
	if err != nil {
		return fail(err)
	}
	admin, err := ca.Client("admin", "system:masters")
	if err != nil {
		return fail(err)
	}
	tokens, err := pki.ServiceAccountKey()
	if err != nil {
		return fail(err)
	}
	if err := serving.Write(l.pki, "tls.crt", "tls.key"); err != nil {
		return fail(err)
	}
	if err := tokens.Write(l.pki, "service-account.pub", "service-account.key"); err != nil {
		return fail(err)
	}
	kwokConfig, err := kwok.Config(o.leaseDuration())
	if err != nil {
		return fail(err)
	}
	for name, content := range map[string]string{
		l.ca:           string(ca.PEM),
		l.kubeconfig:   kubeconfig(server, ca.PEM, admin.Cert, admin.Key),
		l.jobsetConfig: jobsetConfig(l, p),
		l.kwokConfig:   string(kwokConfig),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return fail(err)
		}
	}
	return ca, admin, nil
}

// waitFor waits until ok, the end of a program, or the end of ctx.
func (c *Cluster) waitFor(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		for _, ch := range c.children {
			select {
			case <-ch.exited:
				return fmt.Errorf("%s ended; the last lines of %s:\n%s", ch.Name, ch.log, ch.tail())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// Ended returns a channel that tells when one of the cluster's programs has ended.
func (c *Cluster) Ended() <-chan string {
	out := make(chan string, len(c.children))
	for _, ch := range c.children {
		go func() {
			<-ch.exited
			out <- ch.Name
		}()
	}
	return out
}

// Running lists which of the cluster's programs run.
func (s *State) Running(dir string) map[string]bool {
	out := map[string]bool{}
	for _, p := range s.Processes {
		out[p.Name] = p.ours(dir)
	}
	return out
}
