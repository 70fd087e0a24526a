package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/wrappers"
	"pathways.domain/pathways-job/internal/tpu"
)

// checkJob: whatever the job, the renderer does not panic, does not change it,
// and errors are refusals with a reason. If our API accepts the job, JobSet
// accepts what becomes of it. It tells whether a JobSet was made.
func checkJob(t *testing.T, job *v1.PathwaysJob) (made bool) {
	t.Helper()
	before := job.DeepCopy()
	js, err := render.JobSet(job, render.Options{})
	if diff := cmp.Diff(before, job); diff != "" {
		t.Errorf("the job was changed:\n%s", diff)
	}
	if err != nil {
		var refused *render.RefusedError
		if !errors.As(err, &refused) || refused.Reason == "" || refused.Message == "" {
			t.Errorf("the error is no refusal: %v", err)
		}
		return false
	}
	if must(ourCRD())(t).admitInto(job.DeepCopy()) != nil {
		return false
	}
	if err := admitJobSet(js); err != nil {
		text, _ := json.Marshal(before)
		t.Errorf("JobSet refuses what became of %s: %v", text, err)
	}
	return true
}

// FuzzManifest starts from real manifests.
func FuzzManifest(f *testing.F) {
	for _, name := range compatCases(f) {
		f.Add(must(os.ReadFile(compat + name + ".pathwaysjob.json"))(f))
	}
	for _, name := range sampleNames(f) {
		f.Add(must(json.Marshal(readSample(f, name)))(f))
	}
	for _, odd := range []string{`{}`, `null`, `{"spec":{"workers":[{}]}}`, `{"spec":{"workers":[{},{}],"customComponents":[{}]}}`} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		job := &v1.PathwaysJob{}
		if json.Unmarshal(text, job) != nil {
			return
		}
		checkJob(t, job)
	})
}

// FuzzSpec makes jobs from the choices below.
func FuzzSpec(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkJob(t, randomJob(seed)) })
}

// TestRandomSpecs: of many random jobs, a good part are made.
func TestRandomSpecs(t *testing.T) {
	const jobs = 300
	made := 0
	for seed := range uint64(jobs) {
		if checkJob(t, randomJob(1000+seed)) {
			made++
		}
	}
	if made < jobs/4 {
		t.Errorf("only %d of %d random jobs are made: the choices test little", made, jobs)
	}
}

// dice makes random choices; the same seed makes the same.
type dice struct{ *rand.Rand }

func (d dice) once(in int) bool { return d.IntN(in) == 0 }

func pick[T any](d dice, choices ...T) T { return choices[d.IntN(len(choices))] }

func some[T any](d dice, choices ...T) []T {
	var list []T
	for _, c := range choices {
		if d.once(3) {
			list = append(list, c)
		}
	}
	return list
}

func randomJob(seed uint64) *v1.PathwaysJob {
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	name := pick(d, "a", "job", "a-b", strings.Repeat("n", 22), strings.Repeat("n", 23), strings.Repeat("n", 38), strings.Repeat("n", 39))
	if d.once(20) {
		name = pick(d, "", "0", "A", "a.b", strings.Repeat("n", 40))
	}
	w := wrappers.MakePathwaysJob(name, "ns").UID("7f")
	machine := pick(d, tpu.All()...)
	topology := pick(d, machine.Topologies()...).String()
	if d.once(10) {
		topology = pick(d, "", "4x2", "2x2x2", "16*16", "0x0", "99999x1")
	}
	w.Workers(machine.String(), topology, pick[int32](d, 1, 2, 3, 16, 1000))
	if d.once(20) {
		w.Spec.Workers[0].NumSlices = pick[int32](d, 0, -1, 2147483647)
	}
	w.Spec.PathwaysVersion = pick(d, "", "latest", "jax-0.5.3")
	w.Spec.PathwaysDir = pick(d, "", "gs://b/d")
	w.Spec.HostNetwork = pick(d, nil, ptr.To(true), ptr.To(false))
	w.Spec.Suspend = pick(d, nil, ptr.To(true), ptr.To(false))
	w.Spec.Controller.ElasticSlices = pick(d, nil, ptr.To[int32](0), ptr.To[int32](1), ptr.To[int32](2147483647))
	w.Spec.Controller.EnableMetricsCollection = pick(d, nil, ptr.To(true))
	w.Spec.Controller.DeploymentMode = pick(d, v1.DeploymentModeDefault, v1.DeploymentModeColocate)
	w.Spec.Controller.MainContainerName = pick(d, "main", "c0", "nobody")
	w.Spec.Workers[0].NodeSelector = pick(d, nil, map[string]string{"cloud.google.com/gke-spot": "true"})
	w.Spec.Workers[0].Template = d.template("pathways-worker")
	w.Spec.Controller.Template = d.template("main")
	for _, kind := range some(d, v1.ComponentPathwaysServer, v1.ComponentProxyServer, v1.ComponentWorker, v1.ComponentColocatedPythonSidecar) {
		w.Component(v1.CustomComponent{
			ComponentType: kind,
			Image:         pick(d, "", "example.com/i:1", "example.com/i", "example.com/i@sha256:0"),
			CustomFlags: some(d, "--server_port=29001", "--server_port=3", "-v", "", "=",
				"--num_elastic_slices=2", "--resource_manager_address=x:1"),
			CustomEnv: some(d, corev1.EnvVar{Name: "PATHWAYS_HEAD", Value: "x"}, corev1.EnvVar{Name: "GRPC_SERVER_ADDRESS", Value: "y"}, corev1.EnvVar{Name: "Z"}),
			Resources: pick(d, nil, &corev1.ResourceRequirements{}, &corev1.ResourceRequirements{Limits: corev1.ResourceList{tpu.Resource: resource.MustParse("1")}}),
		})
	}
	if d.once(10) {
		w.Flags(v1.ComponentWorker, some(d, "--server_port", "4", "--server_port=x")...)
	}
	if d.once(2) {
		w.Label("kueue.x-k8s.io/queue-name", "q").Annotation("kubectl.kubernetes.io/x", "y").Annotation("a", "b")
	}
	return w.Obj()
}

// template is a pod template in which one container may have that name.
func (d dice) template(name string) *corev1.PodTemplateSpec {
	if d.once(3) {
		return nil
	}
	t := &corev1.PodTemplateSpec{}
	t.Labels = pick(d, nil, map[string]string{"l": "1"})
	t.Annotations = pick(d, nil, map[string]string{"a": "1"})
	t.Spec.RestartPolicy = pick(d, "", "", corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	if d.once(20) {
		t.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	t.Spec.DNSPolicy = pick(d, "", corev1.DNSNone, corev1.DNSDefault)
	t.Spec.Volumes = some(d, corev1.Volume{Name: "shared-tmp"}, corev1.Volume{Name: "data"})
	t.Spec.Tolerations = some(d, corev1.Toleration{Operator: corev1.TolerationOpExists}, corev1.Toleration{Key: tpu.Resource, Operator: corev1.TolerationOpExists})
	t.Spec.Affinity = pick(d, nil, &corev1.Affinity{}, &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}})
	for i := range d.IntN(3) {
		t.Spec.InitContainers = append(t.Spec.InitContainers, d.container(fmt.Sprintf("init%d", i)))
	}
	for i := range d.IntN(3) {
		t.Spec.Containers = append(t.Spec.Containers, d.container(fmt.Sprintf("c%d", i)))
	}
	if d.once(2) {
		t.Spec.Containers = append(t.Spec.Containers, d.container(name))
	}
	if d.once(20) {
		t.Spec.InitContainers = append(t.Spec.InitContainers, d.container(pick(d, "main", "pathways-rm", "pathways-worker", "colocated-python-sidecar")))
	}
	return t
}

func (d dice) container(name string) corev1.Container {
	image := "example.com/i:1"
	if d.once(20) {
		image = ""
	}
	return corev1.Container{
		Name:         name,
		Image:        image,
		Args:         some(d, "--server_port=1", "--x", "y", "y"),
		Env:          some(d, corev1.EnvVar{Name: "JAX_PLATFORMS", Value: "cpu"}, corev1.EnvVar{Name: "JAX_BACKEND_TARGET"}, corev1.EnvVar{Name: "PATHWAYS_HEAD"}),
		Ports:        some(d, corev1.ContainerPort{ContainerPort: 8080}, corev1.ContainerPort{ContainerPort: 8080, Protocol: corev1.ProtocolUDP}, corev1.ContainerPort{ContainerPort: 29005, Protocol: corev1.ProtocolTCP}),
		VolumeMounts: some(d, corev1.VolumeMount{Name: "data", MountPath: "/tmp"}, corev1.VolumeMount{Name: "data", MountPath: "/data"}),
	}
}
