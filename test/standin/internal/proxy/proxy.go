// Package proxy is the IFRT proxy of the stand-in: a client opens a session
// and runs operations on slices. In an elastic job it passes on the errors of
// slices; in any other it waits until they are back.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/flags"
	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// The two spellings of the elastic flag: an image knows one of them.
const (
	ElasticInstances = "num_elastic_instances"
	ElasticSlices    = "num_elastic_slices"
)

// Config is what a proxy is started with.
type Config struct {
	Port int
	// Manager is host:port of the resource manager.
	Manager string
	// Elastic jobs get the errors of their slices.
	Elastic bool
	// Sidecar says that workers have a colocated Python sidecar.
	Sidecar bool
	// Beat is the time between two leases and between two tries; Timeout, how
	// long a client may be silent.
	Beat, Timeout time.Duration
}

// Parse reads command line and environment. elasticFlag is the spelling of
// the elastic flag that the image knows.
func Parse(args []string, env *flags.Env, elasticFlag string) (Config, error) {
	set := flags.Known("server_port", "resource_manager_address", "gcs_scratch_location", "sidecar_name",
		"enable_metrics_collection", "v", "vmodule", "minloglevel", "stderrthreshold", "xla_*", elasticFlag)
	if err := set.Parse(args); err != nil {
		return Config{}, err
	}
	c := Config{
		Port:    set.Int("server_port", 29000),
		Manager: set.Required("resource_manager_address"),
		Elastic: set.Int(elasticFlag, 0) > 0,
		Beat:    time.Second,
		Timeout: 10 * time.Second,
	}
	set.Bool("enable_metrics_collection")
	switch name := set.String("sidecar_name", ""); name {
	case "":
	case "external":
		c.Sidecar = true
	default:
		return Config{}, fmt.Errorf("flag --sidecar_name is %q, not external", name)
	}
	if err := set.Err(); err != nil {
		return Config{}, err
	}
	head := env.Required("PATHWAYS_HEAD")
	if err := env.Err(); err != nil {
		return Config{}, err
	}
	host, _, err := net.SplitHostPort(c.Manager)
	if err != nil {
		return Config{}, fmt.Errorf("flag --resource_manager_address: %w", err)
	}
	if host != head {
		return Config{}, fmt.Errorf("flag --resource_manager_address names the host %q, but PATHWAYS_HEAD is %q", host, head)
	}
	return c, nil
}

// Proxy is one proxy process.
type Proxy struct {
	config      Config
	incarnation string
	client      *http.Client

	mu      sync.Mutex
	session string
	opened  int
	told    int
	seen    time.Time
}

// New makes a proxy; incarnation tells it from its successors.
func New(config Config, incarnation string) *Proxy {
	return &Proxy{config: config, incarnation: incarnation, client: wire.NewClient()}
}

// Serve answers until the context ends.
func (p *Proxy) Serve(ctx context.Context) error {
	listeners, err := wire.Listen(p.config.Port)
	if err != nil {
		return err
	}
	log.Printf("proxy %s: port %d, elastic %t, sidecar %t", p.incarnation, p.config.Port, p.config.Elastic, p.config.Sidecar)
	return p.ServeOn(ctx, listeners[0])
}

// ServeOn is Serve on a listener that is open already.
func (p *Proxy) ServeOn(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mux := http.NewServeMux()
	wire.Handle(mux, "POST /v1/session", p.open)
	wire.Handle(mux, "POST /v1/keepalive", p.keepAlive)
	wire.Handle(mux, "POST /v1/close", p.close)
	wire.Handle(mux, "POST /v1/run", p.run)
	wire.Handle(mux, "GET /v1/cluster", func(ctx context.Context, _ string, _ wire.Empty) (wire.Cluster, error) {
		return p.cluster(ctx)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	go p.lease(ctx)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// lease tells the resource manager, again and again, which client is there.
func (p *Proxy) lease(ctx context.Context) {
	for ctx.Err() == nil {
		p.mu.Lock()
		if p.session != "" && time.Since(p.seen) > p.config.Timeout {
			log.Printf("client session %s is silent: closed", p.session)
			p.session = ""
		}
		p.mu.Unlock()
		if err := p.tell(ctx); err != nil && ctx.Err() == nil {
			log.Printf("tell the resource manager: %v", err)
		}
		wait(ctx, p.config.Beat)
	}
}

func (p *Proxy) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	p.mu.Lock()
	p.told++
	lease := wire.ProxyLease{Incarnation: p.incarnation, Number: p.told, Client: p.session}
	p.mu.Unlock()
	return wire.Post(ctx, p.client, p.config.Manager, "/v1/proxy", lease, nil)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (p *Proxy) cluster(ctx context.Context) (wire.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var c wire.Cluster
	err := wire.Get(ctx, p.client, p.config.Manager, "/v1/cluster", &c)
	return c, err
}

func (p *Proxy) open(ctx context.Context, _ string, _ wire.Empty) (wire.Session, error) {
	c, err := p.cluster(ctx)
	if err != nil {
		return wire.Session{}, fmt.Errorf("ask the resource manager: %w", err)
	}
	p.mu.Lock()
	if p.session != "" {
		defer p.mu.Unlock()
		return wire.Session{}, wire.Errorf(wire.Unavailable, "another client is connected")
	}
	p.opened++
	p.session, p.seen = fmt.Sprintf("%s.%d", p.incarnation, p.opened), time.Now()
	session := p.session
	p.mu.Unlock()
	log.Printf("client session %s opened", session)
	return wire.Session{
		ID: session, NumSlices: len(c.Slices), WorkersPerSlice: len(c.Slices[0].Workers), Elastic: p.config.Elastic,
	}, p.tell(ctx)
}

// check renews a session.
func (p *Proxy) check(session string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session == "" || session != p.session {
		return wire.Errorf(wire.Aborted, "client session %q is over", session)
	}
	p.seen = time.Now()
	return nil
}

func (p *Proxy) keepAlive(_ context.Context, _ string, in wire.Session) (wire.Empty, error) {
	return wire.Empty{}, p.check(in.ID)
}

func (p *Proxy) close(ctx context.Context, _ string, in wire.Session) (wire.Empty, error) {
	if err := p.check(in.ID); err != nil {
		return wire.Empty{}, err
	}
	p.mu.Lock()
	p.session = ""
	p.mu.Unlock()
	log.Printf("client session %s closed", in.ID)
	return wire.Empty{}, p.tell(ctx)
}
