package elastic

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// cached is a client with this package's indexes.
func cached(objects ...runtime.Object) client.Client {
	b := fake.NewClientBuilder().WithScheme(newScheme()).WithRuntimeObjects(objects...)
	for _, i := range indexes {
		b = b.WithIndex(i.object, i.name, i.values)
	}
	return b.Build()
}

func workerPod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Labels: childLabels(v1.WorkerReplicatedJob, 0)},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: v1.ContainerWorker}}},
	}
}

func TestPodMatters(t *testing.T) {
	mateReady, mateNot := workerPod("mate", "True"), workerPod("mate", "False")
	with := func(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		p = p.DeepCopy()
		change(p)
		return p
	}
	down, up := workerPod("p", "False"), workerPod("p", "True")
	head := with(up, func(p *corev1.Pod) { p.Labels = childLabels(v1.HeadReplicatedJob, 0) })
	cases := map[string]struct {
		mate     *corev1.Pod
		old, new *corev1.Pod
		want     urgency
	}{
		"created":            {mateReady, nil, with(down, func(p *corev1.Pod) { p.Spec.NodeName = "" }), never},
		"found at the start": {mateReady, nil, up, soon},
		"gone":               {mateReady, up, nil, soon},
		"nothing":            {mateReady, up, up, never},
		"an annotation":      {mateReady, up, with(up, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }), never},
		"an IP":              {mateReady, down, with(down, func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }), never},
		"bound":              {mateReady, with(down, func(p *corev1.Pod) { p.Spec.NodeName = "" }), down, later},
		"started":            {mateReady, with(down, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), down, never},
		"the last ready":     {mateReady, down, up, soon},
		"one of many ready":  {mateNot, down, up, later},
		"unready":            {mateReady, up, down, soon},
		"failed":             {mateReady, down, with(down, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), soon},
		"restarted":          {mateReady, up, with(up, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ }), soon},
		"terminating":        {mateReady, up, with(up, func(p *corev1.Pod) { p.DeletionTimestamp = &moment }), soon},
		"disrupted": {mateReady, up, with(up, func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
		}), soon},
		"unschedulable": {mateReady, down, with(down, func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: moment})
		}), soon},
		"the head's container ended": {mateReady, head, with(head, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{}
		}), soon},
		"the head's proxy restarted": {mateReady, head, with(head, func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: v1.ContainerProxy, RestartCount: 1}}
		}), soon},
		"nothing of the head": {mateReady, head, head, never},
		"the head is ready":   {mateReady, with(head, func(p *corev1.Pod) { p.Status.Conditions[0].Status = "False" }), head, soon},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cached(tc.mate)
			w := &watcher{cache: c, pools: newPoolView(c, testingclock.NewFakePassiveClock(moment.Time)), killed: newKilledWorkers()}
			if got := w.podMatters(tc.old, tc.new); got != tc.want {
				t.Errorf("urgency %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNodeMatters(t *testing.T) {
	base := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{tpu.LabelAccelerator: "tpu-v5p-slice"}}, Status: readyIs("True", "")}
	with := func(change func(*corev1.Node)) *corev1.Node {
		n := base.DeepCopy()
		change(n)
		return n
	}
	cases := map[string]struct {
		old, new *corev1.Node
		want     urgency
	}{
		"came":        {nil, base, soon},
		"went":        {base, nil, soon},
		"a heartbeat": {base, with(func(n *corev1.Node) { n.Status.Conditions[1].LastHeartbeatTime = moment; n.ResourceVersion = "2" }), never},
		"an image":    {base, with(func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }), never},
		"not Ready":   {base, with(func(n *corev1.Node) { n.Status = readyIs("Unknown", "") }), soon},
		"tainted":     {base, with(func(n *corev1.Node) { n.Spec = taints("x") }), soon},
		"cordoned":    {base, with(func(n *corev1.Node) { n.Spec.Unschedulable = true }), soon},
		"maintenance": {base, with(func(n *corev1.Node) { n.Labels[labelMaintenanceTime] = "1800000000" }), soon},
		"TPU label":   {base, with(func(n *corev1.Node) { delete(n.Labels, tpu.LabelAccelerator) }), soon},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cached()
			w := &watcher{cache: c, pools: newPoolView(c, testingclock.NewFakePassiveClock(moment.Time)), killed: newKilledWorkers()}
			w.pools.dirty = false
			if got := w.nodeMatters(tc.old, tc.new); got != tc.want {
				t.Errorf("urgency %v, want %v", got, tc.want)
			}
			if w.pools.dirty != (tc.want != never) {
				t.Errorf("the snapshot of pools is out of date: %v", w.pools.dirty)
			}
		})
	}
}

func TestChildMatters(t *testing.T) {
	base := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Labels: childLabels(v1.WorkerReplicatedJob, 0)}}
	with := func(change func(*batchv1.Job)) *batchv1.Job {
		j := base.DeepCopy()
		change(j)
		return j
	}
	cases := map[string]struct {
		old, new *batchv1.Job
		want     urgency
	}{
		"came":         {nil, base, soon},
		"went":         {base, nil, soon},
		"pods counted": {base, with(func(j *batchv1.Job) { j.Status.Active, j.Status.Ready = 4, ptr.To[int32](3) }), never},
		"exit 0":       {base, with(func(j *batchv1.Job) { j.Status.Succeeded = 1 }), soon},
		"deleting":     {base, with(func(j *batchv1.Job) { j.DeletionTimestamp = &moment }), soon},
		"held":         {base, with(func(j *batchv1.Job) { j.Finalizers = []string{v1.FinalizerHold} }), soon},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := childMatters(tc.old, tc.new); got != tc.want {
				t.Errorf("urgency %v, want %v", got, tc.want)
			}
		})
	}
}

func TestJobMatters(t *testing.T) {
	base := &v1.PathwaysJob{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "u", Generation: 1}}
	with := func(change func(*v1.PathwaysJob)) *v1.PathwaysJob {
		j := base.DeepCopy()
		change(j)
		return j
	}
	condition := func(t string) func(*v1.PathwaysJob) {
		return func(j *v1.PathwaysJob) {
			j.Status.Conditions = []metav1.Condition{{Type: t, Status: metav1.ConditionTrue}}
		}
	}
	cases := map[string]struct {
		old, new *v1.PathwaysJob
		want     urgency
	}{
		"came":       {nil, base, 0},
		"went":       {base, nil, 0},
		"our status": {base, with(func(j *v1.PathwaysJob) { j.Status.SliceSummary = "1/2" }), never},
		"spec":       {base, with(func(j *v1.PathwaysJob) { j.Generation++ }), 0},
		"annotation": {base, with(func(j *v1.PathwaysJob) { j.Annotations = map[string]string{v1.AnnotationReplaceSlice: "1"} }), 0},
		"running":    {base, with(condition(v1.ConditionRunning)), 0},
		"completed":  {base, with(condition(v1.ConditionCompleted)), 0},
		"deleting":   {base, with(func(j *v1.PathwaysJob) { j.DeletionTimestamp = &moment }), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var forgot types.UID
			w := &watcher{forget: func(uid types.UID) { forgot = uid }}
			if got := w.jobMatters(tc.old, tc.new); got != tc.want {
				t.Errorf("urgency %v, want %v", got, tc.want)
			}
			if gone := tc.new == nil; (forgot == "u") != gone {
				t.Errorf("forgot %q", forgot)
			}
		})
	}
}

func TestSnapshot(t *testing.T) {
	node := func(name, pool, topology string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			tpu.LabelAccelerator: "tpu-v5p-slice", tpu.LabelTopology: topology, tpu.LabelAcceleratorCount: "4"}}, Status: readyIs("True", "")}
		if pool != "" {
			n.Labels[tpu.LabelNodePool] = pool
		}
		return n
	}
	pod := workerPod("w", "True")
	pod.Spec.NodeName, pod.Spec.Priority = "a-0", ptr.To[int32](7)
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{tpu.Resource: {}}}}}
	c := cached(pod, node("a-0", "a", "2x2x2"), node("a-1", "a", "2x2x2"), node("s-0", "s", "2x2x1"), node("s-1", "s", "2x2x1"),
		node("loose", "", "2x2x2"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cpu"}})
	s, err := buildSnapshot(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int32{}
	for _, p := range s.poolsFor(placement{accelerator: "tpu-v5p-slice", topology: "2x2x2", vms: 2}) {
		fits := int32(0)
		if p.Fits {
			fits = 1
		}
		got[p.Name+"/"+p.Nodes[0].Name] = []int32{p.Want, int32(len(p.Nodes)), fits, p.Nodes[0].TPUPods, p.Nodes[0].TopPriority}
	}
	want := map[string][]int32{
		"a/a-0": {2, 2, 1, 1, 7}, "s/s-0": {1, 1, 0, 0, 0}, "s/s-1": {1, 1, 0, 0, 0}, "loose/loose": {2, 1, 1, 0, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pools: want, nodes, fits, TPU pods, priority (-want +got):\n%s", diff)
	}
}
