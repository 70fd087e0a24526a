package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// Labels that JobSet and the Job controller put on the pods.
const (
	labelRestartAttempt = "jobset.sigs.k8s.io/restart-attempt"
	labelPriority       = "jobset.sigs.k8s.io/priority"
	labelPodIndex       = "batch.kubernetes.io/job-completion-index"
)

var (
	tpuToleration = corev1.Toleration{
		Key: tpu.Resource, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
	}
	spotToleration = corev1.Toleration{
		Key: tpu.LabelSpot, Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule,
	}
)

// tolerate adds tolerations that are not there yet.
func tolerate(have []corev1.Toleration, more ...corev1.Toleration) []corev1.Toleration {
	for _, t := range more {
		if !slices.ContainsFunc(have, func(h corev1.Toleration) bool { return h.MatchToleration(&t) }) {
			have = append(have, t)
		}
	}
	return have
}

// keepTogether gives each slice a node pool of its own without JobSet's
// exclusive placement, which would keep the head out of the workers' pools:
// workers go where their slice-mates are, and where no other slice of the same
// priority is. The head counts as neither.
func keepTogether(pod *corev1.PodSpec) {
	notHead := metav1.LabelSelectorRequirement{
		Key: jobsetv1alpha2.ReplicatedJobNameKey, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1.HeadReplicatedJob},
	}
	anySlice := metav1.LabelSelectorRequirement{Key: jobsetv1alpha2.JobKey, Operator: metav1.LabelSelectorOpExists}
	addAffinity(pod, corev1.PodAffinityTerm{
		TopologyKey: tpu.LabelNodePool,
		// A key must not be in both selector and matchLabelKeys, or pods are refused.
		LabelSelector:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notHead}},
		MatchLabelKeys: []string{jobsetv1alpha2.JobKey},
	})
	anti := &pod.Affinity.PodAntiAffinity
	if *anti == nil {
		*anti = &corev1.PodAntiAffinity{}
	}
	required := &(*anti).RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, corev1.PodAffinityTerm{
		TopologyKey:       tpu.LabelNodePool,
		LabelSelector:     &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{anySlice, notHead}},
		NamespaceSelector: &metav1.LabelSelector{},
		// A slice of lower priority is no hindrance: it is preempted.
		MatchLabelKeys:    []string{labelPriority},
		MismatchLabelKeys: []string{jobsetv1alpha2.JobKey},
	})
}

// followWorker puts a colocated head on the node of worker 0 of slice 0, and
// lets it tolerate what that worker does.
func followWorker(jobSet string, head *corev1.PodSpec, worker corev1.PodSpec) {
	head.Tolerations = tolerate(head.Tolerations, worker.Tolerations...)
	addAffinity(head, corev1.PodAffinityTerm{
		TopologyKey: labelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			jobsetv1alpha2.JobSetNameKey:        jobSet,
			jobsetv1alpha2.ReplicatedJobNameKey: v1.WorkerReplicatedJob,
			jobsetv1alpha2.JobIndexKey:          "0",
			labelPodIndex:                       "0",
		}},
		// A restarted head does not follow the worker that is being stopped.
		MatchLabelKeys: []string{labelRestartAttempt},
	})
}

func addAffinity(pod *corev1.PodSpec, term corev1.PodAffinityTerm) {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.PodAffinity == nil {
		pod.Affinity.PodAffinity = &corev1.PodAffinity{}
	}
	required := &pod.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, term)
}
