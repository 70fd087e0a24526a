package v1_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// running is a job that has every field set that can be set.
const running = `{maxRestarts: 1, pathwaysDir: gs://b/d, pathwaysVersion: jax-0.5.3, hostNetwork: false, suspend: false,
ttlSecondsAfterFinished: 60, managedBy: pathways-job.pathways.domain/controller,
controller: {elasticSlices: 1, enableMetricsCollection: true, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, image: a}]}}},
customComponents: [{componentType: worker, image: w, customFlags: [--a=b]}],
workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 2, maxSliceRestarts: 1, terminationGracePeriodSeconds: 60,
priorityClassName: high, nodeSelector: {a: b}, template: {spec: {serviceAccountName: s, containers: []}}}]}`

// replace is a JSON patch that sets the value at a path.
func replace(path, value string) string {
	return `[{"op":"add","path":"` + path + `","value":` + value + `}]`
}

func remove(path string) string { return `[{"op":"remove","path":"` + path + `"}]` }

func TestUpdates(t *testing.T) {
	minimal := "{controller: {}, " + v5e + "}"
	tests := map[string]struct{ spec, patch, want string }{
		"maxRestarts": {running, replace("/spec/maxRestarts", "3"),
			`spec.maxRestarts: Forbidden: cannot change from 1 to 3: a job keeps it from its creation on`},
		"maxRestarts removed": {running, remove("/spec/maxRestarts"),
			`spec.maxRestarts: Forbidden: cannot change from 1 to 0: a job keeps it from its creation on`},
		"pathwaysDir": {running, replace("/spec/pathwaysDir", `"gs://c"`),
			`spec.pathwaysDir: Forbidden: cannot change from "gs://b/d" to "gs://c": a job keeps it from its creation on`},
		"pathwaysDir removed": {running, remove("/spec/pathwaysDir"),
			`spec.pathwaysDir: Forbidden: cannot change from "gs://b/d" to "": a job keeps it from its creation on`},
		"pathwaysDir added": {minimal, replace("/spec/pathwaysDir", `"gs://c"`),
			`spec.pathwaysDir: Forbidden: cannot change from "" to "gs://c": a job keeps it from its creation on`},
		"pathwaysVersion": {running, replace("/spec/pathwaysVersion", `"latest"`),
			`spec.pathwaysVersion: Forbidden: cannot change from "jax-0.5.3" to "latest": a job keeps it from its creation on`},
		"hostNetwork": {running, replace("/spec/hostNetwork", "true"),
			`spec.hostNetwork: Forbidden: cannot change from false to true: a job keeps it from its creation on`},
		"managedBy": {running, replace("/spec/managedBy", `"a.b/c"`),
			`spec.managedBy: Forbidden: cannot change from "pathways-job.pathways.domain/controller" to "a.b/c": a job keeps it from its creation on`},
		"managedBy added": {minimal, replace("/spec/managedBy", `"a.b/c"`),
			`spec.managedBy: Forbidden: cannot change from "" to "a.b/c": a job keeps it from its creation on`},
		"type": {running, replace("/spec/workers/0/type", `"ct4p-hightpu-4t"`),
			`spec.workers: Forbidden: type cannot change from ["ct5p-hightpu-4t"] to ["ct4p-hightpu-4t"]: a job keeps it from its creation on`},
		"topology": {running, replace("/spec/workers/0/topology", `"4x4x8"`),
			`spec.workers[0].topology: Forbidden: cannot change from 4x4x4 to 4x4x8: a job keeps it from its creation on`},
		"numSlices": {running, replace("/spec/workers/0/numSlices", "3"),
			`spec.workers[0].numSlices: Forbidden: cannot change from 2 to 3: a job keeps it from its creation on`},
		"grace": {running, replace("/spec/workers/0/terminationGracePeriodSeconds", "61"),
			`spec.workers[0].terminationGracePeriodSeconds: Forbidden: cannot change from 60 to 61: a job keeps it from its creation on`},
		"priorityClassName": {running, replace("/spec/workers/0/priorityClassName", `"low"`),
			`spec.workers[0].priorityClassName: Forbidden: cannot change from "high" to "low": a job keeps it from its creation on`},
		"nodeSelector": {running, replace("/spec/workers/0/nodeSelector/a", `"c"`),
			`spec.workers[0].nodeSelector: Forbidden: cannot change: a job keeps it from its creation on`},
		"nodeSelector removed": {running, remove("/spec/workers/0/nodeSelector"),
			`spec.workers[0].nodeSelector: Forbidden: cannot change: a job keeps it from its creation on`},
		"worker template": {running, replace("/spec/workers/0/template/spec/serviceAccountName", `"t"`),
			`spec.workers[0].template: Forbidden: cannot change: a job keeps it from its creation on`},
		"worker template removed": {running, remove("/spec/workers/0/template"),
			`spec.workers[0].template: Forbidden: cannot change: a job keeps it from its creation on`},
		"deploymentMode": {running, replace("/spec/controller/deploymentMode", `"colocate_head_with_workers"`),
			`spec.controller.deploymentMode: Forbidden: cannot change from default to colocate_head_with_workers: a job keeps it from its creation on`},
		"mainContainerName": {running, replace("/spec/controller/mainContainerName", `"other"`),
			`spec.controller.mainContainerName: Forbidden: cannot change from "main" to "other": a job keeps it from its creation on`},
		"metrics": {running, replace("/spec/controller/enableMetricsCollection", "false"),
			`spec.controller.enableMetricsCollection: Forbidden: cannot change from true to false: a job keeps it from its creation on`},
		"template": {running, replace("/spec/controller/template/spec/containers/0/image", `"b"`),
			`spec.controller.template: Forbidden: cannot change: a job keeps it from its creation on`},
		"template labels": {running, replace("/spec/controller/template/metadata/labels/a", `"c"`),
			`spec.controller.template: Forbidden: cannot change: a job keeps it from its creation on`},
		"template added": {minimal, replace("/spec/controller/template", `{"spec":{"containers":[]}}`),
			`spec.controller.template: Forbidden: cannot change: a job keeps it from its creation on`},
		"component image": {running, replace("/spec/customComponents/0/image", `"x"`),
			`spec.customComponents: Forbidden: cannot change: a job keeps it from its creation on`},
		"component added": {minimal, replace("/spec/customComponents", `[{"componentType":"worker"}]`),
			`spec.customComponents: Forbidden: cannot change: a job keeps it from its creation on`},
		"elasticSlices to 0": {running, replace("/spec/controller/elasticSlices", "0"),
			`spec.controller.elasticSlices: Forbidden: cannot change from 1 to 0: a job is elastic or not from its creation on; among values above 0 it can change`},
		"elasticSlices removed": {running, remove("/spec/controller/elasticSlices"),
			`spec.controller.elasticSlices: Forbidden: cannot change from 1 to 0: a job is elastic or not from its creation on; among values above 0 it can change`},
		"elasticSlices from none": {minimal, replace("/spec/controller/elasticSlices", "1"),
			`spec.controller.elasticSlices: Forbidden: cannot change from 0 to 1: a job is elastic or not from its creation on; among values above 0 it can change`},

		"elasticSlices above 0":        {running, replace("/spec/controller/elasticSlices", "2"), ""},
		"maxSliceRestarts":             {running, replace("/spec/workers/0/maxSliceRestarts", "5"), ""},
		"suspend":                      {running, replace("/spec/suspend", "true"), ""},
		"default of mainContainerName": {minimal, remove("/spec/controller/mainContainerName"), ""},
		"suspend set":                  {minimal, replace("/spec/suspend", "true"), ""},
		"suspend removed":              {running, remove("/spec/suspend"), ""},
		"ttl":                          {running, replace("/spec/ttlSecondsAfterFinished", "0"), ""},
		"ttl removed":                  {running, remove("/spec/ttlSecondsAfterFinished"), ""},
		"labels":                       {running, replace("/metadata/labels", `{"a":"b"}`), ""},
		"annotations":                  {running, replace("/metadata/annotations", `{"a":"b"}`), ""},
		"default of hostNetwork":       {minimal, replace("/spec/hostNetwork", "true"), ""},
		"default of maxRestarts":       {minimal, replace("/spec/maxRestarts", "0"), ""},
		"default of grace":             {minimal, replace("/spec/workers/0/terminationGracePeriodSeconds", "30"), ""},
		"default of elasticSlices":     {minimal, replace("/spec/controller/elasticSlices", "0"), ""},
		"default of metrics":           {minimal, replace("/spec/controller/enableMetricsCollection", "false"), ""},
	}
	c := newClient(t, &recorder{})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := manifest(t, "", tc.spec)
			o.SetGenerateName("update-")
			if err := c.Create(context.Background(), o); err != nil {
				t.Fatal(causes(err))
			}
			for _, options := range [][]client.PatchOption{{client.DryRunAll}, nil} {
				err := c.Patch(context.Background(), o.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(tc.patch)), options...)
				if diff := cmp.Diff(tc.want, causes(err)); diff != "" {
					t.Errorf("options %v (-want +got):\n%s", options, diff)
				}
			}
		})
	}
}
