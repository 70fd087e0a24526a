package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

var start = time.Unix(1_800_000_000, 0)

func newClient(objects ...client.Object) client.Client {
	s := runtime.NewScheme()
	utilruntime.Must(v1.AddToScheme(s))
	utilruntime.Must(corev1.AddToScheme(s))
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build()
}

func job(name string, slices ...v1.SliceStatus) *v1.PathwaysJob {
	j := &v1.PathwaysJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	for i := range slices {
		slices[i].Index = ptr.To(int32(i))
	}
	j.Status = v1.PathwaysJobStatus{
		State: v1.JobRunning, StartTime: ptr.To(metav1.NewTime(start)), Slices: slices,
		TotalSlices: ptr.To(int32(len(slices))), Restarts: ptr.To[int32](2),
	}
	return j
}

func ready(downSeconds int64) v1.SliceStatus {
	return v1.SliceStatus{State: v1.SliceReady, FirstReadyTime: ptr.To(metav1.NewTime(start)), DownSeconds: ptr.To(downSeconds)}
}

func fencedNode(name, pool string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{tpu.LabelNodePool: pool, tpu.LabelAccelerator: "tpu-v5p-slice"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: v1.TaintSliceDegraded, Effect: corev1.TaintEffectNoSchedule}}},
	}
}

func TestCollector(t *testing.T) {
	down := v1.SliceStatus{
		State: v1.SliceSuspended, FirstReadyTime: ptr.To(metav1.NewTime(start)), DownSeconds: ptr.To[int64](10),
		DownSince: ptr.To(metav1.NewTime(start.Add(80 * time.Second))),
	}
	running := job("running", ready(0), down)
	running.Status.Repair = &v1.RepairStatus{Paused: ptr.To(metav1.NewTime(start))}
	ended := job("ended", ready(50))
	ended.Status.State = v1.JobCompleted
	ended.Status.CompletionTime = ptr.To(metav1.NewTime(start.Add(100 * time.Second)))
	ended.Status.Conditions = []metav1.Condition{{Type: v1.ConditionCompleted, Status: metav1.ConditionTrue}}
	c := newClient(running, ended, fencedNode("a", "p"), fencedNode("b", "p"), fencedNode("c", "q"))
	collector := NewCollector(c, testingclock.NewFakePassiveClock(start.Add(100*time.Second)))

	want := `
# HELP pathwaysjob_fenced_pools Slice pools that are fenced.
# TYPE pathwaysjob_fenced_pools gauge
pathwaysjob_fenced_pools 2
# HELP pathwaysjob_jobs PathwaysJobs by state.
# TYPE pathwaysjob_jobs gauge
pathwaysjob_jobs{state="Completed"} 1
pathwaysjob_jobs{state="Failed"} 0
pathwaysjob_jobs{state="Pending"} 0
pathwaysjob_jobs{state="Running"} 1
pathwaysjob_jobs{state="Suspended"} 0
# HELP pathwaysjob_repair_paused 1 while repair is paused because too many slice pools look failed at once.
# TYPE pathwaysjob_repair_paused gauge
pathwaysjob_repair_paused 1
# HELP pathwaysjob_restarts Whole restarts of a PathwaysJob, for whatever reason.
# TYPE pathwaysjob_restarts gauge
pathwaysjob_restarts{name="ended",namespace="ns"} 2
pathwaysjob_restarts{name="running",namespace="ns"} 2
# HELP pathwaysjob_slice_availability_ratio Ready slice-seconds over wanted slice-seconds of a PathwaysJob since it started.
# TYPE pathwaysjob_slice_availability_ratio gauge
pathwaysjob_slice_availability_ratio{name="ended",namespace="ns"} 0.5
pathwaysjob_slice_availability_ratio{name="running",namespace="ns"} 0.85
# HELP pathwaysjob_slices Slices of a PathwaysJob by state.
# TYPE pathwaysjob_slices gauge
pathwaysjob_slices{name="running",namespace="ns",state="Lost"} 0
pathwaysjob_slices{name="running",namespace="ns",state="Pending"} 0
pathwaysjob_slices{name="running",namespace="ns",state="Ready"} 1
pathwaysjob_slices{name="running",namespace="ns",state="Replacing"} 0
pathwaysjob_slices{name="running",namespace="ns",state="Restarting"} 0
pathwaysjob_slices{name="running",namespace="ns",state="Suspended"} 1
pathwaysjob_slices{name="running",namespace="ns",state="Suspending"} 0
# HELP pathwaysjob_slices_wanted Slices that a PathwaysJob asks for.
# TYPE pathwaysjob_slices_wanted gauge
pathwaysjob_slices_wanted{name="running",namespace="ns"} 2
`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}

	for _, j := range []*v1.PathwaysJob{running, ended} {
		if err := c.Delete(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pathwaysjob_slices", "pathwaysjob_slices_wanted", "pathwaysjob_restarts", "pathwaysjob_slice_availability_ratio"} {
		if n := testutil.CollectAndCount(collector, name); n != 0 {
			t.Errorf("%s has %d series of jobs that are gone", name, n)
		}
	}
}

func TestAvailability(t *testing.T) {
	at := func(s int) *metav1.Time { return ptr.To(metav1.NewTime(start.Add(time.Duration(s) * time.Second))) }
	cases := map[string]struct {
		job  *v1.PathwaysJob
		want float64
		ok   bool
	}{
		"not started": {job: func() *v1.PathwaysJob { j := job("j", ready(0)); j.Status.StartTime = nil; return j }()},
		"no slices":   {job: job("j")},
		"all the time": {
			job: job("j", ready(0), ready(0)), want: 1, ok: true,
		},
		"never ready": {
			job: job("j", v1.SliceStatus{State: v1.SlicePending}), want: 0, ok: true,
		},
		"Ready late": {
			job: job("j", v1.SliceStatus{State: v1.SliceReady, FirstReadyTime: at(25)}), want: 0.75, ok: true,
		},
		"Ready late, then down": {
			job:  job("j", v1.SliceStatus{State: v1.SliceReady, FirstReadyTime: at(20), DownSeconds: ptr.To[int64](30)}),
			want: 0.5, ok: true,
		},
		"Ready before the start of the job that was seen": {
			job: job("j", v1.SliceStatus{State: v1.SliceReady, FirstReadyTime: at(-10)}), want: 1, ok: true,
		},
		"down since after its end": {
			job: func() *v1.PathwaysJob {
				j := job("j", v1.SliceStatus{State: v1.SliceSuspended, FirstReadyTime: at(0), DownSince: at(60)})
				j.Status.CompletionTime = at(50)
				return j
			}(),
			want: 1, ok: true,
		},
		"down for longer than it is old": {
			job: job("j", ready(1000)), want: 0, ok: true,
		},
		"down now": {
			job: job("j", v1.SliceStatus{State: v1.SliceLost, FirstReadyTime: at(0), DownSince: at(60)}), want: 0.6, ok: true,
		},
		"a slice of which nothing is known": {
			job: func() *v1.PathwaysJob {
				j := job("j", ready(0))
				j.Status.TotalSlices = ptr.To[int32](2)
				return j
			}(),
			want: 0.5, ok: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := availability(tc.job, start.Add(100*time.Second))
			if got != tc.want || ok != tc.ok {
				t.Errorf("got %v, %v; want %v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestRecorder(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewRecorder(registry)
	m.Replaced(v1.ReasonHostFailed)
	m.Charged(v1.ReasonWorkerFailed, 2)
	m.Charged(v1.ReasonWorkerFailed, -1) // a refund
	m.Recovered(v1.ReasonHostFailed, 2500*time.Millisecond)
	m.Restarted(v1.ReasonHeadDisrupted, false)
	m.Restarted(v1.ReasonWorkerFailed, true)
	want := `
# HELP pathwaysjob_slice_charged_restarts_total Restarts of slices that were charged to maxSliceRestarts, by reason.
# TYPE pathwaysjob_slice_charged_restarts_total counter
pathwaysjob_slice_charged_restarts_total{reason="WorkerFailed"} 2
# HELP pathwaysjob_slice_replacements_total Slices that were moved or started anew, by reason.
# TYPE pathwaysjob_slice_replacements_total counter
pathwaysjob_slice_replacements_total{reason="HostFailed"} 1
# HELP pathwaysjob_whole_restarts_total Whole restarts that the elastic sub-controller asked for, or saw a disruption of the head bring, by reason and whether they were charged to maxRestarts.
# TYPE pathwaysjob_whole_restarts_total counter
pathwaysjob_whole_restarts_total{charged="false",reason="HeadDisrupted"} 1
pathwaysjob_whole_restarts_total{charged="true",reason="WorkerFailed"} 1
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "pathwaysjob_slice_charged_restarts_total",
		"pathwaysjob_slice_replacements_total", "pathwaysjob_whole_restarts_total")
	if err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m.recovery); n != 1 {
		t.Errorf("%d histograms of recovery, want 1", n)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}

	var none *Recorder
	none.Replaced("x")
	none.Charged("x", 1)
	none.Recovered("x", time.Second)
	none.Restarted("x", true)
}
