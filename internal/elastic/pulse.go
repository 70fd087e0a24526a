package elastic

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// pulseInterval is how often the API server is asked, and pulseTimeout
	// how long it may take to answer.
	pulseInterval = 2 * time.Second
	pulseTimeout  = 5 * time.Second
	// outage is how long the API server must not answer before hosts that
	// Kubernetes calls silent are doubted. Kubernetes waits for 40 s at least.
	outage = 20 * time.Second
)

// pulse notices that the API server does not answer. After that, Kubernetes
// may call healthy hosts silent: they could not report either.
type pulse struct {
	ask   func(context.Context) error
	clock clock.PassiveClock

	mu sync.Mutex
	// answered is when the API server last answered, again when it first did
	// after an outage.
	answered, again time.Time
}

// newPulse returns a pulse that mgr runs, of the API server that mgr uses.
func newPulse(mgr manager.Manager, c clock.PassiveClock) (*pulse, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	p := &pulse{clock: c, ask: func(ctx context.Context) error {
		return d.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}}
	return p, mgr.Add(p)
}

// Start asks until ctx ends.
func (p *pulse) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, p.beat, pulseInterval)
	return nil
}

func (p *pulse) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pulseTimeout)
	defer cancel()
	if p.ask(ctx) != nil {
		return // Whoever needs the API server for something says so.
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if !p.answered.IsZero() && now.Sub(p.answered) > outage {
		p.again = now
	}
	p.answered = now
}

// answering is since when the API server answers again after an outage: now,
// if that is not sure yet; zero if there was none.
func (p *pulse) answering() time.Time {
	if p == nil {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.clock.Now(); !p.answered.IsZero() && now.Sub(p.answered) > outage {
		return now
	}
	return p.again
}
