// Package metrics holds the operator's own Prometheus metrics: counters of
// what it did, and a collector that reads what is from the cache, so that the
// series of a deleted PathwaysJob go with it.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "pathwaysjob"

// Recorder counts what the elastic sub-controller did. Its labels are reasons
// of the API, so their number is bounded. A nil Recorder counts nothing.
type Recorder struct {
	replacements *prometheus.CounterVec
	charged      *prometheus.CounterVec
	recovery     *prometheus.HistogramVec
	restarts     *prometheus.CounterVec
}

// NewRecorder makes the counters and registers them.
func NewRecorder(r prometheus.Registerer) *Recorder {
	m := &Recorder{
		replacements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "slice_replacements_total",
			Help: "Slices that were moved or started anew, by reason.",
		}, []string{"reason"}),
		charged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "slice_charged_restarts_total",
			Help: "Restarts of slices that were charged to maxSliceRestarts, by reason.",
		}, []string{"reason"}),
		recovery: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "slice_recovery_seconds",
			Help:    "Seconds from a slice not being Ready to it being Ready again, by the reason of the interruption.",
			Buckets: []float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600},
		}, []string{"reason"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "whole_restarts_total",
			Help: "Whole restarts that the elastic sub-controller asked for, or saw a disruption of the head bring, by reason and whether they were charged to maxRestarts.",
		}, []string{"reason", "charged"}),
	}
	r.MustRegister(m.replacements, m.charged, m.recovery, m.restarts)
	return m
}

// Replaced counts one slice that is moved or started anew.
func (m *Recorder) Replaced(reason string) {
	if m != nil {
		m.replacements.WithLabelValues(reason).Inc()
	}
}

// Charged counts n restarts that were charged to a slice's budget; a refund
// is not counted.
func (m *Recorder) Charged(reason string, n int) {
	if m != nil && n > 0 {
		m.charged.WithLabelValues(reason).Add(float64(n))
	}
}

// Recovered observes how long a slice was not Ready.
func (m *Recorder) Recovered(reason string, down time.Duration) {
	if m != nil {
		m.recovery.WithLabelValues(reason).Observe(down.Seconds())
	}
}

// Restarted counts one whole restart.
func (m *Recorder) Restarted(reason string, charged bool) {
	if m == nil {
		return
	}
	label := "false"
	if charged {
		label = "true"
	}
	m.restarts.WithLabelValues(reason, label).Inc()
}
