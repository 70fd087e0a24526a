package render_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
)

// testdata/compat holds PathwaysJobs with the JobSets that google/pathways-job
// v0.1.4 makes of them, after JobSet's defaulting.
const compat = "testdata/compat/"

func compatCases(t testing.TB) []string {
	t.Helper()
	files := must(filepath.Glob(compat + "*.pathwaysjob.json"))(t)
	if len(files) == 0 {
		t.Fatal("there are no compat cases")
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".pathwaysjob.json")
	}
	return files
}

func readJSON[T any](t testing.TB, path string) *T {
	t.Helper()
	object := new(T)
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	return object
}

func readJob(t testing.TB, name string) *v1.PathwaysJob {
	t.Helper()
	return readJSON[v1.PathwaysJob](t, compat+name+".pathwaysjob.json")
}

// TestCompat: what we render equals what the peer does, but for the
// differences below. Each of them is one function that turns the peer's JobSet
// into ours.
func TestCompat(t *testing.T) {
	for _, name := range compatCases(t) {
		t.Run(name, func(t *testing.T) {
			job := readJob(t, name)
			got := must(render.JobSet(job, render.Options{}))(t)
			if err := admitJobSet(got); err != nil {
				t.Fatal(err)
			}
			want := readJSON[jobsetv1alpha2.JobSet](t, compat+name+".jobset.json")
			for _, differ := range differences {
				differ(job, want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("JobSet of %s (-peer's with our differences +ours):\n%s", name, diff)
			}
		})
	}
}

var differences = []func(*v1.PathwaysJob, *jobsetv1alpha2.JobSet){
	namespace, dependsOn, backoffLimit, headDisruption, tolerations, elasticFlag,
	colocatedPython, metadata, singleHost, colocation, safeToEvict, terminationMessage,
}

func headOf(js *jobsetv1alpha2.JobSet) *jobsetv1alpha2.ReplicatedJob {
	return &js.Spec.ReplicatedJobs[0]
}
func workerOf(js *jobsetv1alpha2.JobSet) *jobsetv1alpha2.ReplicatedJob {
	return &js.Spec.ReplicatedJobs[1]
}

func podOf(r *jobsetv1alpha2.ReplicatedJob) *corev1.PodTemplateSpec { return &r.Template.Spec.Template }

func colocated(job *v1.PathwaysJob) bool {
	return job.Spec.Controller.DeploymentMode == v1.DeploymentModeColocate
}

// namespace: the files leave it out.
func namespace(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) { js.Namespace = job.Namespace }

// dependsOn is D1: not the deprecated start-up policy, which reports a start at
// every restart of a slice.
func dependsOn(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	js.Spec.StartupPolicy = &jobsetv1alpha2.StartupPolicy{StartupPolicyOrder: jobsetv1alpha2.AnyOrder} // JobSet's default
	if !colocated(job) {
		workerOf(js).DependsOn = []jobsetv1alpha2.DependsOn{{Name: "pathways-head", Status: jobsetv1alpha2.DependencyReady}}
	}
}

// backoffLimit is D2: the budget is not the Job's.
func backoffLimit(_ *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	workerOf(js).Template.Spec.BackoffLimit = ptr.To[int32](math.MaxInt32)
}

// headDisruption is D3: a disrupted head restarts the job without being
// charged, where the main container is its only plain one.
func headDisruption(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	if render.Headless(job) || len(job.Spec.Controller.Template.Spec.Containers) > 1 {
		return
	}
	spec := &headOf(js).Template.Spec
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionFailJob,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
	js.Spec.FailurePolicy.Rules = []jobsetv1alpha2.FailurePolicyRule{{
		Name:                 "headDisrupted",
		Action:               jobsetv1alpha2.RestartJobSetAndIgnoreMaxRestarts,
		OnJobFailureReasons:  []string{batchv1.JobReasonPodFailurePolicy},
		TargetReplicatedJobs: []string{"pathways-head"},
	}}
}

// tolerations is D4: whatever goes to TPU nodes tolerates their taint.
func tolerations(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	tpu := corev1.Toleration{Key: "google.com/tpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	pods := []*corev1.PodTemplateSpec{podOf(workerOf(js))}
	if colocated(job) {
		pods = append(pods, podOf(headOf(js)))
	}
	for _, pod := range pods {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tpu)
	}
}

// elasticFlag is D5: the case has a pinned version, for which we give the same
// flag as the peer.
func elasticFlag(*v1.PathwaysJob, *jobsetv1alpha2.JobSet) {}

// colocatedPython is D7: the address has no quotes, and the proxy knows of the
// sidecar.
func colocatedPython(_ *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	sidecars := podOf(workerOf(js)).Spec.InitContainers
	if len(sidecars) == 0 {
		return
	}
	sidecars[0].Env[0].Value = "0.0.0.0:50051"
	proxy := container(podOf(headOf(js)), "pathways-proxy")
	at := slices.IndexFunc(proxy.Args, func(arg string) bool { return strings.HasPrefix(arg, "--gcs_scratch_location=") })
	proxy.Args = slices.Insert(proxy.Args, at+1, "--sidecar_name=external")
}

// metadata is D8: labels reach the head Job and its pod, too.
func metadata(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	for key, value := range job.Labels {
		metav1.SetMetaDataLabel(&headOf(js).Template.ObjectMeta, key, value)
		metav1.SetMetaDataLabel(&podOf(headOf(js)).ObjectMeta, key, value)
	}
}

// singleHost is D9: slices of one VM share a pool.
func singleHost(_ *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	if *workerOf(js).Template.Spec.Completions == 1 {
		podOf(workerOf(js)).Annotations = nil
	}
}

// colocation is D10: the head follows worker 0 of slice 0, and the slices keep
// to themselves by affinities that leave the head out.
func colocation(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	if !colocated(job) {
		return
	}
	podOf(headOf(js)).Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "kubernetes.io/hostname",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				"jobset.sigs.k8s.io/jobset-name":           job.Name,
				"jobset.sigs.k8s.io/replicatedjob-name":    "worker",
				"jobset.sigs.k8s.io/job-index":             "0",
				"batch.kubernetes.io/job-completion-index": "0",
			}},
			MatchLabelKeys: []string{"jobset.sigs.k8s.io/restart-attempt"},
		}},
	}}
	notHead := metav1.LabelSelectorRequirement{
		Key: "jobset.sigs.k8s.io/replicatedjob-name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"pathways-head"},
	}
	anySlice := metav1.LabelSelectorRequirement{Key: "jobset.sigs.k8s.io/job-key", Operator: metav1.LabelSelectorOpExists}
	pod := podOf(workerOf(js))
	pod.Annotations = nil
	pod.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:    "cloud.google.com/gke-nodepool",
			LabelSelector:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notHead}},
			MatchLabelKeys: []string{"jobset.sigs.k8s.io/job-key"},
		}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:       "cloud.google.com/gke-nodepool",
			LabelSelector:     &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{anySlice, notHead}},
			NamespaceSelector: &metav1.LabelSelector{},
			MatchLabelKeys:    []string{"jobset.sigs.k8s.io/priority"},
			MismatchLabelKeys: []string{"jobset.sigs.k8s.io/job-key"},
		}}},
	}
}

// safeToEvict is D12: the cluster autoscaler leaves the head alone.
func safeToEvict(_ *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	metav1.SetMetaDataAnnotation(&podOf(headOf(js)).ObjectMeta, "cluster-autoscaler.kubernetes.io/safe-to-evict", "false")
}

// terminationMessage is D14: a crash tells its reason.
func terminationMessage(job *v1.PathwaysJob, js *jobsetv1alpha2.JobSet) {
	main, _ := render.MainContainer(job)
	for _, name := range []string{"pathways-rm", "pathways-proxy", "pathways-worker", "colocated-python-sidecar", main} {
		for _, pod := range []*corev1.PodTemplateSpec{podOf(headOf(js)), podOf(workerOf(js))} {
			if c := container(pod, name); c != nil {
				c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
		}
	}
}

// container returns a container of the pod by its name, or nil.
func container(pod *corev1.PodTemplateSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
