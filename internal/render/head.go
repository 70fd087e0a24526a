package render

import (
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

const (
	// envHead is the variable that holds the host name of the head.
	envHead = "PATHWAYS_HEAD"
	// Variables by which JAX finds the proxy.
	envPlatforms     = "JAX_PLATFORMS"
	envBackendTarget = "JAX_BACKEND_TARGET"

	labelHostname = "kubernetes.io/hostname"
	// annotationSafeToEvict keeps the cluster autoscaler from moving a pod.
	annotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	pathCoordinator = "metadata.labels['" + jobsetv1alpha2.CoordinatorKey + "']"
)

// MainContainer returns the container of the head's template that runs the
// program: the one of mainContainerName, or else the only one. It returns an
// empty name for a headless job, and where none of several containers has that
// name but one sets JAX's variables itself. Otherwise the job is refused.
func MainContainer(job *v1.PathwaysJob) (string, error) {
	if Headless(job) {
		return "", nil
	}
	containers := job.Spec.Controller.Template.Spec.Containers
	name := job.Spec.Controller.MainContainerName
	setDefault(&name, "main")
	switch {
	case slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Name == name }):
		return name, nil
	case len(containers) == 1:
		return containers[0].Name, nil
	case slices.ContainsFunc(containers, knowsProxy):
		return "", nil
	}
	names := make([]string, len(containers))
	for i, c := range containers {
		names[i] = c.Name
	}
	return "", refuse(ReasonMainContainerNotFound,
		"spec.controller.mainContainerName is %q: the template's containers are %q: name the one that runs the JAX program, or set %s and %s in it",
		name, names, envPlatforms, envBackendTarget)
}

// knowsProxy tells whether a container sets for itself how JAX finds the
// proxy.
func knowsProxy(c corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Name == envPlatforms || e.Name == envBackendTarget
	})
}

// head returns the replicated job of the head: one pod.
func (p *plan) head() (jobsetv1alpha2.ReplicatedJob, error) {
	template, err := p.headTemplate()
	if err != nil {
		return jobsetv1alpha2.ReplicatedJob{}, err
	}
	return jobsetv1alpha2.ReplicatedJob{
		Name:     v1.HeadReplicatedJob,
		Replicas: 1,
		Template: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      merged(p.job.Labels),
				Annotations: merged(inherited(p.job.Annotations), p.headPlacement()),
			},
			Spec: batchv1.JobSpec{
				BackoffLimit:     ptr.To[int32](0),
				CompletionMode:   ptr.To(batchv1.IndexedCompletion),
				Completions:      ptr.To[int32](1),
				Parallelism:      ptr.To[int32](1),
				PodFailurePolicy: p.podFailurePolicy(),
				Template:         template,
			},
		},
	}, nil
}

// headPlacement gives the head a node of its own, if it is not beside a
// worker.
func (p *plan) headPlacement() map[string]string {
	if p.colocated() {
		return nil
	}
	return map[string]string{jobsetv1alpha2.ExclusiveKey: labelHostname}
}

func (p *plan) headTemplate() (corev1.PodTemplateSpec, error) {
	var user corev1.PodTemplateSpec
	if p.job.Spec.Controller.Template != nil {
		user = *p.job.Spec.Controller.Template
	}
	ours := []string{v1.ContainerResourceManager, v1.ContainerProxy}
	if err := checkTemplate("spec.controller.template", user, operators{containers: ours, init: ours}); err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	pod := user.Spec
	pod.RestartPolicy = p.headRestartPolicy()
	p.setNetwork(&pod)
	pathways := []corev1.Container{p.resourceManagerContainer(), p.proxyContainer()}
	if p.headless() {
		pod.Containers = pathways
	} else {
		for i := range pathways {
			pathways[i].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.InitContainers = append(pod.InitContainers, pathways...)
		for i := range pod.Containers {
			if pod.Containers[i].Name == p.main {
				p.connect(&pod.Containers[i])
			}
		}
	}
	if p.colocated() {
		pod.NodeSelector = merged(pod.NodeSelector, p.tpuSelector())
		pod.Tolerations = tolerate(pod.Tolerations, tpuToleration)
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: merged(p.job.Labels, user.Labels),
			Annotations: merged(
				map[string]string{annotationSafeToEvict: "false"},
				inherited(p.job.Annotations), inherited(user.Annotations), p.headPlacement()),
		},
		Spec: pod,
	}, nil
}

// connect tells the program where its proxy is. What the user set stays.
func (p *plan) connect(main *corev1.Container) {
	main.Env = complete(main.Env, []corev1.EnvVar{
		fieldEnv(envHead, pathCoordinator),
		{Name: envPlatforms, Value: "proxy"},
		{Name: "XCLOUD_ENVIRONMENT", Value: "GCP"},
		{Name: envBackendTarget, Value: "grpc://$(" + envHead + "):" + number(p.proxy.port)},
	}, envName)
	if main.TerminationMessagePolicy == "" {
		main.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
}

func (p *plan) resourceManagerContainer() corev1.Container {
	return p.resourceManager.container(corev1.Container{
		Name: v1.ContainerResourceManager,
		Args: p.resourceManagerArgs(),
		Env: []corev1.EnvVar{
			fieldEnv("REPLICATED_JOB_NAME", "metadata.annotations['"+jobsetv1alpha2.ReplicatedJobNameKey+"']"),
			fieldEnv("JOBSET_NAME", "metadata.annotations['"+jobsetv1alpha2.JobSetNameKey+"']"),
			fieldEnv("HOST_ADDRESS", pathCoordinator),
			{Name: "TPU_SKIP_MDS_QUERY", Value: "true"},
		},
		Ports:     ports(p.resourceManager.port, portResourceManagerData),
		Resources: limits("8", "32G"),
	})
}

func (p *plan) proxyContainer() corev1.Container {
	return p.proxy.container(corev1.Container{
		Name:      v1.ContainerProxy,
		Args:      p.proxyArgs(),
		Env:       []corev1.EnvVar{fieldEnv(envHead, pathCoordinator)},
		Ports:     ports(p.proxy.port),
		Resources: limits("16", "100G"),
	})
}

func limits(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

// tpuSelector selects the nodes of the job's slices.
func (p *plan) tpuSelector() map[string]string {
	return map[string]string{
		tpu.LabelAccelerator: p.machine.Accelerator(),
		tpu.LabelTopology:    p.spec.Topology,
	}
}
