package elastic

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/tpu"
)

var moment = metav1.NewTime(time.Unix(1_800_000_000, 0))

func readyIs(status corev1.ConditionStatus, message string) corev1.NodeStatus {
	return corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
		{Type: corev1.NodeReady, Status: status, Message: message, LastTransitionTime: moment},
	}}
}

func taints(keys ...string) corev1.NodeSpec {
	var spec corev1.NodeSpec
	for _, k := range keys {
		spec.Taints = append(spec.Taints, corev1.Taint{Key: k, Effect: corev1.TaintEffectNoSchedule})
	}
	return spec
}

func TestNodeFacts(t *testing.T) {
	sound := plan.Node{Name: "n", ReadySince: moment.Time}
	with := func(change func(*plan.Node)) plan.Node {
		n := sound
		change(&n)
		return n
	}
	cases := map[string]struct {
		node corev1.Node
		want plan.Node
	}{
		"sound":                            {corev1.Node{Status: readyIs("True", "")}, sound},
		"TPU and spot taints do not count": {corev1.Node{Spec: taints(tpu.Resource, tpu.LabelSpot, "DeletionCandidateOfClusterAutoscaler"), Status: readyIs("True", "")}, sound},
		"Unknown":                          {corev1.Node{Status: readyIs("Unknown", "")}, with(func(n *plan.Node) { n.Ready = plan.NodeReadyUnknown })},
		"not Ready":                        {corev1.Node{Status: readyIs("False", "runtime is down")}, with(func(n *plan.Node) { n.Ready = plan.NodeReadyFalse })},
		"shutting down":                    {corev1.Node{Status: readyIs("False", "node is shutting down")}, with(func(n *plan.Node) { n.Ready, n.ShuttingDown = plan.NodeReadyFalse, true })},
		"never reported":                   {corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: moment}}, with(func(n *plan.Node) { n.Ready = plan.NodeReadyUnknown })},
		"cordoned":                         {corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}, Status: readyIs("True", "")}, with(func(n *plan.Node) { n.Unschedulable = true })},
		"out of service": {corev1.Node{Spec: taints(taintOutOfService), Status: readyIs("True", "")},
			with(func(n *plan.Node) { n.OutOfService, n.Unschedulable = true, true })},
		"shut down": {corev1.Node{Spec: taints(taintShutdown), Status: readyIs("True", "")},
			with(func(n *plan.Node) { n.Shutdown, n.Unschedulable = true, true })},
		"terminating": {corev1.Node{Spec: taints(taintTerminating), Status: readyIs("True", "")},
			with(func(n *plan.Node) { n.Terminating, n.Unschedulable = true, true })},
		"scaled down": {corev1.Node{Spec: taints(taintScaleDown), Status: readyIs("True", "")}, with(func(n *plan.Node) { n.Unschedulable = true })},
		"maintenance": {corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelMaintenanceNow: "ONGOING", labelMaintenanceTime: "1800000600"}}, Status: readyIs("True", "")},
			with(func(n *plan.Node) { n.MaintenanceOngoing, n.MaintenanceAt = true, time.Unix(1_800_000_600, 0) })},
		"a maintenance time that is none": {corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelMaintenanceTime: "soon"}}, Status: readyIs("True", "")}, sound},
		"deleting":                        {corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &moment}, Status: readyIs("True", "")}, with(func(n *plan.Node) { n.Deleting = true })},
		"fenced": {corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: v1.TaintSliceDegraded, Value: "uid", TimeAdded: &moment}}}, Status: readyIs("True", "")},
			with(func(n *plan.Node) { n.Fence, n.FencedSince = "uid", moment.Time })},
		"place": {corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{tpu.LabelNodePool: "p", corev1.LabelTopologyZone: "z"}}, Status: readyIs("True", "")},
			with(func(n *plan.Node) { n.Pool, n.Zone = "p", "z" })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.node.Name = "n"
			if diff := cmp.Diff(tc.want, *nodeFacts(&tc.node)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodFacts(t *testing.T) {
	ended := func(code int32) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Message: "boom\n", FinishedAt: moment}
	}
	worker := func(s corev1.ContainerStatus) corev1.PodStatus {
		s.Name = v1.ContainerWorker
		return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "other", RestartCount: 9}, s}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	base := plan.Pod{Name: "p", GraceSeconds: 30}
	with := func(change func(*plan.Pod)) plan.Pod {
		p := base
		change(&p)
		return p
	}
	cases := map[string]struct {
		pod  corev1.Pod
		want plan.Pod
	}{
		"new": {corev1.Pod{}, base},
		"unschedulable": {corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: moment}}}},
			with(func(p *plan.Pod) { p.Unschedulable = moment.Time })},
		"gated": {corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}}}, base},
		"nominated": {corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: "n"}}, with(func(p *plan.Pod) { p.Nominated = true })},
		"disrupted": {corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}}},
			with(func(p *plan.Pod) { p.Disrupted = "PreemptionByScheduler" })},
		"disruption over": {corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, Reason: "x"}}}}, base},
		"ready": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}, with(func(p *plan.Pod) { p.Phase, p.Ready = plan.PodRunning, true })},
		"deleting": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &moment}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](5)}},
			with(func(p *plan.Pod) { p.Deleting, p.DeletionTime, p.GraceSeconds = true, moment.Time, 5 })},
		"running again": {corev1.Pod{Status: worker(corev1.ContainerStatus{RestartCount: 2, State: running, LastTerminationState: corev1.ContainerState{Terminated: ended(1)}})},
			with(func(p *plan.Pod) {
				p.Phase, p.Restarts, p.Exited, p.ExitCode, p.ExitMessage = plan.PodRunning, 2, true, 1, "boom"
			})},
		"backing off": {corev1.Pod{Status: worker(corev1.ContainerStatus{RestartCount: 2, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{Terminated: ended(1)}})},
			with(func(p *plan.Pod) {
				p.Phase, p.Restarts, p.Down, p.Exited, p.ExitCode, p.ExitMessage = plan.PodRunning, 2, true, true, 1, "boom"
			})},
		"starting": {corev1.Pod{Status: worker(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})},
			with(func(p *plan.Pod) { p.Phase = plan.PodRunning })},
		"identity": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{completionIndexLabel: "3"},
			OwnerReferences: []metav1.OwnerReference{{UID: "not"}, {UID: "job", Controller: ptr.To(true)}}}},
			with(func(p *plan.Pod) { p.Index, p.JobUID = 3, "job" })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.pod.Name = "p"
			if diff := cmp.Diff(tc.want, podFacts(&tc.pod)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeadFacts(t *testing.T) {
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: moment}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := func(policy corev1.RestartPolicy, main, proxy corev1.ContainerStatus) *corev1.Pod {
		main.Name, proxy.Name = "main", v1.ContainerProxy
		return &corev1.Pod{
			Spec: corev1.PodSpec{RestartPolicy: policy},
			Status: corev1.PodStatus{
				Phase:                 corev1.PodRunning,
				ContainerStatuses:     []corev1.ContainerStatus{main},
				InitContainerStatuses: []corev1.ContainerStatus{proxy},
			},
		}
	}
	up := corev1.ContainerStatus{State: running}
	base := plan.Head{Phase: plan.PodRunning}
	with := func(change func(*plan.Head)) plan.Head {
		h := base
		change(&h)
		return h
	}
	jobWith := func(t batchv1.JobConditionType) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: t, Status: corev1.ConditionTrue}}}}
	}
	withPolicy := &jobsetv1alpha2.JobSet{Spec: jobsetv1alpha2.JobSetSpec{ReplicatedJobs: []jobsetv1alpha2.ReplicatedJob{{
		Name: v1.HeadReplicatedJob, Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{}}}}}}}
	cases := map[string]struct {
		pod  *corev1.Pod
		job  *batchv1.Job
		js   *jobsetv1alpha2.JobSet
		want plan.Head
	}{
		"none":              {want: plan.Head{}},
		"runs":              {pod: pod("Never", up, up), want: base},
		"policy":            {pod: pod("Never", up, up), js: withPolicy, want: with(func(h *plan.Head) { h.PodFailurePolicy = true })},
		"main ended":        {pod: pod("Never", corev1.ContainerStatus{State: ended(1)}, up), want: with(func(h *plan.Head) { h.MainExited = true })},
		"main is restarted": {pod: pod("OnFailure", corev1.ContainerStatus{State: ended(1)}, up), want: with(func(h *plan.Head) { h.ContainerRestarted = moment.Time })},
		"main succeeded":    {pod: pod("OnFailure", corev1.ContainerStatus{State: ended(0)}, up), want: with(func(h *plan.Head) { h.MainExited = true })},
		"proxy restarted": {pod: pod("Never", up, corev1.ContainerStatus{State: running, LastTerminationState: ended(137)}),
			want: with(func(h *plan.Head) { h.ContainerRestarted = moment.Time })},
		"Job fails":     {job: jobWith(batchv1.JobFailureTarget), want: plan.Head{JobEnded: true}},
		"Job succeeds":  {job: jobWith(batchv1.JobSuccessCriteriaMet), want: plan.Head{JobEnded: true}},
		"Job completed": {job: jobWith(batchv1.JobComplete), want: plan.Head{JobEnded: true}},
		"Job suspended": {job: jobWith(batchv1.JobSuspended), want: plan.Head{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, headFacts(tc.pod, tc.job, tc.js, "main")); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSlicesOfOldObjects: a stored object may be older than the bounds.
func TestSlicesOfOldObjects(t *testing.T) {
	for given, want := range map[int32]int32{-1: 0, 0: 0, 1: 1, v1.MaxSlices: v1.MaxSlices, v1.MaxSlices + 1: 0, 2_000_000_000: 0} {
		job := &v1.PathwaysJob{Spec: v1.PathwaysJobSpec{Workers: []v1.WorkerSpec{{NumSlices: given}}}}
		if got := jobFacts(job, v1.PathwaysJobStatus{}).Slices; got != want {
			t.Errorf("numSlices %d: %d slices, want %d", given, got, want)
		}
	}
}

func TestPlacement(t *testing.T) {
	pool := slicePool{
		labels: map[string]string{tpu.LabelAccelerator: "tpu-v5p-slice", tpu.LabelTopology: "2x2x2", "disk": "fast"},
		taints: []corev1.Taint{
			{Key: tpu.Resource, Value: "present", Effect: corev1.TaintEffectNoSchedule},
			{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
		},
	}
	tainted := func(keys ...string) slicePool {
		p := pool
		p.taints = append(p.taints[:2:2], taints(keys...).Taints...)
		return p
	}
	place := placement{accelerator: "tpu-v5p-slice", topology: "2x2x2"}
	with := func(change func(*placement)) placement {
		p := place
		change(&p)
		return p
	}
	cases := map[string]struct {
		place placement
		pool  slicePool
		want  bool
	}{
		"fits":            {place, pool, true},
		"another shape":   {with(func(p *placement) { p.topology = "2x2x4" }), pool, false},
		"another TPU":     {with(func(p *placement) { p.accelerator = "tpu-v4-podslice" }), pool, false},
		"selector":        {with(func(p *placement) { p.selector = map[string]string{"disk": "fast"} }), pool, true},
		"selector misses": {with(func(p *placement) { p.selector = map[string]string{"disk": "slow"} }), pool, false},
		"taint":           {place, tainted("team"), false},
		"tolerated by key": {with(func(p *placement) {
			p.tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
		}), tainted("team"), true},
		"tolerates another": {with(func(p *placement) {
			p.tolerations = []corev1.Toleration{{Key: "other", Operator: corev1.TolerationOpExists}}
		}), tainted("team"), false},
		"broken now, ours all the same": {place, tainted(corev1.TaintNodeUnreachable, taintTerminating, v1.TaintSliceDegraded), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.place.accepts(&tc.pool); got != tc.want {
				t.Errorf("accepts: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestHoldsTPU(t *testing.T) {
	chips := corev1.ResourceList{tpu.Resource: resource.MustParse("4")}
	pod := func(phase corev1.PodPhase, r corev1.ResourceRequirements) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}, {Resources: r}}}, Status: corev1.PodStatus{Phase: phase}}
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"limits":   {pod("Running", corev1.ResourceRequirements{Limits: chips}), true},
		"requests": {pod("Pending", corev1.ResourceRequirements{Requests: chips}), true},
		"none":     {pod("Running", corev1.ResourceRequirements{}), false},
		"ended":    {pod("Succeeded", corev1.ResourceRequirements{Limits: chips}), false},
		"failed":   {pod("Failed", corev1.ResourceRequirements{Limits: chips}), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := holdsTPU(tc.pod); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{"short": "short", "a long sentence": "a long...", "äääääääää": "äää..."} {
		if got := clip(in, 9); got != want {
			t.Errorf("clip(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMoves(t *testing.T) {
	m, now := newMoves(), moment.Time
	if !m.claim("v5p", "a", now) || !m.claim("v4", "b", now) {
		t.Error("a claim on a free shape was refused")
	}
	if !m.claim("v5p", "a", now) {
		t.Error("another claim of the same job was refused")
	}
	if m.claim("v5p", "b", now) || !m.heldByOther("v5p", "b", now) || m.heldByOther("v5p", "a", now) {
		t.Error("a shape was given to two jobs")
	}
	if later := now.Add(moveTime); m.heldByOther("v5p", "b", later) || !m.claim("v5p", "b", later) {
		t.Error("a claim lasted for ever")
	}
}

func TestRememberPool(t *testing.T) {
	gone := &plan.Node{Name: "a", Gone: true}
	there := &plan.Node{Name: "b", Pool: "there", Zone: "z2"}
	last := []v1.SliceStatus{{Index: ptr.To[int32](0), NodePool: "last", Zone: "z1"}}
	cases := map[string]struct {
		nodes []*plan.Node
		last  []v1.SliceStatus
		want  plan.Node
	}{
		"by the last status":   {[]*plan.Node{gone}, last, plan.Node{Name: "a", Gone: true, Pool: "last", Zone: "z1"}},
		"by its other nodes":   {[]*plan.Node{gone, there}, last, plan.Node{Name: "a", Gone: true, Pool: "there", Zone: "z2"}},
		"of another slice":     {[]*plan.Node{gone}, []v1.SliceStatus{{Index: ptr.To[int32](1), NodePool: "x"}}, *gone},
		"not bound":            {[]*plan.Node{gone, nil}, nil, *gone},
		"a node that is there": {[]*plan.Node{there, gone}, last, *there},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := plan.Slice{}
			for _, n := range tc.nodes {
				s.Pods = append(s.Pods, plan.Pod{Node: n})
			}
			rememberPool(&s, tc.last)
			if diff := cmp.Diff(tc.want, *s.Pods[0].Node); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if gone.Pool != "" {
				t.Error("a shared node was changed")
			}
		})
	}
}

func TestPreempts(t *testing.T) {
	class := func(name string, value int32, change ...func(*schedulingv1.PriorityClass)) schedulingv1.PriorityClass {
		c := schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		for _, f := range change {
			f(&c)
		}
		return c
	}
	global := func(c *schedulingv1.PriorityClass) { c.GlobalDefault = true }
	never := func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = ptr.To(corev1.PreemptNever) }
	few := []schedulingv1.PriorityClass{class("high", 1000), class("polite", 1000, never)}
	for name, tc := range map[string]struct {
		class   string
		classes []schedulingv1.PriorityClass
		want    int32
	}{
		"its class":                     {"high", few, 1000},
		"a class that never preempts":   {"polite", few, math.MinInt32},
		"a class that is gone":          {"none", few, 0},
		"no class":                      {"", few, 0},
		"the default":                   {"", append(few, class("default", 10, global)), 10},
		"the lowest of two defaults":    {"", append(few, class("b", 20, global), class("a", 10, global), class("c", 30, global)), 10},
		"its class, beside the default": {"high", append(few, class("default", 10, global)), 1000},
	} {
		t.Run(name, func(t *testing.T) {
			if got := preempts(tc.class, tc.classes); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
