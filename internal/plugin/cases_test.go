package plugin

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

// elasticJob runs with its three slices, of which one may be missing.
func elasticJob() *wrappers.PathwaysJobWrapper {
	return runs(wrappers.MakePathwaysJob("train", "default").Workers("ct5p-hightpu-4t", "2x2x4", 3).ElasticSlices(1).MaxSliceRestarts(3).MaxRestarts(2))
}

// runs gives a job the status of one that runs for two hours.
func runs(w *wrappers.PathwaysJobWrapper) *wrappers.PathwaysJobWrapper {
	w.Generation = 1
	w.Status = v1.PathwaysJobStatus{
		ObservedGeneration: 1,
		State:              v1.JobRunning,
		Conditions: []metav1.Condition{
			condition(v1.ConditionPending, false, v1.ReasonNotPending, "see condition Running", 2*time.Hour),
			condition(v1.ConditionRunning, true, v1.ReasonRunning, "the head runs and the slices have started", 2*time.Hour),
			condition(v1.ConditionHealthy, true, "Healthy", "The head and all slices are Ready.", 2*time.Hour),
			condition(v1.ConditionSlicesReady, true, "Ready", "3 of 3 slices are Ready.", 2*time.Hour),
		},
		Restarts:     ptr.To[int32](0),
		SliceSummary: "3/3",
		Slices: []v1.SliceStatus{
			slice(0, v1.SliceReady, "", "v5p-a", "", 2*time.Hour),
			slice(1, v1.SliceReady, "", "v5p-b", "", 2*time.Hour),
			slice(2, v1.SliceReady, "", "v5p-c", "", 2*time.Hour),
		},
		Head:         &v1.HeadStatus{PodName: "train-pathways-head-0-0-x7k2p", NodeName: "cpu-1", Zone: "us-central2-b", Ready: ptr.To(true)},
		ProxyAddress: "grpc://train-pathways-head-0-0.train.default.svc:29000",
		JobSet:       &v1.JobSetStatus{UID: "js", ChargedRestarts: ptr.To[int32](0)},
	}
	return w
}

// is makes another one of the exclusive conditions True.
func is(job *v1.PathwaysJob, t, reason, message string, since time.Duration) {
	job.Status.State = v1.JobState(t)
	job.Status.Conditions = []metav1.Condition{
		condition(v1.ConditionRunning, false, v1.ReasonNotRunning, "see condition "+t, since),
		condition(t, true, reason, message, since),
		condition(v1.ConditionHealthy, false, "HeadNotReady", "The head is not Ready.", since),
	}
}

func interruption(since time.Duration, slice *int32, reason, from, to string, down *int64) v1.Interruption {
	return v1.Interruption{Time: ago(since), Slice: slice, Reason: reason, FromPool: from, ToPool: to, DownSeconds: down}
}

func cases() map[string]statusCase {
	pods := []*corev1.Pod{headPod()}
	endedPod := headPod()
	endedPod.Status.Conditions[1].Status, endedPod.Status.Conditions[1].LastTransitionTime = corev1.ConditionFalse, ago(3*time.Hour)
	return map[string]statusCase{
		"running": {job: elasticJob().Obj(), pods: pods},

		// Slice 1 is being moved; slice 2 crashed, which may yet be explained.
		"slice-replacing": {pods: pods, job: elasticJob().Change(func(job *v1.PathwaysJob) {
			s := &job.Status
			s.SliceSummary = "1/3"
			s.Conditions[2] = condition(v1.ConditionHealthy, false, "SlicesDown", "2 slices are down, and 1 may be (elasticSlices). The client waits for them.", 8*time.Second)
			s.Slices[1] = slice(1, v1.SliceReplacing, v1.ReasonHostFailed, "v5p-b",
				"Host v5p-b-3 (worker 3) does not report (noticed at 14:59:52Z). The slice is moved to the next free pool.", 8*time.Second)
			s.Slices[2] = slice(2, v1.SliceRestarting, v1.ReasonWorkerFailed, "v5p-c",
				"Worker 0 exited with code 1: interconnect lost. It is restarted in place. 1 of 3 restarts are used, and 1 more unless its host turns out to have failed.", 3*time.Second)
			s.Slices[2].Restarts = ptr.To[int32](1)
			s.Slices[2].PendingCharges = []v1.PendingCharge{{Time: ago(3 * time.Second), Count: 1}}
			s.History = []v1.Interruption{
				interruption(50*time.Hour, ptr.To[int32](0), v1.ReasonMaintenance, "v5p-d", "v5p-a", ptr.To[int64](4)),
				interruption(26*time.Hour, nil, v1.ReasonHeadDisrupted, "cpu-0", "cpu-1", ptr.To[int64](31)),
				interruption(25*time.Hour, ptr.To[int32](2), v1.ReasonPreempted, "v5p-a", "v5p-c", ptr.To[int64](640)),
				interruption(80*time.Minute, ptr.To[int32](2), v1.ReasonWorkerFailed, "v5p-c", "v5p-c", ptr.To[int64](5)),
				interruption(8*time.Second, ptr.To[int32](1), v1.ReasonHostFailed, "v5p-b", "", nil),
				interruption(3*time.Second, ptr.To[int32](2), v1.ReasonWorkerFailed, "v5p-c", "", nil),
			}
		}).Obj()},

		"slice-lost": {pods: pods, args: []string{"--all-interruptions"}, job: elasticJob().MaxSliceRestarts(1).Change(func(job *v1.PathwaysJob) {
			s := &job.Status
			s.SliceSummary = "2/3"
			s.Conditions[2] = condition(v1.ConditionHealthy, true, "Healthy", "The head is Ready; 1 slice is down, and 1 may be (elasticSlices).", time.Hour)
			s.Slices[0] = slice(0, v1.SliceLost, v1.ReasonWorkerFailed, "v5p-a",
				"Worker 1 exited with code 1: out of memory. It has used up its restart budget (2 of 1) and stays down until the whole job restarts; the replace-slice annotation revives it.", 20*time.Minute)
			s.Slices[0].Restarts = ptr.To[int32](2)
			s.History = []v1.Interruption{
				interruption(24*time.Minute, ptr.To[int32](0), v1.ReasonWorkerFailed, "v5p-a", "v5p-a", ptr.To[int64](2)),
				interruption(20*time.Minute, ptr.To[int32](0), v1.ReasonWorkerFailed, "v5p-a", "", nil),
			}
		}).Obj()},

		"pending": {job: elasticJob().ElasticSlices(0).Change(func(job *v1.PathwaysJob) {
			is(job, v1.ConditionPending, v1.ReasonNoSlicePool, "no whole pool of tpu-v5p-slice 2x2x4 is free: 2 pools, 2 in use", 4*time.Minute)
			job.Status.SliceSummary, job.Status.Head = "0/3", nil
			for i := range job.Status.Slices {
				job.Status.Slices[i] = slice(int32(i), v1.SlicePending, "", []string{"", "v5p-b", ""}[i], "It starts once the head is there.", 4*time.Minute)
			}
		}).Obj()},

		// It says that more slices may be missing than it has.
		"suspended": {job: elasticJob().ElasticSlices(9).Suspend(true).Change(func(job *v1.PathwaysJob) {
			is(job, v1.ConditionSuspended, v1.ReasonSuspendedByUser, "spec.suspend is true; set it to false to let the job run", 90*time.Second)
			job.Status.SliceSummary = "0/3"
			for i := range job.Status.Slices {
				job.Status.Slices[i] = slice(int32(i), v1.SliceSuspended, "JobSuspended", job.Status.Slices[i].NodePool, "The job is suspended.", 90*time.Second)
			}
		}).Obj()},

		// The pod of its head is there for its logs.
		"failed": {pods: []*corev1.Pod{endedPod}, job: elasticJob().Change(func(job *v1.PathwaysJob) {
			is(job, v1.ConditionFailed, v1.ReasonSliceFailed,
				"slice 2 ended the job (WorkerFailed): worker 0 exited with code 1; 2 of 1 restarts of the slice and 2 of 2 of the whole job are used", 3*time.Hour)
			job.Status.Restarts, job.Status.JobSet.ChargedRestarts = ptr.To[int32](3), ptr.To[int32](2)
			job.Status.SliceSummary, job.Status.Head.Ready = "0/3", ptr.To(false)
			for i := range job.Status.Slices {
				job.Status.Slices[i] = slice(int32(i), v1.SliceSuspended, "JobEnded", job.Status.Slices[i].NodePool, "The job has ended.", 3*time.Hour)
			}
			job.Status.History = []v1.Interruption{interruption(3*time.Hour, nil, v1.ReasonWorkerFailed, "cpu-1", "", nil)}
		}).Obj()},

		"headless": {pods: pods, job: runs(wrappers.MakePathwaysJob("train", "default").Headless().Workers("ct5lp-hightpu-4t", "4x4", 1).
			Flags(v1.ComponentProxyServer, "--server_port=29500")).Change(func(job *v1.PathwaysJob) {
			job.Status.ProxyAddress = "grpc://train-pathways-head-0-0.train.default.svc:29500"
			job.Status.SliceSummary, job.Status.Slices = "1/1", job.Status.Slices[:1]
			job.Status.Slices[0].NodePool = "v5e-a"
		}).Obj()},

		"not-seen-yet": {job: wrappers.MakePathwaysJob("train", "default").Obj()},

		"managed-by-another": {job: wrappers.MakePathwaysJob("train", "default").ManagedBy("kueue.x-k8s.io/multikueue").Obj()},

		// All that a reader would else miss.
		"notes": {pods: pods, job: elasticJob().Annotation(v1.AnnotationSliceRepair, v1.SliceRepairDisabled).Change(func(job *v1.PathwaysJob) {
			job.Generation = 2
			job.DeletionTimestamp = ptr.To(ago(time.Second))
			job.Status.Repair = &v1.RepairStatus{
				Paused:  ptr.To(ago(42 * time.Second)),
				Restart: &v1.WholeRestart{Time: ago(time.Second), Reason: v1.ReasonHostFailed, Message: "The head's host cpu-1 is gone. The whole job restarts; this is not charged."},
			}
		}).Obj()},
	}
}
