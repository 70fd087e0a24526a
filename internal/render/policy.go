package render

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

// headDisruptedRule names the failure rule that restarts a job whose head was
// disrupted, without counting it.
const headDisruptedRule = "headDisrupted"

// countsDisruptions tells whether the head Job can tell a disruption from a
// failure. That takes a pod failure policy, which takes restart policy Never;
// and with Never a pod of several containers stays Running while any of them
// runs, so that a dead program would not fail the Job.
func (p *plan) countsDisruptions() bool {
	template := p.job.Spec.Controller.Template
	return !p.headless() && len(template.Spec.Containers) == 1 &&
		template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure
}

// podFailurePolicy fails the head Job with a reason of its own when its pod
// was disrupted.
func (p *plan) podFailurePolicy() *batchv1.PodFailurePolicy {
	if !p.countsDisruptions() {
		return nil
	}
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}}}
}

func (p *plan) headRestartPolicy() corev1.RestartPolicy {
	if p.countsDisruptions() {
		return corev1.RestartPolicyNever
	}
	return corev1.RestartPolicyOnFailure
}

func (p *plan) failurePolicy() *jobsetv1alpha2.FailurePolicy {
	policy := &jobsetv1alpha2.FailurePolicy{MaxRestarts: ptr.Deref(p.job.Spec.MaxRestarts, 0)}
	if p.countsDisruptions() {
		policy.Rules = []jobsetv1alpha2.FailurePolicyRule{{
			Name:                 headDisruptedRule,
			Action:               jobsetv1alpha2.RestartJobSetAndIgnoreMaxRestarts,
			OnJobFailureReasons:  []string{batchv1.JobReasonPodFailurePolicy},
			TargetReplicatedJobs: []string{v1.HeadReplicatedJob},
		}}
	}
	return policy
}

// successPolicy: the job is done when the program is. A headless job has none.
func (p *plan) successPolicy() *jobsetv1alpha2.SuccessPolicy {
	policy := &jobsetv1alpha2.SuccessPolicy{Operator: jobsetv1alpha2.OperatorAll}
	if !p.headless() {
		policy.TargetReplicatedJobs = []string{v1.HeadReplicatedJob}
	}
	return policy
}
