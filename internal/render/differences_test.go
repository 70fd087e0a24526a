package render_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

// One test for each difference from the peer's JobSet, D1 to D14.

func TestD1WorkersDependOnReadyHead(t *testing.T) {
	js := rendered(t, makeJob())
	equal(t, "dependsOn", []jobsetv1alpha2.DependsOn{{Name: "pathways-head", Status: jobsetv1alpha2.DependencyReady}}, workerOf(js).DependsOn)
	if js.Spec.StartupPolicy != nil {
		t.Errorf("startupPolicy is %v", js.Spec.StartupPolicy)
	}
}

func TestD2WorkersHaveNoJobBudget(t *testing.T) {
	for name, w := range map[string]*wrappers.PathwaysJobWrapper{
		"plain":   makeJob().MaxSliceRestarts(3),
		"elastic": makeJob().ElasticSlices(1).MaxSliceRestarts(0),
		"template": makeJob().Worker(func(w *v1.WorkerSpec) {
			w.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}
		}),
	} {
		spec := workerOf(rendered(t, w)).Template.Spec
		equal(t, name+": backoffLimit", ptr.To[int32](math.MaxInt32), spec.BackoffLimit)
		equal(t, name+": completionMode", ptr.To(batchv1.IndexedCompletion), spec.CompletionMode)
		equal(t, name+": restartPolicy", corev1.RestartPolicyOnFailure, spec.Template.Spec.RestartPolicy)
	}
}

func TestD3HeadTellsDisruptionFromFailure(t *testing.T) {
	onFailure := func(p corev1.RestartPolicy) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Spec.RestartPolicy = p }
	}
	two := []corev1.Container{{Name: "main", Image: "a"}, {Name: "logger", Image: "b"}}
	cases := map[string]struct {
		job  *wrappers.PathwaysJobWrapper
		want bool
	}{
		"one container":                 {makeJob(), true},
		"one container, Never":          {makeJob().Template(onFailure(corev1.RestartPolicyNever)), true},
		"one container, OnFailure":      {makeJob().Template(onFailure(corev1.RestartPolicyOnFailure)), false},
		"two containers":                {makeJob().Containers(two...), false},
		"two containers, Never":         {makeJob().Containers(two...).Template(onFailure(corev1.RestartPolicyNever)), false},
		"headless":                      {makeJob().Headless(), false},
		"headless with pod settings":    {makeJob().Containers().Template(onFailure(corev1.RestartPolicyNever)), false},
		"colocated":                     {makeJob().Colocated(), true},
		"one of another name than main": {makeJob().Containers(corev1.Container{Name: "train", Image: "a"}), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			js := rendered(t, c.job)
			spec := headOf(js).Template.Spec
			equal(t, "backoffLimit", ptr.To[int32](0), spec.BackoffLimit)
			policy, rules := spec.PodFailurePolicy, js.Spec.FailurePolicy.Rules
			if !c.want {
				equal(t, "restartPolicy", corev1.RestartPolicyOnFailure, spec.Template.Spec.RestartPolicy)
				if policy != nil || rules != nil {
					t.Errorf("podFailurePolicy %v, rules %v", policy, rules)
				}
				return
			}
			equal(t, "restartPolicy", corev1.RestartPolicyNever, spec.Template.Spec.RestartPolicy)
			if policy == nil || len(policy.Rules) != 1 || policy.Rules[0].Action != batchv1.PodFailurePolicyActionFailJob {
				t.Errorf("podFailurePolicy is %v", policy)
			}
			if len(rules) != 1 || rules[0].Action != jobsetv1alpha2.RestartJobSetAndIgnoreMaxRestarts {
				t.Errorf("failure rules are %v", rules)
			}
		})
	}
}

func TestD4TolerationOnTPUNodes(t *testing.T) {
	tpu := corev1.Toleration{Key: "google.com/tpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	js := rendered(t, makeJob())
	equal(t, "workers", []corev1.Toleration{tpu}, podOf(workerOf(js)).Spec.Tolerations)
	equal(t, "head on a CPU node", []corev1.Toleration(nil), podOf(headOf(js)).Spec.Tolerations)

	own := corev1.Toleration{Key: "mine", Operator: corev1.TolerationOpExists}
	js = rendered(t, makeJob().Colocated().Worker(func(w *v1.WorkerSpec) {
		w.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{own, tpu}}}
	}))
	equal(t, "workers that tolerate already", []corev1.Toleration{own, tpu}, podOf(workerOf(js)).Spec.Tolerations)
	equal(t, "colocated head", []corev1.Toleration{tpu, own}, podOf(headOf(js)).Spec.Tolerations)
}

func TestD5ElasticFlag(t *testing.T) {
	elastic := func() *wrappers.PathwaysJobWrapper {
		return makeJob().Workers("ct6e-standard-4t", "4x4", 4).ElasticSlices(1)
	}
	proxy := v1.ComponentProxyServer
	instances, slicesMissing := "--num_elastic_instances=4", "--num_elastic_slices=1"
	cases := map[string]struct {
		job     *wrappers.PathwaysJobWrapper
		options render.Options
		want    []string
	}{
		"no version":                       {job: elastic(), want: []string{instances}},
		"latest":                           {job: elastic().Version("latest"), want: []string{instances}},
		"pinned":                           {job: elastic().Version("jax-0.5.3"), want: []string{slicesMissing}},
		"pinned by the manager":            {job: elastic(), options: render.Options{DefaultVersion: "jax-0.5.3"}, want: []string{slicesMissing}},
		"the manager says instances":       {job: elastic().Version("jax-0.5.3"), options: render.Options{ElasticFlag: "instances"}, want: []string{instances}},
		"the manager says slices":          {job: elastic(), options: render.Options{ElasticFlag: "slices"}, want: []string{slicesMissing}},
		"own image, pinned":                {job: elastic().Component(v1.CustomComponent{ComponentType: proxy, Image: "example.com:5000/proxy:dev"}), want: []string{slicesMissing}},
		"own image by digest":              {job: elastic().Component(v1.CustomComponent{ComponentType: proxy, Image: "example.com/proxy@sha256:00"}), want: []string{slicesMissing}},
		"own image without tag":            {job: elastic().Component(v1.CustomComponent{ComponentType: proxy, Image: "example.com:5000/proxy"}), want: []string{instances}},
		"own flag of the new spelling":     {job: elastic().Flags(proxy, "--num_elastic_instances=2"), want: []string{"--num_elastic_instances=2"}},
		"own flag of the old spelling":     {job: elastic().Flags(proxy, "--num_elastic_slices=3"), want: []string{"--num_elastic_slices=3"}},
		"own flag with one dash":           {job: elastic().Flags(proxy, "-num_elastic_slices=3"), want: []string{"-num_elastic_slices=3"}},
		"own flag, its value a word":       {job: elastic().Flags(proxy, "--num_elastic_slices", "3"), want: []string{"--num_elastic_slices"}},
		"own flag of the worker counts no": {job: elastic().Flags(v1.ComponentWorker, "--num_elastic_slices=3"), want: []string{instances}},
		"not elastic":                      {job: makeJob()},
		"elasticSlices 0":                  {job: makeJob().ElasticSlices(0)},
		"more than there are":              {job: elastic().ElasticSlices(9).Version("jax-0.5.3"), want: []string{"--num_elastic_slices=4"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, arg := range headContainer(t, renderedWith(t, c.job, c.options), "pathways-proxy").Args {
				if strings.Contains(arg, "num_elastic") {
					got = append(got, arg)
				}
			}
			equal(t, "elastic flags of the proxy", c.want, got)
		})
	}
}

func TestD6MergeByName(t *testing.T) {
	main := corev1.Container{Name: "main", Image: "a", Env: []corev1.EnvVar{
		{Name: "JAX_PLATFORMS", Value: "proxy,cpu"}, {Name: "JAX_BACKEND_TARGET", Value: "grpc://elsewhere:1"},
	}}
	js := rendered(t, makeJob().Containers(main).Component(v1.CustomComponent{
		ComponentType: v1.ComponentPathwaysServer,
		CustomEnv:     []corev1.EnvVar{{Name: "TPU_SKIP_MDS_QUERY", Value: "false"}, {Name: "NEW", Value: "1"}},
		CustomFlags:   []string{"--instance_count=7", "--new=1", "-node_type=other"},
	}))
	c := headContainer(t, js, "main")
	for name, want := range map[string]string{"JAX_PLATFORMS": "proxy,cpu", "JAX_BACKEND_TARGET": "grpc://elsewhere:1", "XCLOUD_ENVIRONMENT": "GCP"} {
		if got, times := env(c, name); got != want || times != 1 {
			t.Errorf("main container: %s is %q, %d times", name, got, times)
		}
	}
	rm := headContainer(t, js, "pathways-rm")
	for name, want := range map[string]string{"TPU_SKIP_MDS_QUERY": "false", "NEW": "1"} {
		if got, times := env(rm, name); got != want || times != 1 {
			t.Errorf("resource manager: %s is %q, %d times", name, got, times)
		}
	}
	equal(t, "flags of the resource manager", []string{
		"--server_port=29001", "--gcs_scratch_location=gs://example-bucket/scratch", "--instance_type=tpuv6e:4x4",
		"--instance_count=7", "--new=1", "-node_type=other",
	}, rm.Args)
}

func TestD7ColocatedPython(t *testing.T) {
	js := rendered(t, makeJob().Component(v1.CustomComponent{
		ComponentType: v1.ComponentColocatedPythonSidecar, Image: "example.com/sidecar:1",
		CustomFlags: []string{"--verbose"}, CustomEnv: []corev1.EnvVar{{Name: "X", Value: "1"}},
		Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}},
	}))
	sidecar := workerContainer(t, js, "colocated-python-sidecar")
	if got, _ := env(sidecar, "GRPC_SERVER_ADDRESS"); got != "0.0.0.0:50051" {
		t.Errorf("GRPC_SERVER_ADDRESS is %s", got)
	}
	if got, _ := env(sidecar, "X"); got != "1" {
		t.Errorf("customEnv is ignored: %v", sidecar.Env)
	}
	equal(t, "args", []string{"--verbose"}, sidecar.Args)
	equal(t, "CPU", resource.MustParse("2"), sidecar.Resources.Requests["cpu"])
	if args := headContainer(t, js, "pathways-proxy").Args; !slices.Contains(args, "--sidecar_name=external") {
		t.Errorf("the proxy does not know of the sidecar: %q", args)
	}
	if args := headContainer(t, rendered(t, makeJob()), "pathways-proxy").Args; slices.Contains(args, "--sidecar_name=external") {
		t.Errorf("the proxy knows of a sidecar that is not there: %q", args)
	}
}

func TestD8Metadata(t *testing.T) {
	js := rendered(t, makeJob().
		Label("team", "a").Label("both", "job").Annotation("note", "kept").Annotation("both", "job").
		Annotation("kubectl.kubernetes.io/last-applied-configuration", "{}").
		Template(func(t *corev1.PodTemplateSpec) {
			t.Labels = map[string]string{"both": "template", "pod": "only"}
			t.Annotations = map[string]string{"both": "template", "kubectl.kubernetes.io/default-container": "main"}
		}))
	exclusive := "alpha.jobset.sigs.k8s.io/exclusive-topology"
	equal(t, "labels of the JobSet", map[string]string{"team": "a", "both": "job"}, js.Labels)
	equal(t, "annotations of the JobSet", map[string]string{"note": "kept", "both": "job"}, js.Annotations)
	equal(t, "labels of the head Job", map[string]string{"team": "a", "both": "job"}, headOf(js).Template.Labels)
	equal(t, "annotations of the head Job", map[string]string{"note": "kept", "both": "job", exclusive: "kubernetes.io/hostname"}, headOf(js).Template.Annotations)
	equal(t, "labels of the head pod", map[string]string{"team": "a", "both": "template", "pod": "only"}, podOf(headOf(js)).Labels)
	equal(t, "annotations of the head pod", map[string]string{
		"note": "kept", "both": "template", exclusive: "kubernetes.io/hostname",
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
	}, podOf(headOf(js)).Annotations)
	equal(t, "labels of the workers", map[string]string(nil), podOf(workerOf(js)).Labels)
}

func TestD9SingleHostSlicesShareAPool(t *testing.T) {
	exclusive := "alpha.jobset.sigs.k8s.io/exclusive-topology"
	for topology, want := range map[string]string{"2x2": "", "2x4": "cloud.google.com/gke-nodepool"} {
		js := rendered(t, makeJob().Workers("ct6e-standard-4t", topology, 8))
		equal(t, topology, want, podOf(workerOf(js)).Annotations[exclusive])
		equal(t, topology+": head", "kubernetes.io/hostname", podOf(headOf(js)).Annotations[exclusive])
	}
	one := rendered(t, makeJob().Workers("ct6e-standard-4t", "2x2", 8).Colocated())
	if affinity := podOf(workerOf(one)).Spec.Affinity; affinity != nil {
		t.Errorf("single-host workers of a colocated job have affinity %v", affinity)
	}
}

func TestD10Colocation(t *testing.T) {
	own := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: nil}
	js := rendered(t, makeJob().Colocated().
		Template(func(t *corev1.PodTemplateSpec) {
			t.Spec.NodeSelector = map[string]string{"mine": "1", "cloud.google.com/gke-tpu-topology": "wrong"}
			t.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{own}}}
		}).
		Worker(func(w *v1.WorkerSpec) { w.NodeSelector = map[string]string{"cloud.google.com/gke-spot": "true"} }))
	if workerOf(js).DependsOn != nil {
		t.Errorf("the workers wait for the head, which waits for a worker: %v", workerOf(js).DependsOn)
	}
	head, worker := podOf(headOf(js)), podOf(workerOf(js))
	equal(t, "head's node", map[string]string{
		"mine": "1", "cloud.google.com/gke-tpu-topology": "4x4", "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
	}, head.Spec.NodeSelector)
	if terms := head.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution; len(terms) != 2 || terms[1].TopologyKey != "kubernetes.io/hostname" {
		t.Errorf("head's affinity: %v", terms)
	}
	equal(t, "head's tolerations are the worker's", worker.Spec.Tolerations, head.Spec.Tolerations)
	for _, pod := range []*corev1.PodTemplateSpec{head, worker} {
		if got, set := pod.Annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"]; set {
			t.Errorf("exclusive-topology is %s", got)
		}
	}
	terms := append(worker.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		worker.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	if len(terms) != 2 {
		t.Fatalf("worker's affinity: %v", terms)
	}
	for _, term := range terms {
		excludesHead := slices.ContainsFunc(term.LabelSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Operator == "NotIn" && slices.Equal(r.Values, []string{"pathways-head"})
		})
		if !excludesHead {
			t.Errorf("a term counts the head: %v", term)
		}
	}
}

func TestD11Subdomain(t *testing.T) {
	for _, length := range []int{1, 22, 23, 30, 39} {
		name := strings.Repeat("n", length)
		js := rendered(t, wrappers.MakePathwaysJob(name, "ns").UID("u1"))
		label := name + "-pathways-head-0-0." + render.Subdomain(wrappers.MakePathwaysJob(name, "ns").UID("u1").Obj())
		if length <= 22 {
			equal(t, name, (*jobsetv1alpha2.Network)(nil), js.Spec.Network)
			continue
		}
		equal(t, "length of the label", 63, len(label))
		equal(t, "length of the subdomain", 44-length, len(js.Spec.Network.Subdomain))
	}
	name := strings.Repeat("n", 30)
	seen := map[string]bool{}
	for _, w := range []*wrappers.PathwaysJobWrapper{
		wrappers.MakePathwaysJob(name, "ns").UID("u1"), wrappers.MakePathwaysJob(name, "ns").UID("u2"),
		wrappers.MakePathwaysJob(name, "other").UID("u1"), wrappers.MakePathwaysJob(name[1:]+"m", "ns").UID("u1"),
	} {
		seen[render.Subdomain(w.Obj())] = true
	}
	if len(seen) != 4 {
		t.Errorf("different jobs share a subdomain: %v", seen)
	}
}

func TestD12SafeToEvict(t *testing.T) {
	const key = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	equal(t, "default", "false", podOf(headOf(rendered(t, makeJob()))).Annotations[key])
	equal(t, "job's own", "true", podOf(headOf(rendered(t, makeJob().Annotation(key, "true")))).Annotations[key])
	equal(t, "template's own", "true", podOf(headOf(rendered(t, makeJob().Template(func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{key: "true"}
	})))).Annotations[key])
	if value, set := podOf(workerOf(rendered(t, makeJob()))).Annotations[key]; set {
		t.Errorf("workers: %s", value)
	}
}

func TestD13MainContainer(t *testing.T) {
	jax := []corev1.EnvVar{{Name: "JAX_PLATFORMS", Value: "proxy"}}
	target := []corev1.EnvVar{{Name: "JAX_BACKEND_TARGET", Value: "grpc://x:1"}}
	named := func(names ...string) []corev1.Container {
		var list []corev1.Container
		for _, name := range names {
			list = append(list, corev1.Container{Name: name, Image: "i"})
		}
		return list
	}
	cases := map[string]struct {
		job     *wrappers.PathwaysJobWrapper
		want    string
		refused string
	}{
		"by name":                {job: makeJob().Containers(named("a", "main")...), want: "main"},
		"the only one":           {job: makeJob().Containers(named("train")...), want: "train"},
		"none of several":        {job: makeJob().Containers(named("a", "b")...), refused: `spec.controller.mainContainerName is "main": the template's containers are ["a" "b"]: name the one that runs the JAX program, or set JAX_PLATFORMS and JAX_BACKEND_TARGET in it`},
		"one sets JAX_PLATFORMS": {job: makeJob().Containers(named("a")[0], corev1.Container{Name: "b", Image: "i", Env: jax})},
		"one sets the target":    {job: makeJob().Containers(named("a")[0], corev1.Container{Name: "b", Image: "i", Env: target})},
		"headless":               {job: makeJob().Headless()},
		"name unset":             {job: makeJob().Containers(named("a", "main")...).Change(func(j *v1.PathwaysJob) { j.Spec.Controller.MainContainerName = "" }), want: "main"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := render.MainContainer(c.job.Obj())
			equal(t, "main container", c.want, got)
			if c.refused != "" {
				refusedAs(t, err, render.ReasonMainContainerNotFound, c.refused)
				_, err = render.JobSet(c.job.Obj(), render.Options{})
				refusedAs(t, err, render.ReasonMainContainerNotFound, c.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, container := range podOf(headOf(rendered(t, c.job))).Spec.Containers {
				if _, times := env(container, "PATHWAYS_HEAD"); times > 0 != (container.Name == c.want) && !render.Headless(c.job.Obj()) {
					t.Errorf("container %s is told of the head %d times", container.Name, times)
				}
			}
		})
	}
}

func TestD14TerminationMessages(t *testing.T) {
	fromLogs := corev1.TerminationMessageFallbackToLogsOnError
	js := rendered(t, makeJob().Component(v1.CustomComponent{ComponentType: v1.ComponentColocatedPythonSidecar, Image: "i"}))
	for _, c := range []corev1.Container{
		headContainer(t, js, "pathways-rm"), headContainer(t, js, "pathways-proxy"), headContainer(t, js, "main"),
		workerContainer(t, js, "pathways-worker"), workerContainer(t, js, "colocated-python-sidecar"),
	} {
		equal(t, c.Name, fromLogs, c.TerminationMessagePolicy)
	}
	own := corev1.Container{Name: "main", Image: "a", TerminationMessagePolicy: corev1.TerminationMessageReadFile}
	other := corev1.Container{Name: "other", Image: "a"}
	js = rendered(t, makeJob().Containers(own, other))
	equal(t, "the user's own", corev1.TerminationMessageReadFile, headContainer(t, js, "main").TerminationMessagePolicy)
	equal(t, "not ours", corev1.TerminationMessagePolicy(""), headContainer(t, js, "other").TerminationMessagePolicy)
}
