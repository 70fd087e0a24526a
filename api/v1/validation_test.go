package v1_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

// manifest is a PathwaysJob of that name and spec, in YAML.
func manifest(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("spec: "+spec), &o.Object); err != nil {
		t.Fatalf("parsing %s: %v", spec, err)
	}
	o.SetAPIVersion("pathways-job.pathways.domain/v1")
	o.SetKind("PathwaysJob")
	o.SetName(name)
	o.SetNamespace("default")
	return o
}

// worker is the spec of a headless job whose worker has that type and
// topology.
func worker(machineType, topology string) string {
	return "{controller: {}, workers: [{type: " + machineType + ", topology: '" + topology + "', numSlices: 1}]}"
}

const v5e = "workers: [{type: ct5lp-hightpu-4t, topology: 4x4, numSlices: 2}]"

// causes are the causes of an Invalid error, one per line, as kubectl prints
// them; the text of any other error.
func causes(err error) string {
	if err == nil {
		return ""
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return err.Error()
	}
	var lines []string
	for _, c := range status.Status().Details.Causes {
		lines = append(lines, c.Field+": "+c.Message)
	}
	return strings.Join(lines, "\n")
}

func TestRefusals(t *testing.T) {
	// subdomain is what the API server says of itself.
	const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character ` +
		`(e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	tests := map[string]struct{ name, spec, want string }{
		"topology with a star": {"", worker("ct5lp-hightpu-4t", "16*16"),
			`spec.workers[0].topology: Invalid value: "16*16" is no topology: write sides joined by x, like 16x16 for ct5lp-hightpu-4t`},
		"topology in words": {"", worker("ct5p-hightpu-4t", "cube"),
			`spec.workers[0].topology: Invalid value: "cube" is no topology: write sides joined by x, like 4x4x4 for ct5p-hightpu-4t`},
		"topology of one side": {"", worker("ct5p-hightpu-4t", "64"),
			`spec.workers[0].topology: Invalid value: "64" is no topology: write sides joined by x, like 4x4x4 for ct5p-hightpu-4t`},
		"side of zero": {"", worker("ct6e-standard-4t", "0x4"),
			`spec.workers[0].topology: Invalid value: "0x4" is not possible: a side is 2 to 16, without leading zeros, like 4x4 for ct6e-standard-4t`},
		"side of four digits": {"", worker("ct5lp-hightpu-4t", "1024x1024"),
			`spec.workers[0].topology: Invalid value: "1024x1024" is not possible: a side is 2 to 16, without leading zeros, like 4x4 for ct5lp-hightpu-4t`},
		"side with a leading zero": {"", worker("ct5p-hightpu-4t", "04x4x4"),
			`spec.workers[0].topology: Invalid value: "04x4x4" is not possible: a side is 1 to 256, without leading zeros, like 4x4x4 for ct5p-hightpu-4t`},
		"topology near a valid one": {"", worker("ct5lp-hightpu-4t", "16x15"),
			`spec.workers[0].topology: Invalid value: "16x15" is not possible with ct5lp-hightpu-4t: it can be 2x2, 2x4, 4x4, 4x8, 8x8, 8x16 or 16x16`},
		"longer than twice as wide": {"", worker("ct6e-standard-4t", "2x8"),
			`spec.workers[0].topology: Invalid value: "2x8" is not possible with ct6e-standard-4t: it can be 2x2, 2x4, 4x4, 4x8, 8x8, 8x16 or 16x16`},
		"larger side first": {"", worker("ct6e-standard-4t", "4x2"),
			`spec.workers[0].topology: Invalid value: "4x2" is in the wrong order: write the smaller side first, 2x4`},
		"larger side first, v5e": {"", worker("ct5lp-hightpu-4t", "16x8"),
			`spec.workers[0].topology: Invalid value: "16x8" is in the wrong order: write the smaller side first, 8x16`},
		"larger side first, cubes": {"", worker("ct5p-hightpu-4t", "8x4x4"),
			`spec.workers[0].topology: Invalid value: "8x4x4" is in the wrong order: write the smallest side first, 4x4x8`},
		"larger side first, small": {"", worker("ct4p-hightpu-4t", "1x2x2"),
			`spec.workers[0].topology: Invalid value: "1x2x2" is in the wrong order: write 2x2x1`},
		"three sides on v5e": {"", worker("ct5lp-hightpu-4t", "2x2x2"),
			`spec.workers[0].topology: Invalid value: "2x2x2" has 3 sides: a slice of ct5lp-hightpu-4t has 2, like 4x4`},
		"two sides on v5p": {"", worker("ct5p-hightpu-4t", "4x4"),
			`spec.workers[0].topology: Invalid value: "4x4" has 2 sides: a slice of ct5p-hightpu-4t has 3, like 4x4x4`},
		"one chip on a VM of four": {"", worker("ct5lp-hightpu-4t", "1x1"),
			`spec.workers[0].topology: Invalid value: "1x1" is not possible with ct5lp-hightpu-4t: it can be 2x2, 2x4, 4x4, 4x8, 8x8, 8x16 or 16x16; 1x1 is what ct5lp-hightpu-1t has`},
		"four chips on a VM of 1": {"", worker("ct5lp-hightpu-1t", "2x2"),
			`spec.workers[0].topology: Invalid value: "2x2" is not possible: a slice of ct5lp-hightpu-1t is one VM, with topology 1x1`},
		"one side too few on 1t": {"", worker("tpu7x-standard-1t", "1x1"),
			`spec.workers[0].topology: Invalid value: "1x1" is not possible: a slice of tpu7x-standard-1t is one VM, with topology 1x1x1`},
		"4x4 on a VM of eight": {"", worker("ct6e-standard-8t", "4x4"),
			`spec.workers[0].topology: Invalid value: "4x4" is not possible: a slice of ct6e-standard-8t is one VM, with topology 2x4`},
		"4x2 on a VM of eight": {"", worker("ct5lp-hightpu-8t", "4x2"),
			`spec.workers[0].topology: Invalid value: "4x2" is not possible: a slice of ct5lp-hightpu-8t is one VM, with topology 2x4`},
		"no multiples of four": {"", worker("ct5p-hightpu-4t", "5x6x7"),
			`spec.workers[0].topology: Invalid value: "5x6x7" is not possible with ct5p-hightpu-4t: it can be 2x2x1, 2x2x2, 2x2x4, 2x4x4, or three multiples of 4 up to 256, the nearest 4x8x8`},
		"2x2x3": {"", worker("tpu7x-standard-4t", "2x2x3"),
			`spec.workers[0].topology: Invalid value: "2x2x3" is not possible with tpu7x-standard-4t: it can be 2x2x1, 2x2x2, 2x2x4, 2x4x4, or three multiples of 4 up to 256, the nearest 4x4x4`},
		"side over 256": {"", worker("ct5p-hightpu-4t", "4x4x260"),
			`spec.workers[0].topology: Invalid value: "4x4x260" is not possible with ct5p-hightpu-4t: it can be 2x2x1, 2x2x2, 2x2x4, 2x4x4, or three multiples of 4 up to 256, the nearest 4x4x256`},
		"too many cubes, v4": {"", worker("ct4p-hightpu-4t", "16x16x20"),
			`spec.workers[0].topology: Invalid value: "16x16x20" is too large: a slice of ct4p-hightpu-4t has at most 64 cubes of 4x4x4 chips, the largest 16x16x16`},
		"too many cubes, v5p": {"", worker("ct5p-hightpu-4t", "20x20x28"),
			`spec.workers[0].topology: Invalid value: "20x20x28" is too large: a slice of ct5p-hightpu-4t has at most 140 cubes of 4x4x4 chips, the largest 16x20x28`},
		"too many cubes, tpu7x": {"", worker("tpu7x-standard-4t", "32x20x16"),
			`spec.workers[0].topology: Invalid value: "32x20x16" is too large: a slice of tpu7x-standard-4t has at most 144 cubes of 4x4x4 chips, the largest 16x24x24`},
		"topology too long": {"", worker("tpu7x-standard-4t", "1000x1000x1000"),
			`spec.workers[0].topology: Invalid value: "1000x1000x1000" is not possible: a side is 1 to 256, without leading zeros, like 4x4x4 for tpu7x-standard-4t`},
		"no topology": {"", "{controller: {}, workers: [{type: ct5p-hightpu-4t, numSlices: 1}]}",
			"spec.workers[0].topology: Required value\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"null topology": {"", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: , numSlices: 1}]}",
			"spec.workers[0].topology: Required value\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"unknown type": {"", worker("ct5p-hightpu-8t", "4x4x4"),
			"spec.workers[0].type: Unsupported value: \"ct5p-hightpu-8t\": supported values: \"ct4p-hightpu-4t\", \"ct5lp-hightpu-1t\", \"ct5lp-hightpu-4t\", \"ct5lp-hightpu-8t\", \"ct5p-hightpu-4t\", \"ct6e-standard-1t\", \"ct6e-standard-4t\", \"ct6e-standard-8t\", \"tpu7x-standard-1t\", \"tpu7x-standard-4t\"\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"no workers": {"", "{controller: {}}",
			"spec.workers: Required value\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"empty workers": {"", "{controller: {}, workers: []}",
			`spec.workers: Invalid value: 0: spec.workers in body should have at least 1 items`},
		"two workers": {"", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 1}, " +
			"{type: ct6e-standard-4t, topology: 4x4, numSlices: 1}]}",
			"spec.workers: Too many: 2: must have at most 1 item\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"no controller": {"", "{" + v5e + "}",
			"spec.controller: Required value\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"null controller": {"", "{controller: , " + v5e + "}",
			"spec.controller: Required value\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"no spec": {"", "",
			`spec: Required value: say at least workers and controller`},
		"no slices": {"", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 0}]}",
			`spec.workers[0].numSlices: Invalid value: 0: spec.workers[0].numSlices in body should be greater than or equal to 1`},
		"negative restarts": {"", "{controller: {}, maxRestarts: -1, " + v5e + "}",
			`spec.maxRestarts: Invalid value: -1: spec.maxRestarts in body should be greater than or equal to 0`},
		"too many slices": {"", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 2049}]}",
			`spec.workers[0].numSlices: Invalid value: 2049: spec.workers[0].numSlices in body should be less than or equal to 2048`},
		"negative slice budget": {"", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 1, maxSliceRestarts: -1}]}",
			`spec.workers[0].maxSliceRestarts: Invalid value: -1: spec.workers[0].maxSliceRestarts in body should be greater than or equal to 0`},
		"negative grace": {"", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 1, terminationGracePeriodSeconds: -5}]}",
			`spec.workers[0].terminationGracePeriodSeconds: Invalid value: -5: spec.workers[0].terminationGracePeriodSeconds in body should be greater than or equal to 0`},
		"negative elasticSlices": {"", "{controller: {elasticSlices: -1}, " + v5e + "}",
			`spec.controller.elasticSlices: Invalid value: -1: spec.controller.elasticSlices in body should be greater than or equal to 0`},
		"negative ttl": {"", "{controller: {}, ttlSecondsAfterFinished: -1, " + v5e + "}",
			`spec.ttlSecondsAfterFinished: Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater than or equal to 0`},
		"unknown deploymentMode": {"", "{controller: {deploymentMode: colocated}, " + v5e + "}",
			"spec.controller.deploymentMode: Unsupported value: \"colocated\": supported values: \"default\", \"colocate_head_with_workers\"\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"managedBy of no domain": {"", "{controller: {}, managedBy: kueue, " + v5e + "}",
			`spec.managedBy: Invalid value: "kueue" names no controller: write it as <domain>/<path>, like pathways-job.pathways.domain/controller`},
		"unknown component": {"", "{controller: {}, customComponents: [{componentType: proxy}], " + v5e + "}",
			"spec.customComponents[0].componentType: Unsupported value: \"proxy\": supported values: \"pathways_server\", \"proxy_server\", \"worker\", \"colocated_python_sidecar\"\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"component twice": {"", "{controller: {}, customComponents: [{componentType: worker}, {componentType: worker}], " + v5e + "}",
			`spec.customComponents[1]: Duplicate value: {"componentType":"worker"}`},
		"sidecar without image": {"", "{controller: {}, customComponents: [{componentType: colocated_python_sidecar}], " + v5e + "}",
			`spec.customComponents[0].image: Required value: colocated_python_sidecar has no image of its own: name one that holds your Python code`},
		"variable twice": {"", "{controller: {}, customComponents: [{componentType: worker, customEnv: [{name: A}, {name: A}]}], " +
			v5e + "}",
			`spec.customComponents[0].customEnv[1]: Duplicate value: {"name":"A"}`},
		"no main among several": {"", "{controller: {template: {spec: {containers: [{name: trainer, image: a}, {name: logger, image: a}]}}}, " + v5e + "}",
			`spec.controller.mainContainerName: Invalid value: no container is named "main": name the one that runs the JAX program, one of ["trainer", "logger"], or set JAX_PLATFORMS and JAX_BACKEND_TARGET in it yourself`},
		"name too long": {strings.Repeat("a", 40), "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" has 40 characters, at most 39 are possible: its head pod is named <name>-pathways-head-0-0-xxxxx, and a pod name has at most 63`},
		"name with a dot": {"train.v2", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "train.v2" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit, for example "train-v2"`},
		"name with a digit": {"2nd.train", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "2nd.train" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit, for example "job-2nd-train"`},
		"name in upper case": {"Abc", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "Abc": ` + subdomain + `
metadata.name: Invalid value: "Abc" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit, for example "abc"`},
		"name with an underscore": {"a_b", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "a_b": ` + subdomain + `
metadata.name: Invalid value: "a_b" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit, for example "a-b"`},
		"name with dashes around": {"-A.b_", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "-A.b_": ` + subdomain + `
metadata.name: Invalid value: "-A.b_" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit, for example "a-b"`},
		"name of no ASCII letter": {"Ä", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "Ä": ` + subdomain + `
metadata.name: Invalid value: "Ä" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit`},
		"name with one of no ASCII": {"aÄb", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "aÄb": ` + subdomain + `
metadata.name: Invalid value: "aÄb" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit`},
		"name with two dots": {"7a..b", "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "7a..b": ` + subdomain + `
metadata.name: Invalid value: "7a..b" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit, for example "job-7a--b"`},
		"name too long for its example": {strings.Repeat("9", 36), "{controller: {}, " + v5e + "}",
			`metadata.name: Invalid value: "999999999999999999999999999999999999" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit`},
	}
	c := newClient(t, &recorder{})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.name == "" {
				tc.name = "refused"
			}
			o := manifest(t, tc.name, tc.spec)
			for what, options := range map[string][]client.CreateOption{"create": nil, "dry run": {client.DryRunAll}} {
				err := c.Create(context.Background(), o.DeepCopy(), options...)
				if diff := cmp.Diff(tc.want, causes(err)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	tests := map[string]struct{ name, spec string }{
		"1t v5e":        {"", worker("ct5lp-hightpu-1t", "1x1")},
		"1t v6e":        {"", worker("ct6e-standard-1t", "1x1")},
		"1t tpu7x":      {"", worker("tpu7x-standard-1t", "1x1x1")},
		"8t v5e":        {"", worker("ct5lp-hightpu-8t", "2x4")},
		"8t v6e":        {"", worker("ct6e-standard-8t", "2x4")},
		"2x2x1":         {"", worker("ct4p-hightpu-4t", "2x2x1")},
		"largest v4":    {"", worker("ct4p-hightpu-4t", "16x16x16")},
		"largest v5p":   {"", worker("ct5p-hightpu-4t", "16x20x28")},
		"largest tpu7x": {"", worker("tpu7x-standard-4t", "16x24x24")},
		"longest":       {"", worker("tpu7x-standard-4t", "4x4x256")},
		"39 characters": {strings.Repeat("a", 39), "{controller: {}, " + v5e + "}"},
		"explicit nulls": {"", "{maxRestarts: , pathwaysDir: , pathwaysVersion: , customComponents: , hostNetwork: , suspend: , " +
			"ttlSecondsAfterFinished: , managedBy: , controller: {deploymentMode: , mainContainerName: , elasticSlices: , " +
			"enableMetricsCollection: , template: {metadata: , spec: {nodeSelector: , tolerations: , volumes: , " +
			"containers: [{name: main, image: a, env: , command: , resources: }]}}}, " +
			"workers: [{type: ct5lp-hightpu-4t, topology: 4x4, numSlices: 2, maxSliceRestarts: , nodeSelector: , " +
			"priorityClassName: , terminationGracePeriodSeconds: , template: }]}"},
		"nulls in a component": {"", "{controller: {template: }, customComponents: [{componentType: worker, image: , " +
			"customFlags: , customEnv: , resources: }], " + v5e + "}"},
		"creationTimestamp of a template": {"", "{controller: {template: {metadata: {creationTimestamp: , labels: {a: b}}, " +
			"spec: {containers: [{name: main, image: a, resources: {}}]}}}, " + v5e + "}"},
		"no containers": {"", "{controller: {template: {spec: {serviceAccountName: a, containers: []}}}, " + v5e + "}"},
		"null for containers": {"", "{controller: {template: {spec: {serviceAccountName: a, containers: }}}, workers: [{type: ct5lp-hightpu-4t, " +
			"topology: 4x4, numSlices: 1, template: {spec: {serviceAccountName: a, containers: }}}]}"},
		"templates without containers": {"", "{controller: {mainContainerName: main, template: {spec: {serviceAccountName: a}}}, workers: [{type: ct5lp-hightpu-4t, " +
			"topology: 4x4, numSlices: 1, template: {spec: {serviceAccountName: a}}}]}"},
		"empty template":                {"", "{controller: {template: {}}, " + v5e + "}"},
		"one container of another name": {"", "{controller: {template: {spec: {containers: [{name: trainer, image: a}]}}}, " + v5e + "}"},
		"several, one of them set up by hand": {"", "{controller: {template: {spec: {containers: [{name: trainer, " +
			"image: a, env: [{name: JAX_PLATFORMS, value: proxy}]}, {name: logger, image: a}]}}}, " + v5e + "}"},
		"everything new": {"", "{hostNetwork: false, suspend: true, ttlSecondsAfterFinished: 0, " +
			"managedBy: pathways-job.pathways.domain/controller, controller: {elasticSlices: 1}, " +
			"customComponents: [{componentType: proxy_server, resources: {limits: {cpu: 16, memory: 100G}}}], " +
			"workers: [{type: ct5lp-hightpu-4t, topology: 4x4, numSlices: 2, nodeSelector: {a: b}, " +
			"template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: a, containers: []}}}]}"},
	}
	c := newClient(t, &recorder{})
	try := func(t *testing.T, o *unstructured.Unstructured) {
		t.Helper()
		if err := c.Create(context.Background(), o.DeepCopy(), client.DryRunAll); err != nil {
			t.Errorf("dry run: %s", causes(err))
		}
		if err := c.Create(context.Background(), o, client.FieldValidation("Strict")); err != nil {
			t.Fatalf("create: %s", causes(err))
		}
		if err := c.Delete(context.Background(), o); err != nil {
			t.Error(err)
		}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.name == "" {
				tc.name = "accepted"
			}
			try(t, manifest(t, tc.name, tc.spec))
		})
	}
	root := envtest.Root()
	for _, pattern := range []string{"internal/render/testdata/compat/*.pathwaysjob.json", "config/samples/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				objects, err := envtest.Objects(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range objects {
					if o.GetKind() == "PathwaysJob" {
						o.SetNamespace("default")
						try(t, o)
					}
				}
			})
		}
	}
}

func TestDefaults(t *testing.T) {
	c := newClient(t, &recorder{})
	o := manifest(t, "defaults", "{controller: {template: {spec: {containers: [{name: main, image: a}]}}}, customComponents: [{componentType: worker, "+
		"customEnv: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}], "+v5e+"}")
	if err := c.Create(context.Background(), o, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	want := `controller:
  deploymentMode: default
  mainContainerName: main
  template:
    spec:
      containers:
      - image: a
        name: main
customComponents:
- componentType: worker
  customEnv:
  - name: A
    valueFrom:
      secretKeyRef:
        key: k
        name: s
workers:
- maxSliceRestarts: 1
  numSlices: 2
  topology: 4x4
  type: ct5lp-hightpu-4t
`
	got, err := yaml.Marshal(o.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
