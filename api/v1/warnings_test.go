package v1_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// quiet is a job that nothing warns of.
const quiet = `{pathwaysVersion: jax-0.5.3, pathwaysDir: gs://bucket/scratch,
controller: {template: {spec: {containers: [{name: main, image: a}]}}},
workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 2}]}`

// policies is what the API server puts before the messages of ours.
var policies = regexp.MustCompile(`Validation failed for ValidatingAdmissionPolicy '(pathways-job\S*-warnings)' with binding '(pathways-job\S*-warnings)': `)

func TestWarnings(t *testing.T) {
	tests := map[string]struct {
		name  string
		patch string // a JSON merge patch of quiet
		want  string
	}{
		"nothing": {"", `{}`, ""},
		"no version": {"", `{"spec":{"pathwaysVersion":null}}`,
			`spec.pathwaysVersion is not set: the job gets the operator's default, and fails if that is made for another JAX version than the program's; set it to the program's, for example jax-0.5.3`},
		"undocumented topology": {"", `{"spec":{"workers":[{"type":"tpu7x-standard-4t","topology":"4x4x256","numSlices":1}]}}`,
			`spec.workers[0].topology 4x4x256 is not among the documented topologies of tpu7x-standard-4t: make sure that GKE makes a node pool of it, or else the job stays Pending`},
		"undocumented on v4 only": {"", `{"spec":{"workers":[{"type":"ct4p-hightpu-4t","topology":"4x4x12","numSlices":1}]}}`,
			`spec.workers[0].topology 4x4x12 is not among the documented topologies of ct4p-hightpu-4t: make sure that GKE makes a node pool of it, or else the job stays Pending`},
		"documented on tpu7x only": {"", `{"spec":{"workers":[{"type":"tpu7x-standard-4t","topology":"16x24x24","numSlices":1}]}}`, ""},
		"local directory": {"", `{"spec":{"pathwaysDir":"/tmp/x"}}`,
			`spec.pathwaysDir "/tmp/x" is no Cloud Storage location: Pathways wants one like gs://bucket/dir`},
		"name in the directory": {"train-7", `{"spec":{"pathwaysDir":"gs://bucket/runs/train-7"}}`,
			`spec.pathwaysDir "gs://bucket/runs/train-7" has the job's name in it: each path gets a life cycle policy and a bucket has at most 50; use one path for many jobs`},
		"name in the bucket": {"train-7", `{"spec":{"pathwaysDir":"gs://train-7/scratch"}}`, ""},
		"name in a word":     {"train", `{"spec":{"pathwaysDir":"gs://bucket/training"}}`, ""},
		"colocated Python, elastic": {"", `{"spec":{"controller":{"elasticSlices":1},"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"terminationGracePeriodSeconds":60}],"customComponents":[{"componentType":"colocated_python_sidecar","image":"a"}]}}`,
			`spec.customComponents has a colocated_python_sidecar, and spec.controller.elasticSlices is above 0: Pathways cannot save the state of colocated Python, so a slice that is interrupted comes back without it`},
		"colocated Python": {"", `{"spec":{"customComponents":[{"componentType":"colocated_python_sidecar","image":"a"}]}}`, ""},
		"XLA flags on workers": {"", `{"spec":{"customComponents":[{"componentType":"worker","customFlags":["--a=b","--xla_c=d"]},{"componentType":"pathways_server","customFlags":["--xla_c=d"]}]}}`,
			`spec.customComponents: worker, pathways_server has --xla_ flags; XLA flags take effect on the proxy_server only, move them there`},
		"XLA flags on the proxy": {"", `{"spec":{"customComponents":[{"componentType":"proxy_server","customFlags":["--xla_c=d"]}]}}`, ""},
		"short grace, elastic": {"", `{"spec":{"controller":{"elasticSlices":1}}}`,
			`spec.workers[0].terminationGracePeriodSeconds is 30: on spot nodes or in an elastic job a slice that is interrupted saves its state in that time; 60 or more is safer`},
		"short grace, spot": {"", `{"spec":{"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"terminationGracePeriodSeconds":59,"nodeSelector":{"cloud.google.com/gke-spot":"true"}}]}}`,
			`spec.workers[0].terminationGracePeriodSeconds is 59: on spot nodes or in an elastic job a slice that is interrupted saves its state in that time; 60 or more is safer`},
		"grace of the template": {"", `{"spec":{"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"template":{"spec":{"containers":[],"terminationGracePeriodSeconds":300,"nodeSelector":{"cloud.google.com/gke-spot":"true"}}}}]}}`, ""},
		"head of no priority": {"", `{"spec":{"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"priorityClassName":"high"}]}}`,
			`spec.workers[0] has the priority class high and the head none: a head that is preempted restarts the whole job; set spec.controller.template.spec.priorityClassName to a class at least as high`},
		"head with a priority": {"", `{"spec":{"controller":{"template":{"spec":{"priorityClassName":"high"}}},"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"priorityClassName":"high"}]}}`, ""},
		"more elastic than there is": {"", `{"spec":{"controller":{"elasticSlices":3},"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"terminationGracePeriodSeconds":60}]}}`,
			`spec.controller.elasticSlices 3 is more than spec.workers[0].numSlices 2, and counts as 2`},
		"restarts of a slice, not elastic": {"", `{"spec":{"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"maxSliceRestarts":3}]}}`,
			`spec.workers[0].maxSliceRestarts 3 is not applied: it is for elastic jobs, which have spec.controller.elasticSlices above 0; in others a slice has 4 restarts, and in headless ones as many as it needs`},
		"no restarts of a slice, elasticSlices 0": {"", `{"spec":{"controller":{"elasticSlices":0},"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"maxSliceRestarts":0}]}}`,
			`spec.workers[0].maxSliceRestarts 0 is not applied: it is for elastic jobs, which have spec.controller.elasticSlices above 0; in others a slice has 4 restarts, and in headless ones as many as it needs`},
		"default restarts of a slice":  {"", `{"spec":{"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"maxSliceRestarts":1}]}}`, ""},
		"restarts of a slice, elastic": {"", `{"spec":{"controller":{"elasticSlices":1},"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"maxSliceRestarts":3,"terminationGracePeriodSeconds":60}]}}`, ""},
		"suspend in a queue": {"", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"suspend":true}}`,
			`spec.suspend is not applied to a job with a Kueue queue: set spec.active of its Workload`},
		"queue": {"", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}}}`, ""},
		"Never with two containers": {"", `{"spec":{"controller":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"a"},{"name":"b","image":"b"}]}}}}}`,
			`spec.controller.template.spec.restartPolicy Never is for a head of one container: this one has 2 and gets OnFailure`},
		"Never without containers": {"", `{"spec":{"controller":{"template":{"spec":{"restartPolicy":"Never","containers":[]}}}}}`,
			`spec.controller.template.spec.restartPolicy Never is for a head of one container: this one has 0 and gets OnFailure`},
		"Never with one container": {"", `{"spec":{"controller":{"template":{"spec":{"restartPolicy":"Never"}}}}}`, ""},
		"Never on workers": {"", `{"spec":{"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":2,"template":{"spec":{"restartPolicy":"Never"}}}]}}`,
			`spec.workers[0].template.spec.restartPolicy Never is not applied: workers restart in place, with OnFailure`},
		"slice-repair in lower case": {"", `{"metadata":{"annotations":{"pathways-job.pathways.domain/slice-repair":"disabled"}}}`,
			`annotation pathways-job.pathways.domain/slice-repair: "disabled" changes nothing: Disabled switches the repair of slices off, and without the annotation it is on`},
		"slice-repair": {"", `{"metadata":{"annotations":{"pathways-job.pathways.domain/slice-repair":"Disabled"}}}`, ""},
		"replace-slice of none": {"", `{"metadata":{"annotations":{"pathways-job.pathways.domain/replace-slice":"2"}}}`,
			`annotation pathways-job.pathways.domain/replace-slice: "2" names no slice: 0 to 1 are possible`},
		"replace-slice in words": {"", `{"metadata":{"annotations":{"pathways-job.pathways.domain/replace-slice":"slice-1"}},"spec":{"workers":[{"type":"ct5p-hightpu-4t","topology":"4x4x4","numSlices":1}]}}`,
			`annotation pathways-job.pathways.domain/replace-slice: "slice-1" names no slice: the job has slice 0 only`},
		"replace-slice": {"", `{"metadata":{"annotations":{"pathways-job.pathways.domain/replace-slice":"1"}}}`, ""},
		"empty restart": {"", `{"metadata":{"annotations":{"pathways-job.pathways.domain/restart":""}}}`,
			`annotation pathways-job.pathways.domain/restart is empty, which changes nothing: any other new value restarts the job`},
		"restart": {"", `{"metadata":{"annotations":{"pathways-job.pathways.domain/restart":"now"}}}`, ""},
		"connected by hand": {"", `{"spec":{"controller":{"template":{"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"JAX_PLATFORMS","value":"proxy"}]},{"name":"b","image":"b"}]}}}}}`,
			`spec.controller.mainContainerName: no container is named "main", so none is connected to Pathways but those that set JAX_PLATFORMS and JAX_BACKEND_TARGET themselves`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			warnings := &recorder{}
			c := newClient(t, warnings)
			if tc.name == "" {
				tc.name = "warned"
			}
			base := manifest(t, tc.name, quiet)
			o := base.DeepCopy()
			merge(t, o.Object, tc.patch)
			if err := c.Create(context.Background(), o, client.DryRunAll); err != nil {
				t.Fatal(causes(err))
			}
			got := policies.ReplaceAllString(strings.Join(warnings.got, "\n"), "")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarningsOnlyOfWhatChanges(t *testing.T) {
	warnings := &recorder{}
	c := newClient(t, warnings)
	o := manifest(t, "warned-once", "{controller: {}, "+v5e+"}")
	const repair = "pathways-job.pathways.domain/slice-repair"
	steps := []struct {
		name, patch string
		want        int
	}{
		{"label", `{"metadata":{"labels":{"a":"b"}}}`, 0},
		{"annotation", `{"metadata":{"annotations":{"a":"b"}}}`, 0},
		{"spec", `{"spec":{"suspend":true}}`, 1},
		{"annotation of ours", `{"metadata":{"annotations":{"` + repair + `":"off"}}}`, 1},
		{"another one beside it", `{"metadata":{"annotations":{"a":"c"}}}`, 0},
		{"label beside it", `{"metadata":{"labels":{"a":"c"}}}`, 0},
		{"annotation of ours again", `{"metadata":{"annotations":{"` + repair + `":"Off"}}}`, 1},
		{"no annotations", `{"metadata":{"annotations":null}}`, 0},
	}
	if err := c.Create(context.Background(), o); err != nil {
		t.Fatal(causes(err))
	}
	if len(warnings.got) != 1 {
		t.Errorf("create: %d warnings, want 1: %q", len(warnings.got), warnings.got)
	}
	for _, step := range steps {
		warnings.got = nil
		if err := c.Patch(context.Background(), o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(step.patch))); err != nil {
			t.Fatal(causes(err))
		}
		if len(warnings.got) != step.want {
			t.Errorf("%s: %d warnings, want %d: %q", step.name, len(warnings.got), step.want, warnings.got)
		}
	}
}
