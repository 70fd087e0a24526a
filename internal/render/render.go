// Package render makes the JobSet of a PathwaysJob. It is pure: the same job
// and options give the same JobSet, the job is never changed, and nothing is
// read from a cluster.
//
// The JobSet has two replicated jobs: the head, one pod with the resource
// manager, the proxy and the user's program, and the workers, one child Job
// per slice with one pod per TPU VM.
package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// Values of Options.ElasticFlag.
const (
	// ElasticFlagAuto chooses by the proxy's image: instances for latest,
	// slices for a pinned one, which may be too old to know the other.
	ElasticFlagAuto = "auto"
	// ElasticFlagInstances gives --num_elastic_instances, the number of
	// slices.
	ElasticFlagInstances = "instances"
	// ElasticFlagSlices gives --num_elastic_slices, the number of slices that
	// may be missing.
	ElasticFlagSlices = "slices"
)

// Defaults of Options.
const (
	DefaultServerImage = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server"
	DefaultProxyImage  = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/proxy_server"
	DefaultVersion     = "latest"
)

// Options are the operator's settings that go into every JobSet. The zero
// value stands for the defaults.
type Options struct {
	// ServerImage is the image, without tag, of resource manager and worker.
	ServerImage string
	// ProxyImage is the image, without tag, of the proxy.
	ProxyImage string
	// DefaultVersion is the image tag of jobs without a pathwaysVersion.
	DefaultVersion string
	// ElasticFlag is which flag tells the proxy that a job is elastic: auto,
	// instances or slices.
	ElasticFlag string
}

// JobSet returns the JobSet of the job. Its owner reference is left to the
// caller. An error is a *RefusedError.
func JobSet(job *v1.PathwaysJob, o Options) (*jobsetv1alpha2.JobSet, error) {
	// Whatever is built below may share memory with this copy, never with the
	// caller's object.
	p, err := newPlan(job.DeepCopy(), o)
	if err != nil {
		return nil, err
	}
	head, err := p.head()
	if err != nil {
		return nil, err
	}
	worker, err := p.workers()
	if err != nil {
		return nil, err
	}
	if p.colocated() {
		followWorker(p.job.Name, &head.Template.Spec.Template.Spec, worker.Template.Spec.Template.Spec)
	}
	return &jobsetv1alpha2.JobSet{
		TypeMeta: metav1.TypeMeta{APIVersion: jobsetv1alpha2.GroupVersion.String(), Kind: "JobSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        p.job.Name,
			Namespace:   p.job.Namespace,
			Labels:      merged(p.job.Labels),
			Annotations: merged(inherited(p.job.Annotations)),
		},
		Spec: jobsetv1alpha2.JobSetSpec{
			ReplicatedJobs: []jobsetv1alpha2.ReplicatedJob{head, worker},
			Network:        p.network(),
			SuccessPolicy:  p.successPolicy(),
			FailurePolicy:  p.failurePolicy(),
			Coordinator:    &jobsetv1alpha2.Coordinator{ReplicatedJob: v1.HeadReplicatedJob},
			Suspend:        p.suspend(),
		},
	}, nil
}

// plan is a job with what is derived from its spec once.
type plan struct {
	job     *v1.PathwaysJob
	options Options
	spec    *v1.WorkerSpec
	machine tpu.MachineType
	// vms is the number of VMs of one slice.
	vms int32
	// main is the container that runs the program; empty if headless, or if
	// the containers look after their environment themselves.
	main string

	resourceManager, proxy, worker component
	// colocatedPython is nil where the sidecar is not asked for.
	colocatedPython *component
}

func newPlan(job *v1.PathwaysJob, o Options) (*plan, error) {
	p := &plan{job: job, options: withDefaults(o)}
	if len(job.Spec.Workers) != 1 {
		return nil, refuse(ReasonInvalidWorkers, "spec.workers has %d entries: it must have exactly one", len(job.Spec.Workers))
	}
	p.spec = &job.Spec.Workers[0]
	if err := p.readSlices(); err != nil {
		return nil, err
	}
	if err := checkName(job.Name); err != nil {
		return nil, err
	}
	main, err := MainContainer(job)
	if err != nil {
		return nil, err
	}
	p.main = main
	return p, p.readComponents()
}

func withDefaults(o Options) Options {
	setDefault(&o.ServerImage, DefaultServerImage)
	setDefault(&o.ProxyImage, DefaultProxyImage)
	setDefault(&o.DefaultVersion, DefaultVersion)
	setDefault(&o.ElasticFlag, ElasticFlagAuto)
	return o
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func (p *plan) readSlices() error {
	machine, err := tpu.ParseMachineType(string(p.spec.Type))
	if err != nil {
		return refuse(ReasonInvalidWorkers, "spec.workers[0].type: %s", err)
	}
	topology, err := tpu.ParseTopology(p.spec.Topology)
	if err != nil {
		return refuse(ReasonInvalidTopology, "spec.workers[0].topology: %s", err)
	}
	vms, err := machine.VMsPerSlice(topology)
	if err != nil {
		return refuse(ReasonInvalidTopology, "spec.workers[0].topology: %s", err)
	}
	if p.spec.NumSlices < 1 || p.spec.NumSlices > v1.MaxSlices {
		return refuse(ReasonInvalidWorkers, "spec.workers[0].numSlices is %d: it must be 1 to %d", p.spec.NumSlices, v1.MaxSlices)
	}
	p.machine, p.vms = machine, int32(vms)
	return nil
}

// Headless tells whether the job runs no program of its own: clients outside
// connect to its proxy.
func Headless(job *v1.PathwaysJob) bool {
	template := job.Spec.Controller.Template
	return template == nil || len(template.Spec.Containers) == 0
}

func (p *plan) headless() bool { return Headless(p.job) }

func (p *plan) colocated() bool {
	return p.job.Spec.Controller.DeploymentMode == v1.DeploymentModeColocate
}

func (p *plan) hostNetwork() bool { return ptr.Deref(p.job.Spec.HostNetwork, true) }

// setNetwork puts a pod on its host's network, or not.
func (p *plan) setNetwork(pod *corev1.PodSpec) {
	pod.HostNetwork = p.hostNetwork()
	// Without this policy a pod on the host's network does not find the head
	// by name. None means that the user gives a whole resolver configuration.
	if pod.HostNetwork && pod.DNSPolicy != corev1.DNSNone {
		pod.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
}

// suspend is the user's word, except where Kueue owns the JobSet's suspend.
func (p *plan) suspend() *bool {
	if p.job.Labels[labelQueueName] != "" {
		return nil
	}
	return p.job.Spec.Suspend
}
