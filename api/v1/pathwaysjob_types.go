package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PathwaysJob runs one Pathways workload: a head with the Pathways resource
// manager, the IFRT proxy and the user's program, and one or more TPU slices
// of workers.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pwj,categories=all
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Slices",type=string,JSONPath=`.status.sliceSummary`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.restarts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Type",type=string,priority=1,JSONPath=`.spec.workers[0].type`
// +kubebuilder:printcolumn:name="Topology",type=string,priority=1,JSONPath=`.spec.workers[0].topology`
// +kubebuilder:printcolumn:name="Head-Node",type=string,priority=1,JSONPath=`.status.head.nodeName`
// +kubebuilder:printcolumn:name="TerminalState",type=string,priority=1,JSONPath=`.status.terminalState`
// +kubebuilder:printcolumn:name="Completed",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Completed")].status`
// +kubebuilder:printcolumn:name="Failed",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Failed")].status`
// +kubebuilder:printcolumn:name="Suspended",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Suspended")].status`
type PathwaysJob struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what runs.
	// +required
	Spec PathwaysJobSpec `json:"spec,omitzero"`

	// status says what runs, what does not, and why.
	// +optional
	Status PathwaysJobStatus `json:"status,omitzero"`
}

// PathwaysJobList is a list of PathwaysJobs.
//
// +kubebuilder:object:root=true
type PathwaysJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PathwaysJob `json:"items"`
}

// PathwaysJobSpec is what a user asks for.
type PathwaysJobSpec struct {
	// maxRestarts is how often the whole job, head included, may be restarted
	// after failures before it counts as Failed. Restarts for disruptions
	// (lost hosts, preemption, maintenance) are not counted. Default 0.
	// Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// pathwaysDir is an existing Cloud Storage location, such as
	// gs://bucket/dir, in which Pathways keeps its compilation cache and the
	// state of suspended slices. Without it a suspended slice's state cannot
	// be saved, so an interruption of a job that is not elastic restarts the
	// whole job. Use one location for many jobs: a bucket holds at most 50
	// life cycle policies. Immutable.
	// +optional
	PathwaysDir string `json:"pathwaysDir,omitempty"`

	// pathwaysVersion is the image tag of all Pathways components, for
	// example jax-0.5.3; it must match the JAX version of the program.
	// Default: the tag that the operator was started with. Immutable.
	// +optional
	PathwaysVersion string `json:"pathwaysVersion,omitempty"`

	// workers describes the TPU slices: exactly one entry. Immutable but for
	// maxSliceRestarts.
	// +required
	// +listType=map
	// +listMapKey=type
	Workers []WorkerSpec `json:"workers,omitempty"`

	// controller describes the head: the user's program and how it is placed.
	// +required
	Controller ControllerSpec `json:"controller,omitzero"`

	// customComponents changes the image, flags, environment or resources of
	// Pathways components, and adds the colocated Python sidecar. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=componentType
	CustomComponents []CustomComponent `json:"customComponents,omitempty"`

	// hostNetwork puts head and workers on their hosts' network, which
	// Pathways' data plane is fastest on. Set it to false for Workload
	// Identity. Default true. Immutable.
	// +optional
	HostNetwork *bool `json:"hostNetwork,omitempty"`

	// suspend stops the job and frees its nodes while true, and starts it
	// again when false. Unset leaves that to whoever else manages the JobSet,
	// such as Kueue. On a job with a Kueue queue label it is not applied: use
	// spec.active of its Workload.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// ttlSecondsAfterFinished is how many seconds after it has completed or
	// failed the PathwaysJob is deleted, with all it owns. Unset: never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// managedBy names the controller that manages this PathwaysJob. Any value
	// but pathways-job.pathways.domain/controller makes this operator leave
	// the object alone. Immutable.
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// WorkerSpec describes the TPU slices of a job.
type WorkerSpec struct {
	// type is the GKE machine type of the TPU VMs, for example
	// ct5p-hightpu-4t.
	// +required
	Type MachineType `json:"type,omitempty"`

	// topology is the shape of one slice in chips, for example 4x4 (v5e, v6e)
	// or 2x2x4 (v4, v5p, tpu7x).
	// +required
	Topology string `json:"topology,omitempty"`

	// numSlices is the number of slices.
	// +required
	// +kubebuilder:validation:Minimum=1
	NumSlices int32 `json:"numSlices,omitempty"`

	// maxSliceRestarts is how often the workers of one slice of an elastic
	// job may fail and restart between two whole restarts. Beyond that the
	// slice is lost and stays down. Disruptions are not counted. May be
	// changed while the job runs.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	MaxSliceRestarts *int32 `json:"maxSliceRestarts,omitempty"`

	// terminationGracePeriodSeconds is the time in seconds between SIGTERM
	// and SIGKILL in which the workers of a suspended slice save its state.
	// Default: Kubernetes' 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// priorityClassName is the PriorityClass of the worker pods. With a
	// higher one than another job's a failed slice takes that job's slice
	// (hot-swap).
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// nodeSelector restricts the nodes of the workers further. The TPU
	// accelerator and topology labels are always set by the operator. One
	// that asks for cloud.google.com/gke-spot brings the toleration for it.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// template holds what the worker pods need beside Pathways: service
	// account, tolerations, pull secrets, labels, annotations, volumes, more
	// containers. The container pathways-worker is added, or merged into one
	// of that name. Where a field of workers[] says the same thing, that
	// field wins.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// MachineType is a GKE TPU machine type. Its name says the TPU generation
// and the number of chips per VM.
//
// +kubebuilder:validation:Enum=ct4p-hightpu-4t;ct5lp-hightpu-1t;ct5lp-hightpu-4t;ct5lp-hightpu-8t;ct5p-hightpu-4t;ct6e-standard-1t;ct6e-standard-4t;ct6e-standard-8t;tpu7x-standard-1t;tpu7x-standard-4t
type MachineType string

// DeploymentMode says where the head runs.
//
// +kubebuilder:validation:Enum=default;colocate_head_with_workers
type DeploymentMode string

const (
	// DeploymentModeDefault runs the head on a CPU node of its own.
	DeploymentModeDefault DeploymentMode = "default"
	// DeploymentModeColocate runs the head beside worker 0 of slice 0.
	DeploymentModeColocate DeploymentMode = "colocate_head_with_workers"
)

// ControllerSpec describes the head of the job.
type ControllerSpec struct {
	// deploymentMode says where the head runs: on a CPU node of its own
	// (default), or beside the first worker of slice 0
	// (colocate_head_with_workers). Immutable.
	// +optional
	// +kubebuilder:default=default
	DeploymentMode DeploymentMode `json:"deploymentMode,omitempty"`

	// mainContainerName is the container of the template that runs the JAX
	// program; it gets the environment that connects it to the proxy.
	// +optional
	// +kubebuilder:default=main
	MainContainerName string `json:"mainContainerName,omitempty"`

	// enableMetricsCollection makes the Pathways components export metrics.
	// Immutable.
	// +optional
	EnableMetricsCollection *bool `json:"enableMetricsCollection,omitempty"`

	// elasticSlices above 0 makes the job elastic: the program handles the
	// loss of slices itself, and this many may be missing before the job
	// counts as unhealthy. May be changed while the job runs, but never from
	// or to 0. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ElasticSlices *int32 `json:"elasticSlices,omitempty"`

	// template is the pod template of the user's program. Without it, or with
	// an empty list of containers, the job is headless: clients outside the
	// job connect to status.proxyAddress. Immutable.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// ComponentType names a Pathways component.
//
// +kubebuilder:validation:Enum=pathways_server;proxy_server;worker;colocated_python_sidecar
type ComponentType string

const (
	// ComponentPathwaysServer is the resource manager.
	ComponentPathwaysServer ComponentType = "pathways_server"
	// ComponentProxyServer is the IFRT proxy.
	ComponentProxyServer ComponentType = "proxy_server"
	// ComponentWorker is the worker on each TPU VM.
	ComponentWorker ComponentType = "worker"
	// ComponentColocatedPythonSidecar is the colocated Python sidecar beside
	// each worker; it runs only where it is listed.
	ComponentColocatedPythonSidecar ComponentType = "colocated_python_sidecar"
)

// CustomComponent changes one Pathways component.
type CustomComponent struct {
	// componentType is the component that is changed.
	// +required
	ComponentType ComponentType `json:"componentType,omitempty"`

	// image replaces the component's image. Required for
	// colocated_python_sidecar.
	// +optional
	Image string `json:"image,omitempty"`

	// customFlags are added to the component's command line, each like
	// --name=value; one of a name that the operator sets too replaces it.
	// +optional
	// +listType=atomic
	CustomFlags []string `json:"customFlags,omitempty"`

	// customEnv is added to the component's environment; a variable that the
	// operator sets too is replaced.
	// +optional
	// +listType=map
	// +listMapKey=name
	CustomEnv []corev1.EnvVar `json:"customEnv,omitempty"`

	// resources replaces the component's compute resources. Default: 8 CPU
	// and 32 GB for the resource manager, 16 CPU and 100 GB for the proxy,
	// all chips of the VM for the worker.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}
