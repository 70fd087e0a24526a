package render_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/wrappers"
	"pathways.domain/pathways-job/internal/tpu"
)

func TestRefused(t *testing.T) {
	long := strings.Repeat("n", 40)
	// What Kubernetes says.
	noValue := strings.Join(validation.IsValidLabelValue("c d"), "; ")
	noKey := strings.Join(validation.IsQualifiedName("a/"), "; ")
	noSubdomain := strings.Join(validation.IsDNS1123Subdomain("No Pe"), "; ")
	workerPod := func(change func(*corev1.PodTemplateSpec)) *wrappers.PathwaysJobWrapper {
		return makeJob().Worker(func(w *v1.WorkerSpec) {
			w.Template = &corev1.PodTemplateSpec{}
			change(w.Template)
		})
	}
	cases := map[string]struct {
		job             *wrappers.PathwaysJobWrapper
		reason, message string
	}{
		"no workers": {makeJob().Change(func(j *v1.PathwaysJob) { j.Spec.Workers = nil }), render.ReasonInvalidWorkers,
			"spec.workers has 0 entries: it must have exactly one"},
		"unknown machine type": {makeJob().Workers("ct5p-hightpu-8t", "4x4x4", 1), render.ReasonInvalidWorkers,
			`spec.workers[0].type: machine type "ct5p-hightpu-8t" is not a TPU machine type of GKE: use one of ct4p-hightpu-4t, ct5lp-hightpu-1t, ct5lp-hightpu-4t, ct5lp-hightpu-8t, ct5p-hightpu-4t, ct6e-standard-1t, ct6e-standard-4t, ct6e-standard-8t, tpu7x-standard-1t, tpu7x-standard-4t`},
		"topology": {makeJob().Workers("ct6e-standard-4t", "4x2", 1), render.ReasonInvalidTopology,
			"spec.workers[0].topology: topology 4x2 of ct6e-standard-4t: sides are written in nondecreasing order: 2x4"},
		"no topology": {makeJob().Workers("ct6e-standard-4t", "16*16", 1), render.ReasonInvalidTopology,
			`spec.workers[0].topology: topology "16*16" is not a shape: write 16x16`},
		"too many slices": {makeJob().Workers("ct5p-hightpu-4t", "4x4x4", 2049), render.ReasonInvalidWorkers,
			"spec.workers[0].numSlices is 2049: it must be 1 to 2048"},
		"long name": {wrappers.MakePathwaysJob(long, "default"), render.ReasonInvalidName,
			`metadata.name "` + long + `" has 40 characters: at most 39 fit into the names of its pods`},
		"name of no label": {wrappers.MakePathwaysJob("0job", "default"), render.ReasonInvalidName,
			`metadata.name "0job": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`},
		"restartPolicy Always": {makeJob().Template(func(t *corev1.PodTemplateSpec) { t.Spec.RestartPolicy = corev1.RestartPolicyAlways }), render.ReasonInvalidTemplate,
			"spec.controller.template.spec.restartPolicy is Always: a Job's pods can have Never or OnFailure"},
		"restartPolicy Sometimes": {workerPod(func(t *corev1.PodTemplateSpec) { t.Spec.RestartPolicy = "Sometimes" }), render.ReasonInvalidTemplate,
			"spec.workers[0].template.spec.restartPolicy is Sometimes: a Job's pods can have Never or OnFailure"},
		"node by name": {makeJob().Template(func(t *corev1.PodTemplateSpec) { t.Spec.NodeName = "n7" }), render.ReasonInvalidTemplate,
			"spec.controller.template.spec.nodeName is n7, which leaves the scheduler out: use nodeSelector, with kubernetes.io/hostname: n7"},
		"no image": {makeJob().Containers(corev1.Container{Name: "main"}), render.ReasonInvalidTemplate,
			`spec.controller.template.spec has no image for the container "main"`},
		"worker's name": {workerPod(func(t *corev1.PodTemplateSpec) {
			t.Spec.InitContainers = []corev1.Container{{Name: "pathways-worker", Image: "i"}}
		}), render.ReasonInvalidTemplate,
			`spec.workers[0].template.spec has a container "pathways-worker": the operator adds one of that name, give yours another`},
		"label": {makeJob().Template(func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"a": "c d"} }), render.ReasonInvalidTemplate,
			`spec.controller.template.metadata.labels has a: "c d", which is no label: ` + noValue},
		"label of JobSet": {makeJob().Template(func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"jobset.sigs.k8s.io/job-index": "7"} }), render.ReasonInvalidTemplate,
			`spec.controller.template.metadata.labels has jobset.sigs.k8s.io/job-index, which JobSet and the Job controller set themselves: remove it, or give it another name`},
		"label of the Job controller": {workerPod(func(t *corev1.PodTemplateSpec) {
			t.Labels = map[string]string{"app": "a", "batch.kubernetes.io/job-name": "x", "jobset.sigs.k8s.io/job-index": "7"}
		}), render.ReasonInvalidTemplate,
			`spec.workers[0].template.metadata.labels has batch.kubernetes.io/job-name, which JobSet and the Job controller set themselves: remove it, or give it another name`},
		"older label of the Job controller": {workerPod(func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"job-name": "x"} }), render.ReasonInvalidTemplate,
			`spec.workers[0].template.metadata.labels has job-name, which JobSet and the Job controller set themselves: remove it, or give it another name`},
		"node label": {makeJob().Worker(func(w *v1.WorkerSpec) { w.NodeSelector = map[string]string{"b": "", "a": "c d"} }), render.ReasonInvalidTemplate,
			`spec.workers[0].nodeSelector has a: "c d", which is no label: ` + noValue},
		"key of a node label": {workerPod(func(t *corev1.PodTemplateSpec) { t.Spec.NodeSelector = map[string]string{"a/": "b"} }), render.ReasonInvalidTemplate,
			`spec.workers[0].template.spec.nodeSelector has a/: "b", which is no label: ` + noKey},
		"PriorityClass": {makeJob().Worker(func(w *v1.WorkerSpec) { w.PriorityClassName = "No Pe" }), render.ReasonInvalidTemplate,
			`spec.workers[0].priorityClassName "No Pe": ` + noSubdomain},
		"version": {makeJob().Version("gcr.io/x:y"), render.ReasonInvalidComponent,
			`spec.pathwaysVersion "gcr.io/x:y" is no image tag, like jax-0.5.3; other images are set in customComponents`},
		"name of ours": {makeJob().Template(func(t *corev1.PodTemplateSpec) {
			t.Spec.InitContainers = []corev1.Container{{Name: "pathways-proxy", Image: "i"}}
		}), render.ReasonInvalidTemplate,
			`spec.controller.template.spec has a container "pathways-proxy": the operator adds one of that name, give yours another`},
		"name twice": {makeJob().Template(func(t *corev1.PodTemplateSpec) {
			t.Spec.InitContainers = []corev1.Container{{Name: "main", Image: "i"}}
		}), render.ReasonInvalidTemplate,
			`spec.controller.template.spec has two containers "main": give each its own name`},
		"sidecar's name": {makeJob().Component(v1.CustomComponent{ComponentType: v1.ComponentColocatedPythonSidecar, Image: "i"}).Worker(func(w *v1.WorkerSpec) {
			w.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "colocated-python-sidecar", Image: "i"}}}}
		}), render.ReasonInvalidTemplate,
			`spec.workers[0].template.spec has a container "colocated-python-sidecar": the operator adds one of that name, give yours another`},
		"sidecar without image": {makeJob().Flags(v1.ComponentColocatedPythonSidecar, "--x"), render.ReasonInvalidComponent,
			"spec.customComponents[colocated_python_sidecar].image is empty: it is required, there is no default image"},
		"no port": {makeJob().Flags(v1.ComponentProxyServer, "--server_port=http"), render.ReasonInvalidComponent,
			`spec.customComponents[proxy_server].customFlags: "--server_port=http" is no port: write --server_port=N with N from 1 to 65535`},
		"the same port": {makeJob().Flags(v1.ComponentProxyServer, "--server_port=29001"), render.ReasonInvalidComponent,
			"spec.customComponents: pathways_server and proxy_server share the head's network and have the same --server_port=29001: give one of them another"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			js, err := render.JobSet(c.job.Obj(), render.Options{})
			refusedAs(t, err, c.reason, c.message)
			if js != nil {
				t.Error("there is a JobSet beside the error")
			}
		})
	}
}

func TestServerPortsMove(t *testing.T) {
	w := makeJob().
		Flags(v1.ComponentPathwaysServer, "--server_port=30001").
		Flags(v1.ComponentProxyServer, "--server_port=1", "--server_port", "30000").
		Flags(v1.ComponentWorker, "--server_port=30005")
	js := rendered(t, w)
	ports := func(c corev1.Container) []int32 {
		var list []int32
		for _, p := range c.Ports {
			list = append(list, p.ContainerPort)
		}
		return list
	}
	rm, proxy := headContainer(t, js, "pathways-rm"), headContainer(t, js, "pathways-proxy")
	worker := workerContainer(t, js, "pathways-worker")
	equal(t, "ports of the resource manager", []int32{30001, 29002}, ports(rm))
	equal(t, "ports of the proxy", []int32{30000}, ports(proxy))
	equal(t, "ports of the worker", []int32{30005, 29006, 8471, 8080}, ports(worker))
	address := "--resource_manager_address=$(PATHWAYS_HEAD):30001"
	equal(t, "flags of the proxy", []string{address, "--gcs_scratch_location=gs://example-bucket/scratch", "--server_port=1", "--server_port", "30000"}, proxy.Args)
	equal(t, "flags of the worker", []string{address, "--gcs_scratch_location=gs://example-bucket/scratch", "--server_port=30005"}, worker.Args)
	target, _ := env(headContainer(t, js, "main"), "JAX_BACKEND_TARGET")
	equal(t, "target of the program", "grpc://$(PATHWAYS_HEAD):30000", target)
	equal(t, "address for clients", "grpc://job-pathways-head-0-0.job.default.svc:30000", render.ProxyAddress(w.Obj(), render.Options{}))
	equal(t, "address by default", "grpc://job-pathways-head-0-0.job.default.svc:29000", render.ProxyAddress(makeJob().Obj(), render.Options{}))
}

func TestImages(t *testing.T) {
	images := func(js *jobsetv1alpha2.JobSet) [3]string {
		return [3]string{headContainer(t, js, "pathways-rm").Image, headContainer(t, js, "pathways-proxy").Image, workerContainer(t, js, "pathways-worker").Image}
	}
	o := render.Options{ServerImage: "example.com/server", ProxyImage: "example.com/proxy", DefaultVersion: "jax-1"}
	equal(t, "the manager's", [3]string{"example.com/server:jax-1", "example.com/proxy:jax-1", "example.com/server:jax-1"}, images(renderedWith(t, makeJob(), o)))
	equal(t, "the job's version", [3]string{"example.com/server:v", "example.com/proxy:v", "example.com/server:v"}, images(renderedWith(t, makeJob().Version("v"), o)))
	own := makeJob().Component(v1.CustomComponent{ComponentType: v1.ComponentWorker, Image: "w:1"})
	equal(t, "the component's", [3]string{"example.com/server:jax-1", "example.com/proxy:jax-1", "w:1"}, images(renderedWith(t, own, o)))
}

func TestWorkerTemplate(t *testing.T) {
	js := rendered(t, makeJob().
		Component(v1.CustomComponent{ComponentType: v1.ComponentWorker, CustomFlags: []string{"--b=component"}, CustomEnv: []corev1.EnvVar{{Name: "B", Value: "component"}}}).
		Worker(func(w *v1.WorkerSpec) {
			w.PriorityClassName = "high"
			w.TerminationGracePeriodSeconds = ptr.To[int64](300)
			w.NodeSelector = map[string]string{"a": "workers", "cloud.google.com/gke-tpu-topology": "1x1", "cloud.google.com/gke-spot": "true"}
			w.Template = &corev1.PodTemplateSpec{}
			w.Template.Labels = map[string]string{"l": "1"}
			w.Template.Annotations = map[string]string{"n": "1"}
			w.Template.Spec = corev1.PodSpec{
				ServiceAccountName: "sa", PriorityClassName: "low", TerminationGracePeriodSeconds: ptr.To[int64](1),
				NodeSelector:     map[string]string{"a": "template", "b": "template"},
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
				Volumes:          []corev1.Volume{{Name: "data"}},
				Containers: []corev1.Container{
					{Name: "logger", Image: "logger:1"},
					{
						Name: "pathways-worker", Args: []string{"--a=template", "--b=template", "--server_port=29005"},
						Env:          []corev1.EnvVar{{Name: "A", Value: "template"}, {Name: "B", Value: "template"}, {Name: "TPU_MIN_LOG_LEVEL", Value: "2"}},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
						Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
						Ports:        []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8080}},
					},
				},
			}
		}))
	pod := podOf(workerOf(js))
	equal(t, "labels", map[string]string{"l": "1"}, pod.Labels)
	equal(t, "annotations", map[string]string{"n": "1", "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}, pod.Annotations)
	equal(t, "service account", "sa", pod.Spec.ServiceAccountName)
	equal(t, "priority", "high", pod.Spec.PriorityClassName)
	equal(t, "grace", ptr.To[int64](300), pod.Spec.TerminationGracePeriodSeconds)
	equal(t, "pull secrets", []corev1.LocalObjectReference{{Name: "pull"}}, pod.Spec.ImagePullSecrets)
	equal(t, "node selector", map[string]string{
		"a": "workers", "b": "template", "cloud.google.com/gke-spot": "true",
		"cloud.google.com/gke-tpu-topology": "4x4", "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
	}, pod.Spec.NodeSelector)
	equal(t, "tolerations", []corev1.Toleration{
		{Key: "google.com/tpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: "cloud.google.com/gke-spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule},
	}, pod.Spec.Tolerations)
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	equal(t, "containers", []string{"logger", "pathways-worker"}, names)

	c := workerContainer(t, js, "pathways-worker")
	equal(t, "image", "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server:latest", c.Image)
	equal(t, "flags", []string{
		"--resource_manager_address=$(PATHWAYS_HEAD):29001", "--gcs_scratch_location=gs://example-bucket/scratch",
		"--a=template", "--server_port=29005", "--b=component",
	}, c.Args)
	for name, want := range map[string]string{"A": "template", "B": "component", "TPU_MIN_LOG_LEVEL": "2", "XCLOUD_ENVIRONMENT": "GCP"} {
		if got, times := env(c, name); got != want || times != 1 {
			t.Errorf("%s is %q, %d times", name, got, times)
		}
	}
	equal(t, "mounts", []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "shared-tmp", MountPath: "/tmp"}}, c.VolumeMounts)
	equal(t, "chips", int64(4), c.Resources.Limits.Name("google.com/tpu", resource.DecimalSI).Value())
	equal(t, "memory", resource.MustParse("1Gi"), c.Resources.Limits["memory"])
	equal(t, "number of ports", 4, len(c.Ports))
}

func TestHeadTemplate(t *testing.T) {
	settings := func(t *corev1.PodTemplateSpec) {
		t.Spec.ServiceAccountName = "sa"
		t.Spec.InitContainers = []corev1.Container{{Name: "fetch", Image: "i"}}
	}
	names := func(list []corev1.Container) (names []string) {
		for _, c := range list {
			names = append(names, c.Name)
		}
		return names
	}
	js := rendered(t, makeJob().Template(settings))
	equal(t, "init containers", []string{"fetch", "pathways-rm", "pathways-proxy"}, names(podOf(headOf(js)).Spec.InitContainers))
	equal(t, "containers", []string{"main"}, names(podOf(headOf(js)).Spec.Containers))
	equal(t, "targets of success", []string{"pathways-head"}, js.Spec.SuccessPolicy.TargetReplicatedJobs)

	js = rendered(t, makeJob().Containers().Template(settings))
	equal(t, "headless: init containers", []string{"fetch"}, names(podOf(headOf(js)).Spec.InitContainers))
	equal(t, "headless: containers", []string{"pathways-rm", "pathways-proxy"}, names(podOf(headOf(js)).Spec.Containers))
	equal(t, "headless: service account", "sa", podOf(headOf(js)).Spec.ServiceAccountName)
	equal(t, "headless: targets of success", []string(nil), js.Spec.SuccessPolicy.TargetReplicatedJobs)
}

func TestHostNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		job    *wrappers.PathwaysJobWrapper
		on     bool
		policy corev1.DNSPolicy
	}{
		"default": {makeJob(), true, corev1.DNSClusterFirstWithHostNet},
		"true":    {makeJob().HostNetwork(true), true, corev1.DNSClusterFirstWithHostNet},
		"false":   {makeJob().HostNetwork(false), false, ""},
	} {
		js := rendered(t, c.job)
		for _, pod := range []*corev1.PodTemplateSpec{podOf(headOf(js)), podOf(workerOf(js))} {
			equal(t, name, c.on, pod.Spec.HostNetwork)
			equal(t, name, c.policy, pod.Spec.DNSPolicy)
		}
	}
}

func TestLifeCycleFields(t *testing.T) {
	suspend := func(w *wrappers.PathwaysJobWrapper) *bool { return rendered(t, w).Spec.Suspend }
	equal(t, "unset", (*bool)(nil), suspend(makeJob()))
	equal(t, "true", ptr.To(true), suspend(makeJob().Suspend(true)))
	equal(t, "false", ptr.To(false), suspend(makeJob().Suspend(false)))
	equal(t, "with a queue", (*bool)(nil), suspend(makeJob().Suspend(true).Label("kueue.x-k8s.io/queue-name", "q")))
	js := rendered(t, makeJob().TTLSecondsAfterFinished(1).ManagedBy("pathways-job.pathways.domain/controller"))
	equal(t, "the JobSet's ttl is the PathwaysJob's", (*int32)(nil), js.Spec.TTLSecondsAfterFinished)
	equal(t, "the JobSet's managedBy is JobSet's", (*string)(nil), js.Spec.ManagedBy)
	equal(t, "maxRestarts", int32(5), rendered(t, makeJob().MaxRestarts(5)).Spec.FailurePolicy.MaxRestarts)
}

func TestNoPathwaysDir(t *testing.T) {
	js := rendered(t, makeJob().Change(func(j *v1.PathwaysJob) { j.Spec.PathwaysDir = "" }))
	for _, c := range []corev1.Container{headContainer(t, js, "pathways-rm"), headContainer(t, js, "pathways-proxy"), workerContainer(t, js, "pathways-worker")} {
		if strings.Contains(strings.Join(c.Args, " "), "gcs_scratch_location") {
			t.Errorf("%s: %q", c.Name, c.Args)
		}
	}
}

// TestConcurrentTypes: a thousand jobs of different types at once each get
// their own type, topology, VMs and chips.
func TestConcurrentTypes(t *testing.T) {
	type shape struct {
		machine  tpu.MachineType
		topology tpu.Topology
	}
	var shapes []shape
	for _, m := range tpu.All() {
		for _, topology := range m.Topologies() {
			shapes = append(shapes, shape{m, topology})
		}
	}
	var group sync.WaitGroup
	for i := range 1000 {
		s := shapes[i*7919%len(shapes)]
		group.Go(func() {
			job := wrappers.MakePathwaysJob(fmt.Sprintf("job-%d", i), "default").Workers(s.machine.String(), s.topology.String(), 2).Obj()
			js, err := render.JobSet(job, render.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			worker := podOf(workerOf(js))
			chips := worker.Spec.Containers[0].Resources.Limits["google.com/tpu"]
			rm := podOf(headOf(js)).Spec.InitContainers[0].Args
			got := fmt.Sprint(worker.Spec.NodeSelector, *workerOf(js).Template.Spec.Completions, chips.Value(), rm[len(rm)-1])
			want := fmt.Sprint(map[string]string{
				"cloud.google.com/gke-tpu-accelerator": s.machine.Accelerator(), "cloud.google.com/gke-tpu-topology": s.topology.String(),
			}, s.topology.Chips()/s.machine.ChipsPerVM(), s.machine.ChipsPerVM(), "--instance_type="+s.machine.InstanceType(s.topology.String()))
			if got != want {
				t.Errorf("job %d of %s %s: got %s, want %s", i, s.machine, s.topology, got, want)
			}
		})
	}
	group.Wait()
}

// TestLongestNames: a name that the head's pod has room for is none too long
// for a worker's.
func TestLongestNames(t *testing.T) {
	longest := strings.Repeat("n", 39)
	for _, m := range tpu.All() {
		topologies := m.Topologies()
		largest := topologies[len(topologies)-1]
		worker := workerOf(rendered(t, wrappers.MakePathwaysJob(longest, "default").Workers(m.String(), largest.String(), v1.MaxSlices)))
		pod := fmt.Sprintf("%s-%s-%d-%d-abcde", longest, worker.Name, worker.Replicas-1, *worker.Template.Spec.Completions-1)
		if len(pod) > validation.DNS1035LabelMaxLength {
			t.Errorf("%s %s: the name of the last pod has %d characters: %s", m, largest, len(pod), pod)
		}
	}
}

// TestInputStays: the job is not changed, nor does the JobSet share memory
// with it, and the result is the same every time.
func TestInputStays(t *testing.T) {
	jobs := map[string]*v1.PathwaysJob{}
	for _, name := range compatCases(t) {
		jobs[name] = readJob(t, name)
	}
	for _, name := range sampleNames(t) {
		jobs["sample "+name] = readSample(t, name)
	}
	for name, job := range jobs {
		before := job.DeepCopy()
		first := must(render.JobSet(job, render.Options{}))(t)
		if diff := cmp.Diff(before, job); diff != "" {
			t.Errorf("%s: the job was changed:\n%s", name, diff)
		}
		for range 20 {
			if diff := cmp.Diff(first, must(render.JobSet(job, render.Options{}))(t)); diff != "" {
				t.Fatalf("%s: another result:\n%s", name, diff)
			}
		}
		scribble(first)
		if diff := cmp.Diff(before, job); diff != "" {
			t.Errorf("%s: the JobSet shares memory with the job:\n%s", name, diff)
		}
	}
}

// scribble overwrites what a JobSet could share with a job.
func scribble(js *jobsetv1alpha2.JobSet) {
	for _, m := range []map[string]string{js.Labels, js.Annotations} {
		for key := range m {
			m[key] = "scribble"
		}
	}
	for i := range js.Spec.ReplicatedJobs {
		pod := podOf(&js.Spec.ReplicatedJobs[i])
		for key := range pod.Spec.NodeSelector {
			pod.Spec.NodeSelector[key] = "scribble"
		}
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for c := range list {
				list[c].Name = "scribble"
				for e := range list[c].Env {
					list[c].Env[e].Value = "scribble"
				}
				for a := range list[c].Args {
					list[c].Args[a] = "scribble"
				}
			}
		}
		for v := range pod.Spec.Volumes {
			pod.Spec.Volumes[v].Name = "scribble"
		}
	}
}
