package render

import (
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// volumeShared is the volume that worker and colocated Python share.
const volumeShared = "shared-tmp"

// workers returns the replicated job of the workers: one child Job per slice,
// one pod per VM.
func (p *plan) workers() (jobsetv1alpha2.ReplicatedJob, error) {
	template, err := p.workerTemplate()
	if err != nil {
		return jobsetv1alpha2.ReplicatedJob{}, err
	}
	rjob := jobsetv1alpha2.ReplicatedJob{
		Name:     v1.WorkerReplicatedJob,
		Replicas: p.spec.NumSlices,
		Template: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{
				// The budget of restarts is the elastic sub-controller's: a
				// Job's back-off limit mixes disruptions with failures.
				BackoffLimit:   ptr.To[int32](math.MaxInt32),
				CompletionMode: ptr.To(batchv1.IndexedCompletion),
				Completions:    ptr.To(p.vms),
				Parallelism:    ptr.To(p.vms),
				Template:       template,
			},
		},
	}
	// A colocated head needs the first worker's place, and cannot come first.
	if !p.colocated() {
		rjob.DependsOn = []jobsetv1alpha2.DependsOn{
			{Name: v1.HeadReplicatedJob, Status: jobsetv1alpha2.DependencyReady},
		}
	}
	return rjob, nil
}

func (p *plan) workerTemplate() (corev1.PodTemplateSpec, error) {
	var user corev1.PodTemplateSpec
	if p.spec.Template != nil {
		user = *p.spec.Template
	}
	ours := operators{init: []string{v1.ContainerWorker}, merged: v1.ContainerWorker}
	if p.colocatedPython != nil {
		ours.containers = []string{v1.ContainerColocatedPython}
		ours.init = append(ours.init, v1.ContainerColocatedPython)
	}
	if err := checkTemplate("spec.workers[0].template", user, ours); err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	if err := checkPlacement("spec.workers[0]", p.spec.NodeSelector, p.spec.PriorityClassName); err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	pod := user.Spec
	// In place: the kubelet restarts a failed worker, the pod stays.
	pod.RestartPolicy = corev1.RestartPolicyOnFailure
	p.setNetwork(&pod)
	pod.NodeSelector = merged(pod.NodeSelector, p.spec.NodeSelector, p.tpuSelector())
	pod.Tolerations = tolerate(pod.Tolerations, tpuToleration)
	if pod.NodeSelector[tpu.LabelSpot] == "true" {
		pod.Tolerations = tolerate(pod.Tolerations, spotToleration)
	}
	if p.spec.PriorityClassName != "" {
		pod.PriorityClassName = p.spec.PriorityClassName
	}
	if p.spec.TerminationGracePeriodSeconds != nil {
		pod.TerminationGracePeriodSeconds = p.spec.TerminationGracePeriodSeconds
	}
	pod.Volumes = complete(pod.Volumes, []corev1.Volume{sharedVolume()}, volumeName)
	pod.Containers = p.withWorker(pod.Containers)
	if p.colocatedPython != nil {
		pod.InitContainers = append(pod.InitContainers, p.colocatedPythonContainer())
	}
	annotations := merged(inherited(user.Annotations))
	if p.vms > 1 {
		if p.colocated() {
			keepTogether(&pod)
		} else {
			annotations = merged(annotations, map[string]string{jobsetv1alpha2.ExclusiveKey: tpu.LabelNodePool})
		}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: merged(user.Labels), Annotations: annotations},
		Spec:       pod,
	}, nil
}

// withWorker puts the worker's container first, or merges it into the user's
// of that name.
func (p *plan) withWorker(containers []corev1.Container) []corev1.Container {
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == v1.ContainerWorker })
	if at < 0 {
		return append([]corev1.Container{p.workerContainer(corev1.Container{})}, containers...)
	}
	containers[at] = p.workerContainer(containers[at])
	return containers
}

// workerContainer returns the worker's container: what the template has of it,
// completed by ours, changed by what the custom component says.
func (p *plan) workerContainer(user corev1.Container) corev1.Container {
	c := user
	c.Name = v1.ContainerWorker
	c.Args = argsWith(p.workerArgs(), user.Args)
	c.Env = override(workerEnv(), user.Env, envName)
	c.Ports = complete(user.Ports, ports(p.worker.port, portWorkerData, portTPURuntime, portTPUMetrics), portName)
	c.VolumeMounts = complete(user.VolumeMounts, []corev1.VolumeMount{sharedMount()}, mountPath)
	c = p.worker.container(c)
	if user.Image != "" && p.worker.custom.Image == "" {
		c.Image = user.Image
	}
	if user.ImagePullPolicy != "" {
		c.ImagePullPolicy = user.ImagePullPolicy
	}
	if user.TerminationMessagePolicy != "" {
		c.TerminationMessagePolicy = user.TerminationMessagePolicy
	}
	p.addChips(&c.Resources)
	return c
}

// addChips gives the worker all chips of its VM, which it cannot do without.
func (p *plan) addChips(r *corev1.ResourceRequirements) {
	if _, set := r.Limits[tpu.Resource]; set {
		return
	}
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	r.Limits[tpu.Resource] = *resource.NewQuantity(int64(p.machine.ChipsPerVM()), resource.DecimalSI)
}

func workerEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "TPU_MIN_LOG_LEVEL", Value: "0"},
		{Name: "TF_CPP_MIN_LOG_LEVEL", Value: "0"},
		{Name: "XCLOUD_ENVIRONMENT", Value: "GCP"},
		{Name: "MEGASCALE_GRPC_ENABLE_XOR_TRACER", Value: "false"},
		fieldEnv("MEGASCALE_NUM_SLICES", "metadata.labels['"+jobsetv1alpha2.ReplicatedJobReplicas+"']"),
		fieldEnv("JOBSET_NAME", "metadata.annotations['"+jobsetv1alpha2.JobSetNameKey+"']"),
		fieldEnv("REPLICATED_JOB_NAME", "metadata.annotations['"+jobsetv1alpha2.ReplicatedJobNameKey+"']"),
		fieldEnv("MEGASCALE_SLICE_ID", "metadata.labels['"+jobsetv1alpha2.JobIndexKey+"']"),
		fieldEnv(envHead, pathCoordinator),
		fieldEnv("MEGASCALE_COORDINATOR_ADDRESS", pathCoordinator),
	}
}

func (p *plan) colocatedPythonContainer() corev1.Container {
	return p.colocatedPython.container(corev1.Container{
		Name:          v1.ContainerColocatedPython,
		Env:           []corev1.EnvVar{{Name: "GRPC_SERVER_ADDRESS", Value: "0.0.0.0:" + number(portColocatedPython)}},
		Ports:         ports(portColocatedPython),
		VolumeMounts:  []corev1.VolumeMount{sharedMount()},
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
	})
}

func sharedVolume() corev1.Volume {
	return corev1.Volume{Name: volumeShared, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/tmp", Type: ptr.To(corev1.HostPathDirectoryOrCreate)},
	}}
}

func sharedMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: volumeShared, MountPath: "/tmp"}
}
