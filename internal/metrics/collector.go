package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// scrapeTimeout bounds the reads of one scrape; they go to the cache.
const scrapeTimeout = 5 * time.Second

var jobLabels = []string{"namespace", "name"}

var (
	slicesDesc = prometheus.NewDesc(namespace+"_slices",
		"Slices of a PathwaysJob by state.", append(jobLabels[:2:2], "state"), nil)
	wantedDesc = prometheus.NewDesc(namespace+"_slices_wanted",
		"Slices that a PathwaysJob asks for.", jobLabels, nil)
	availabilityDesc = prometheus.NewDesc(namespace+"_slice_availability_ratio",
		"Ready slice-seconds over wanted slice-seconds of a PathwaysJob since it started.", jobLabels, nil)
	restartsDesc = prometheus.NewDesc(namespace+"_restarts",
		"Whole restarts of a PathwaysJob, for whatever reason.", jobLabels, nil)
	jobsDesc = prometheus.NewDesc(namespace+"_jobs",
		"PathwaysJobs by state.", []string{"state"}, nil)
	fencedDesc = prometheus.NewDesc(namespace+"_fenced_pools",
		"Slice pools that are fenced.", nil, nil)
	pausedDesc = prometheus.NewDesc(namespace+"_repair_paused",
		"1 while repair is paused because too many slice pools look failed at once.", nil, nil)
)

var sliceStates = []v1.SliceState{
	v1.SlicePending, v1.SliceReady, v1.SliceSuspending, v1.SliceSuspended,
	v1.SliceRestarting, v1.SliceReplacing, v1.SliceLost,
}

var jobStates = []v1.JobState{
	v1.JobPending, v1.JobRunning, v1.JobSuspended, v1.JobCompleted, v1.JobFailed,
}

// Collector tells the state of all PathwaysJobs and fences from the cache, at
// the time of the scrape.
type Collector struct {
	reader client.Reader
	clock  clock.PassiveClock
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector makes a collector over a cached reader.
func NewCollector(r client.Reader, c clock.PassiveClock) *Collector {
	return &Collector{reader: r, clock: c}
}

// Describe sends the descriptions of all series.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{slicesDesc, wantedDesc, availabilityDesc, restartsDesc, jobsDesc, fencedDesc, pausedDesc} {
		ch <- d
	}
}

// Collect reads the cache and sends all series. What cannot be read is sent
// as an invalid metric, so that the scrape tells the error.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.collectJobs(ctx, ch)
	c.collectFences(ctx, ch)
}

func (c *Collector) collectJobs(ctx context.Context, ch chan<- prometheus.Metric) {
	var jobs v1.PathwaysJobList
	if err := c.reader.List(ctx, &jobs); err != nil {
		ch <- prometheus.NewInvalidMetric(jobsDesc, err)
		return
	}
	now := c.clock.Now()
	states := map[v1.JobState]int{}
	paused := false
	for i := range jobs.Items {
		job := &jobs.Items[i]
		state := job.Status.State
		if state == "" {
			state = v1.JobPending
		}
		states[state]++
		paused = paused || !ended(job) && job.Status.Repair != nil && job.Status.Repair.Paused != nil
		collectJob(ch, job, now)
	}
	for _, s := range jobStates {
		gauge(ch, jobsDesc, float64(states[s]), string(s))
	}
	gauge(ch, pausedDesc, boolValue(paused))
}

func collectJob(ch chan<- prometheus.Metric, job *v1.PathwaysJob, now time.Time) {
	gauge(ch, restartsDesc, float64(ptr.Deref(job.Status.Restarts, 0)), job.Namespace, job.Name)
	if ratio, ok := availability(job, now); ok {
		gauge(ch, availabilityDesc, ratio, job.Namespace, job.Name)
	}
	if ended(job) {
		return
	}
	gauge(ch, wantedDesc, float64(ptr.Deref(job.Status.TotalSlices, 0)), job.Namespace, job.Name)
	byState := map[v1.SliceState]int{}
	for _, s := range job.Status.Slices {
		byState[s.State]++
	}
	for _, s := range sliceStates {
		gauge(ch, slicesDesc, float64(byState[s]), job.Namespace, job.Name, string(s))
	}
}

func ended(job *v1.PathwaysJob) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionCompleted) ||
		meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionFailed)
}

// availability is the share of the wanted slice-seconds since the job's start
// in which slices were Ready. Until a slice was first Ready it was not.
func availability(job *v1.PathwaysJob, now time.Time) (float64, bool) {
	start, end := job.Status.StartTime, now
	if job.Status.CompletionTime != nil {
		end = job.Status.CompletionTime.Time
	}
	wanted := ptr.Deref(job.Status.TotalSlices, 0)
	if start == nil || wanted <= 0 || !end.After(start.Time) {
		return 0, false
	}
	elapsed := end.Sub(start.Time)
	var ready time.Duration
	for i := range job.Status.Slices {
		ready += min(readyFor(&job.Status.Slices[i], end), elapsed)
	}
	return ready.Seconds() / (float64(wanted) * elapsed.Seconds()), true
}

// readyFor is how long the slice was Ready until end.
func readyFor(s *v1.SliceStatus, end time.Time) time.Duration {
	if s.FirstReadyTime == nil {
		return 0
	}
	up := end.Sub(s.FirstReadyTime.Time) - time.Duration(ptr.Deref(s.DownSeconds, 0))*time.Second
	if s.DownSince != nil {
		up -= max(end.Sub(s.DownSince.Time), 0)
	}
	return max(up, 0)
}

func (c *Collector) collectFences(ctx context.Context, ch chan<- prometheus.Metric) {
	var nodes corev1.NodeList
	if err := c.reader.List(ctx, &nodes, client.HasLabels{tpu.LabelAccelerator}); err != nil {
		ch <- prometheus.NewInvalidMetric(fencedDesc, err)
		return
	}
	pools := map[string]bool{}
	for i := range nodes.Items {
		for _, t := range nodes.Items[i].Spec.Taints {
			if t.Key == v1.TaintSliceDegraded {
				pools[nodes.Items[i].Labels[tpu.LabelNodePool]] = true
			}
		}
	}
	gauge(ch, fencedDesc, float64(len(pools)))
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
