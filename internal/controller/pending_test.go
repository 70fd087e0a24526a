package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

const v5p = "tpu-v5p-slice"

func cpuNode(name, cpu, memory string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		},
	}
}

// pool makes a v5p node pool with that many usable nodes.
func pool(name, topology string, nodes int) []corev1.Node {
	var list []corev1.Node
	for i := range nodes {
		list = append(list, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + string(rune('a'+i)), Labels: map[string]string{
				labelAccelerator: v5p, labelTopology: topology, labelChips: "4", labelNodePool: name,
			}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
	}
	return list
}

func with(key, value string, nodes []corev1.Node) []corev1.Node {
	for i := range nodes {
		nodes[i].Labels[key] = value
	}
	return nodes
}

func on(node string) corev1.Pod {
	return corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

func unplaced(part string, words string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{jobsetv1alpha2.ReplicatedJobNameKey: part, jobsetv1alpha2.JobIndexKey: "1"}}}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: words}}
	return pod
}

// bigHead asks for 24 CPU and 132 GB, as a head with the default components.
func bigHead() corev1.Pod {
	pod := unplaced(v1.HeadReplicatedJob, "0/1 nodes are available: 1 Insufficient cpu.")
	ask := func(name, cpu, memory string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Name: name, RestartPolicy: policy, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		}}
	}
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{ask("prepare", "4", "1G", nil), ask("pathways-rm", "8", "32G", always), ask("pathways-proxy", "16", "100G", always)}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	return pod
}

func waiting(part, reason, message string, last *corev1.ContainerStateTerminated) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{jobsetv1alpha2.ReplicatedJobNameKey: part, jobsetv1alpha2.JobIndexKey: "1"}}}
	pod.Spec.NodeName = "node-1"
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:                 "main",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		LastTerminationState: corev1.ContainerState{Terminated: last},
	}}
	return pod
}

func TestWaitsFor(t *testing.T) {
	worker := unplaced(v1.WorkerReplicatedJob, "0/9 nodes are available: untolerated taint.")
	worker.Spec.NodeSelector = map[string]string{labelAccelerator: v5p, labelTopology: "4x4x4"}
	reserved, follower := *worker.DeepCopy(), *worker.DeepCopy()
	reserved.Spec.NodeSelector["reservation"] = "mine"
	follower.Spec.NodeSelector[labelNodePool] = "p1"
	follower.Labels[batchv1.JobCompletionIndexAnnotation] = "3"
	urgent := func(policy *corev1.PreemptionPolicy) corev1.Pod {
		pod := worker.DeepCopy()
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = ptr.To[int32](2000), policy
		return *pod
	}
	arm, cordoned := cpuNode("n2", "64", "400G"), cpuNode("n3", "64", "400G")
	arm.Spec.Taints = []corev1.Taint{{Key: corev1.LabelArchStable, Value: "arm64", Effect: corev1.TaintEffectNoSchedule}}
	cordoned.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	picky := bigHead()
	picky.Spec.NodeSelector = map[string]string{"pool": "heads"}
	refused := waiting(v1.HeadReplicatedJob, "", "", nil)
	refused.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodePorts", Message: "Pod was rejected: host port 29001 is in use"}

	for name, tc := range map[string]struct {
		head    *corev1.Pod
		workers []corev1.Pod
		nodes   []corev1.Node
		tpuPods []corev1.Pod
		reason  string
		message string
	}{
		"nothing yet": {},
		"containers are being made": {
			head: ptr.To(waiting(v1.HeadReplicatedJob, "ContainerCreating", "", nil)),
		},
		"all pools in use": {
			workers: []corev1.Pod{worker},
			nodes:   append(append(pool("p1", "4x4x4", 16), pool("p2", "4x4x4", 16)...), append(append(pool("s1", "2x2x4", 4), pool("s2", "2x2x4", 4)...), pool("s3", "2x2x4", 4)...)...),
			tpuPods: []corev1.Pod{on("p1-a"), on("p2-c")},
			reason:  v1.ReasonNoSlicePool,
			message: "no whole pool of tpu-v5p-slice 4x4x4 is free: 2 pools, 2 in use; pools of other shapes: 2x2x4 (3)",
		},
		"a pool that is not whole": {
			workers: []corev1.Pod{worker},
			nodes:   pool("p1", "4x4x4", 15),
			reason:  v1.ReasonNoSlicePool,
			message: "no whole pool of tpu-v5p-slice 4x4x4 is free: 1 pool, 0 in use, 1 not whole",
		},
		"only pools that the job does not select": {
			workers: []corev1.Pod{reserved},
			nodes:   append(pool("p1", "4x4x4", 16), with("reservation", "mine", append(pool("p2", "4x4x4", 16), pool("p3", "2x2x2", 2)...))...),
			tpuPods: []corev1.Pod{on("p2-a")},
			reason:  v1.ReasonNoSlicePool,
			message: "no whole pool of tpu-v5p-slice 4x4x4 with reservation=mine is free: 1 pool, 1 in use; pools of other shapes: 2x2x2 (1)",
		},
		"a follower is pinned to its leader's pool": {
			workers: []corev1.Pod{follower},
			nodes:   append(pool("p1", "4x4x4", 16), pool("p2", "4x4x4", 16)...),
			tpuPods: []corev1.Pod{on("p1-a")},
			reason:  v1.ReasonUnschedulable,
			message: "no node for slice 1; the scheduler says: 0/9 nodes are available: untolerated taint.",
		},
		"no pool at all": {
			workers: []corev1.Pod{worker},
			reason:  v1.ReasonNoSlicePool,
			message: "no whole pool of tpu-v5p-slice 4x4x4 is free: there is none",
		},
		"a whole pool is free, so only the scheduler knows": {
			workers: []corev1.Pod{worker},
			nodes:   pool("p1", "4x4x4", 16),
			reason:  v1.ReasonUnschedulable,
			message: "no node for slice 1; the scheduler says: 0/9 nodes are available: untolerated taint.",
		},
		"a pool can be taken from a lower priority, so only the scheduler knows": {
			workers: []corev1.Pod{urgent(nil)},
			nodes:   pool("p1", "4x4x4", 16),
			tpuPods: []corev1.Pod{on("p1-a")},
			reason:  v1.ReasonUnschedulable,
			message: "no node for slice 1; the scheduler says: 0/9 nodes are available: untolerated taint.",
		},
		"a pool of lower priority is not taken by one that preempts nobody": {
			workers: []corev1.Pod{urgent(ptr.To(corev1.PreemptNever))},
			nodes:   pool("p1", "4x4x4", 16),
			tpuPods: []corev1.Pod{on("p1-a")},
			reason:  v1.ReasonNoSlicePool,
			message: "no whole pool of tpu-v5p-slice 4x4x4 is free: 1 pool, 1 in use",
		},
		"no CPU node is large enough": {
			head:    ptr.To(bigHead()),
			nodes:   append(pool("p1", "4x4x4", 1), cpuNode("n1", "16", "64G"), cpuNode("n2", "8", "400G")),
			reason:  v1.ReasonNoHeadNode,
			message: "no node for the head: 24 CPU and 132 GB asked, the largest CPU node has 16",
		},
		"no CPU node has the memory": {
			head:    ptr.To(bigHead()),
			nodes:   []corev1.Node{cpuNode("n1", "32", "64G")},
			reason:  v1.ReasonNoHeadNode,
			message: "no node for the head: 24 CPU and 132 GB asked, the largest CPU node has 32 CPU and 64 GB",
		},
		"no CPU node": {
			head:    ptr.To(bigHead()),
			reason:  v1.ReasonNoHeadNode,
			message: "no node for the head: 24 CPU and 132 GB asked, and there is no CPU node",
		},
		"no CPU node with the labels is large enough": {
			head:    &picky,
			nodes:   append(with("pool", "heads", []corev1.Node{cpuNode("n1", "16", "64G")}), cpuNode("n2", "64", "400G")),
			reason:  v1.ReasonNoHeadNode,
			message: "no node for the head: 24 CPU and 132 GB asked, the largest CPU node with pool=heads has 16",
		},
		"only CPU nodes with taints are large enough": {
			head:    ptr.To(bigHead()),
			nodes:   []corev1.Node{cpuNode("n1", "16", "64G"), arm, cordoned},
			reason:  v1.ReasonNoHeadNode,
			message: "no node for the head: 24 CPU and 132 GB asked, and all 2 CPU nodes that have as much have a taint that it does not tolerate: kubernetes.io/arch=arm64:NoSchedule, node.kubernetes.io/unschedulable:NoSchedule",
		},
		"no CPU node with the labels": {
			head:    &picky,
			nodes:   []corev1.Node{cpuNode("n1", "64", "400G")},
			reason:  v1.ReasonNoHeadNode,
			message: "no node for the head: 24 CPU and 132 GB asked, and no CPU node has the labels pool=heads",
		},
		"a port is taken": {
			head:    ptr.To(unplaced(v1.HeadReplicatedJob, "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.")),
			nodes:   []corev1.Node{cpuNode("n1", "64", "400G")},
			reason:  v1.ReasonUnschedulable,
			message: "no node for the head; the scheduler says: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
		},
		"the kubelet rejects": {
			head:    &refused,
			reason:  v1.ReasonPodRejected,
			message: "node node-1 rejected the head: NodePorts: Pod was rejected: host port 29001 is in use",
		},
		"an image cannot be pulled": {
			head:    ptr.To(waiting(v1.HeadReplicatedJob, "ErrImagePull", "manifest unknown", nil)),
			reason:  v1.ReasonContainerNotStarting,
			message: "the head's container main cannot start: ErrImagePull: manifest unknown",
		},
		"a container crashes": {
			workers: []corev1.Pod{waiting(v1.WorkerReplicatedJob, "CrashLoopBackOff", "back-off", &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "unknown flag: --x\n"})},
			reason:  v1.ReasonContainerCrashing,
			message: "slice 1's container main ended with exit code 1: unknown flag: --x; it is started again and again",
		},
		"the head comes first": {
			head:    ptr.To(waiting(v1.HeadReplicatedJob, "ErrImagePull", "manifest unknown", nil)),
			workers: []corev1.Pod{worker},
			reason:  v1.ReasonContainerNotStarting,
			message: "the head's container main cannot start: ErrImagePull: manifest unknown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := waitsFor(&observation{head: tc.head, workers: tc.workers, nodes: tc.nodes, tpuPods: tc.tpuPods})
			if got == nil {
				got = &verdict{}
			}
			if diff := cmp.Diff([]string{tc.reason, tc.message}, []string{got.reason, got.message}); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func TestDisrupted(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ended := func(after time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at.Add(after))},
			}}}
		}
	}
	deleted := func(p *corev1.Pod) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(at.Add(30 * time.Second)))
		p.DeletionGracePeriodSeconds = ptr.To[int64](30)
	}
	target := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", LastTransitionTime: metav1.NewTime(at),
		}}
	}
	for name, tc := range map[string]struct {
		changes []func(*corev1.Pod)
		want    string
	}{
		"runs":                              {},
		"ended by itself":                   {changes: []func(*corev1.Pod){ended(0)}},
		"deleted while it ran":              {changes: []func(*corev1.Pod){deleted}, want: "Deleted"},
		"ended after its deletion":          {changes: []func(*corev1.Pod){deleted, ended(5 * time.Second)}, want: "Deleted"},
		"ended in the second of its delete": {changes: []func(*corev1.Pod){deleted, ended(0)}, want: "Deleted"},
		"deleted after it had ended":        {changes: []func(*corev1.Pod){deleted, ended(-time.Second)}},
		"disrupted":                         {changes: []func(*corev1.Pod){target}, want: "DeletionByTaintManager"},
		"disrupted and deleted":             {changes: []func(*corev1.Pod){target, deleted, ended(time.Second)}, want: "DeletionByTaintManager"},
		"deleted by its Job, since it failed": {changes: []func(*corev1.Pod){deleted, func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "side", RestartCount: 1}}
		}}},
		"disrupted after it had ended": {changes: []func(*corev1.Pod){target, ended(-time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			for _, change := range tc.changes {
				change(pod)
			}
			if got := disrupted(pod, "main"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatFailed(t *testing.T) {
	index := func(n int32) *int32 { return &n }
	died := func(name string, code int32, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}}
	}
	for name, tc := range map[string]struct {
		head        *corev1.Pod
		slices      []v1.SliceStatus
		maxRestarts int32
		charged     int32
		words       string
		reason      string
		message     string
	}{
		"only JobSet knows": {
			reason: v1.ReasonJobSetFailed, message: "jobset failed; maxRestarts is 0",
		},
		"the program, not what was stopped with it": {
			head: &corev1.Pod{Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{died("pathways-proxy", 137, "Error", "")},
				ContainerStatuses:     []corev1.ContainerStatus{died("main", 137, "OOMKilled", "")},
			}},
			maxRestarts: 2, charged: 2,
			reason:  v1.ReasonContainerFailed,
			message: "the head's container main ended with exit code 137 (OOMKilled); 2 of maxRestarts 2 are used",
		},
		"a slice, and the head was stopped with it": {
			head:   &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{died("main", 143, "Error", "")}}},
			slices: []v1.SliceStatus{{Index: index(0)}, {Index: index(1), Reason: v1.ReasonWorkerFailed, Message: "Worker 1 exited with code 1.", Restarts: index(5)}},
			words:  " due to reaching max number of restarts (first failed job: train-worker-1)",
			reason: v1.ReasonSliceFailed, message: "slice 1 failed (WorkerFailed): Worker 1 exited with code 1.; it restarted 5 times, maxSliceRestarts is 1; maxRestarts is 0",
		},
		"the client gave up": {
			head: &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{died("main", 1, "Error", "timed out")}}},
			slices: []v1.SliceStatus{
				{Index: index(0), State: v1.SliceReady},
				{Index: index(1), State: v1.SliceSuspended, Reason: plan.ReasonJobEnded},
				{Index: index(2), State: v1.SliceSuspended, Reason: v1.ReasonPreempted},
			},
			reason:  v1.ReasonContainerFailed,
			message: "the head's container main ended with exit code 1: timed out; the client gave up while slice 2 (Suspended, Preempted) was down; maxRestarts is 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := wrappers.MakePathwaysJob("train", "default").Obj()
			job.Spec.MaxRestarts = &tc.maxRestarts
			job.Status.Slices = tc.slices
			o := &observation{job: job, main: "main", head: tc.head, jobSet: &jobsetv1alpha2.JobSet{}}
			o.jobSet.Status.RestartsCountTowardsMax = tc.charged
			reason, message := whatFailed(o, "jobset failed"+tc.words)
			if diff := cmp.Diff([]string{tc.reason, tc.message}, []string{reason, message}); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}
