package manager

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// Manager is one resource manager. Its state dies with it.
type Manager struct {
	config Config
	id     string

	mu         sync.Mutex
	sessions   int // ended client sessions
	lease      wire.ProxyLease
	leaseSeen  time.Time
	workers    map[index]*worker
	violations []string
	notes      map[string]string
}

type index struct{ slice, worker int }

type worker struct {
	address     string
	incarnation string
	epoch       string
	seen        time.Time
	loaded      bool
	draining    bool
	gone        bool
}

// New makes a resource manager; id tells it from its successors.
func New(config Config, id string) *Manager {
	return &Manager{config: config, id: id, workers: map[index]*worker{}, notes: map[string]string{}}
}

// epoch names the present client session. The caller holds the lock.
func (m *Manager) epoch() string { return fmt.Sprintf("%s.%d", m.id, m.sessions) }

// Serve answers on both ports until the context ends.
func (m *Manager) Serve(ctx context.Context) error {
	listeners, err := wire.Listen(m.config.Port, m.config.SecondPort)
	if err != nil {
		return err
	}
	log.Printf("resource manager %s: %d slices of %d workers, ports %d and %d",
		m.id, m.config.NumSlices, m.config.WorkersPerSlice, wire.Port(listeners[0]), wire.Port(listeners[1]))
	go m.resolve(ctx)
	return m.ServeOn(ctx, listeners...)
}

// ServeOn is Serve on listeners that are open already.
func (m *Manager) ServeOn(ctx context.Context, listeners ...net.Listener) error {
	server := &http.Server{Handler: m.handler(), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	errs := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { errs <- server.Serve(l) }()
	}
	var all []error
	for range listeners {
		if err := <-errs; !errors.Is(err, http.ErrServerClosed) {
			all = append(all, err)
			_ = server.Close()
		}
	}
	return errors.Join(all...)
}

func (m *Manager) handler() http.Handler {
	mux := http.NewServeMux()
	wire.Handle(mux, "POST /v1/register", m.register)
	wire.Handle(mux, "POST /v1/heartbeat", m.heartbeat)
	wire.Handle(mux, "POST /v1/proxy", m.proxy)
	wire.Handle(mux, "GET /v1/cluster", func(context.Context, string, wire.Empty) (wire.Cluster, error) {
		return m.Cluster(), nil
	})
	return mux
}

func (m *Manager) register(ctx context.Context, peer string, in wire.Register) (wire.Registered, error) {
	switch {
	case in.NumSlices != m.config.NumSlices:
		return wire.Registered{}, wire.Errorf(wire.InvalidArgument,
			"the worker counts %d slices, the resource manager %d", in.NumSlices, m.config.NumSlices)
	case in.Slice >= m.config.NumSlices:
		return wire.Registered{}, wire.Errorf(wire.InvalidArgument, "there is no slice %d of %d", in.Slice, m.config.NumSlices)
	case in.Worker >= m.config.WorkersPerSlice:
		return wire.Registered{}, wire.Errorf(wire.InvalidArgument, "there is no worker %d of %d", in.Worker, m.config.WorkersPerSlice)
	}
	for _, port := range in.Ports {
		if err := reach(ctx, peer, port); err != nil {
			return wire.Registered{}, wire.Errorf(wire.Unavailable, "the worker's port %d cannot be reached: %v", port, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := index{in.Slice, in.Worker}
	w := &worker{
		address:     net.JoinHostPort(peer, fmt.Sprint(in.Port)),
		incarnation: in.Incarnation,
		epoch:       m.epoch(),
		seen:        time.Now(),
	}
	m.workers[key] = w
	m.notes[fmt.Sprintf("megascale-%d-%d", in.Slice, in.Worker)] = in.Megascale
	log.Printf("slice %d worker %d registered: %s at %s", in.Slice, in.Worker, in.Incarnation, w.address)
	return wire.Registered{Epoch: w.epoch}, nil
}

func reach(ctx context.Context, host string, port int) error {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (m *Manager) heartbeat(_ context.Context, _ string, in wire.Heartbeat) (wire.Registered, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLease()
	w, ok := m.workers[index{in.Slice, in.Worker}]
	if !ok {
		return wire.Registered{}, wire.Errorf(wire.Aborted, "slice %d worker %d is not registered", in.Slice, in.Worker)
	}
	if w.incarnation != in.Incarnation {
		m.violate("slice %d worker %d: %s still lives beside its successor %s", in.Slice, in.Worker, in.Incarnation, w.incarnation)
		return wire.Registered{}, wire.Errorf(wire.Aborted, "slice %d worker %d has a successor", in.Slice, in.Worker)
	}
	if (in.Draining && !w.draining) || (in.Gone && !w.gone) {
		log.Printf("slice %d worker %d: draining %t, gone %t", in.Slice, in.Worker, in.Draining, in.Gone)
	}
	w.seen, w.loaded, w.draining, w.gone = time.Now(), in.Loaded, in.Draining, in.Gone
	return wire.Registered{Epoch: m.epoch()}, nil
}

func (m *Manager) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	log.Print("VIOLATION ", text)
	if len(m.violations) < 100 {
		m.violations = append(m.violations, text)
	}
}

// proxy takes the proxy's lease. When the client that it named has gone, a
// new epoch begins.
func (m *Manager) proxy(_ context.Context, _ string, in wire.ProxyLease) (wire.Registered, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLease()
	if in.Incarnation == m.lease.Incarnation && in.Number < m.lease.Number {
		return wire.Registered{Epoch: m.epoch()}, nil // Overtaken by a later one.
	}
	if m.lease.Client != "" && in.Client != m.lease.Client {
		m.endSession("the client left the proxy")
	}
	m.lease, m.leaseSeen = in, time.Now()
	return wire.Registered{Epoch: m.epoch()}, nil
}

func (m *Manager) expireLease() {
	if m.lease.Client != "" && time.Since(m.leaseSeen) > m.config.Timeout {
		m.endSession("the proxy is silent")
		m.lease = wire.ProxyLease{}
	}
}

func (m *Manager) endSession(why string) {
	log.Printf("client session %s ended: %s; the workers end too", m.lease.Client, why)
	m.sessions++
}

// Cluster returns all that is known.
func (m *Manager) Cluster() wire.Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLease()
	c := wire.Cluster{ID: m.id, Epoch: m.epoch(), Violations: append([]string(nil), m.violations...), Notes: map[string]string{}}
	for k, v := range m.notes {
		c.Notes[k] = v
	}
	for s := range m.config.NumSlices {
		slice := wire.Slice{Index: s, Healthy: true}
		for i := range m.config.WorkersPerSlice {
			info := wire.Worker{Index: i}
			w := m.workers[index{s, i}]
			if w != nil {
				info.Address, info.Incarnation = w.address, w.incarnation
			}
			slice.Workers = append(slice.Workers, info)
			if why := m.unhealthy(w); why != "" && slice.Healthy {
				slice.Healthy, slice.Why = false, fmt.Sprintf("worker %d %s", i, why)
			}
		}
		c.Slices = append(c.Slices, slice)
	}
	return c
}

func (m *Manager) unhealthy(w *worker) string {
	switch {
	case w == nil:
		return "never registered"
	case w.gone:
		return "has gone"
	case w.draining:
		return "is being suspended"
	case time.Since(w.seen) > m.config.Timeout:
		return "is silent"
	case w.epoch != m.epoch():
		return "belongs to an earlier client"
	case !w.loaded:
		return "is reading back its state"
	}
	return ""
}

// resolve notes whether HOST_ADDRESS is a name of this host, as soon as DNS
// knows it.
func (m *Manager) resolve(ctx context.Context) {
	for ctx.Err() == nil {
		addresses, err := net.DefaultResolver.LookupHost(ctx, m.config.HostAddress)
		note := fmt.Sprint(err)
		if err == nil {
			note = "another host"
			for _, a := range addresses {
				if isOwn(a) {
					note = "this host"
				}
			}
		}
		m.mu.Lock()
		m.notes["host-address"] = m.config.HostAddress
		m.notes["host-address-is"] = note
		m.mu.Unlock()
		if err == nil {
			log.Printf("%s is %s (%v)", m.config.HostAddress, note, addresses)
			return
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func isOwn(address string) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, o := range own {
		if ip, ok := o.(*net.IPNet); ok && ip.IP.String() == address {
			return true
		}
	}
	return false
}
