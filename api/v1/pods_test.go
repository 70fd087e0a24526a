package v1_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// head is the spec of a job with that in the pod spec of its head.
func head(pod string) string {
	return "{controller: {template: {spec: {" + pod + "}}}, " + v5e + "}"
}

// workers is the spec of a headless job with that in its workers.
func workers(fields string) string {
	return "{controller: {}, workers: [{type: ct5lp-hightpu-4t, topology: 4x4, numSlices: 1, " + fields + "}]}"
}

// component is the spec of a headless job with a custom component.
func component(c string) string {
	return "{controller: {}, customComponents: [{" + c + "}], " + v5e + "}"
}

// main is the field of a pod spec with one container, main.
const main = "containers: [{name: main, image: a}]"

// TestRefusedPods: what a Job's pods cannot have is refused with the job.
func TestRefusedPods(t *testing.T) {
	const (
		headSpec   = "spec.controller.template.spec"
		workerSpec = "spec.workers[0].template.spec"
		label      = `no label of a node can have such a value: it has letters, digits, -, _ and ., and begins and ends with a letter or digit`
		class      = `cannot name a PriorityClass: a name has lower case letters, digits, - and ., and begins and ends with a letter or digit`
	)
	tests := map[string]struct{ spec, want string }{
		"version with a blank": {"{pathwaysVersion: jax 0.5, controller: {}, " + v5e + "}",
			`spec.pathwaysVersion: Invalid value: "jax 0.5" is no image tag: a tag has at most 128 letters, digits, _, . and -, and begins with none of the last two, like jax-0.5.3; other images are set in customComponents`},
		"version that is an image": {"{pathwaysVersion: 'gcr.io/x:y', controller: {}, " + v5e + "}",
			`spec.pathwaysVersion: Invalid value: "gcr.io/x:y" is no image tag: a tag has at most 128 letters, digits, _, . and -, and begins with none of the last two, like jax-0.5.3; other images are set in customComponents`},
		"version that begins with a dot": {"{pathwaysVersion: '.5', controller: {}, " + v5e + "}",
			`spec.pathwaysVersion: Invalid value: ".5" is no image tag: a tag has at most 128 letters, digits, _, . and -, and begins with none of the last two, like jax-0.5.3; other images are set in customComponents`},
		"version of 129 characters": {"{pathwaysVersion: " + strings.Repeat("v", 129) + ", controller: {}, " + v5e + "}",
			`spec.pathwaysVersion: Invalid value: "` + strings.Repeat("v", 129) + `" is no image tag: a tag has at most 128 letters, digits, _, . and -, and begins with none of the last two, like jax-0.5.3; other images are set in customComponents`},
		"node by name": {head("nodeName: node-7, " + main),
			headSpec + `.nodeName: Invalid value: "node-7" leaves the scheduler out, and the job would restart without end if there is no such node: use nodeSelector, with kubernetes.io/hostname: node-7`},
		"workers' node by name": {workers("template: {spec: {nodeName: node-7}}"),
			workerSpec + `.nodeName: Invalid value: "node-7" leaves the scheduler out, and the job would restart without end if there is no such node: use nodeSelector, with kubernetes.io/hostname: node-7`},
		"restartPolicy Always": {head("restartPolicy: Always, " + main),
			headSpec + `.restartPolicy: Invalid value: "Always" is not possible: the pods of a Job can have Never or OnFailure`},
		"restartPolicy Sometimes": {head("restartPolicy: Sometimes, " + main),
			headSpec + `.restartPolicy: Invalid value: "Sometimes" is not possible: the pods of a Job can have Never or OnFailure`},
		"workers' restartPolicy": {workers("template: {spec: {restartPolicy: Always}}"),
			workerSpec + `.restartPolicy: Invalid value: "Always" is not possible: the pods of a Job can have Never or OnFailure`},
		"containers of one name": {head("containers: [{name: main, image: a}, {name: main, image: b}]"),
			headSpec + `.containers[1]: Duplicate value: {"name":"main"}`},
		"init containers of one name": {head(main + ", initContainers: [{name: a, image: a}, {name: a, image: b}]"),
			headSpec + `.initContainers[1]: Duplicate value: {"name":"a"}`},
		"init container and container of one name": {head("containers: [{name: main, image: a}, {name: b, image: b}], initContainers: [{name: b, image: a}, {name: c, image: a}, {name: main, image: b}]"),
			headSpec + `.initContainers: Invalid value: containers has ["b", "main"], too: give each container its own name`},
		"names of ours": {head("containers: [{name: main, image: a}, {name: pathways-rm, image: b}]"),
			headSpec + `.containers: Invalid value: the operator adds ["pathways-rm"]: give yours another name`},
		"names of ours, init": {head(main + ", initContainers: [{name: pathways-rm, image: a}, {name: pathways-proxy, image: b}]"),
			headSpec + `.initContainers: Invalid value: the operator adds ["pathways-rm", "pathways-proxy"]: give yours another name`},
		"workers' name of ours, init": {workers("template: {spec: {initContainers: [{name: pathways-worker, image: a}]}}"),
			workerSpec + `.initContainers: Invalid value: the operator adds ["pathways-worker"]: give yours another name`},
		"name of the sidecar": {"{controller: {}, customComponents: [{componentType: colocated_python_sidecar, image: i}], workers: [{type: ct5lp-hightpu-4t, topology: 4x4, numSlices: 1, " +
			"template: {spec: {containers: [{name: colocated-python-sidecar, image: i}]}}}]}",
			`spec.workers: Invalid value: a container of the template is named colocated-python-sidecar, as the one that customComponents asks for: give it another name`},
		"name of the sidecar, init": {"{controller: {}, customComponents: [{componentType: colocated_python_sidecar, image: i}], workers: [{type: ct5lp-hightpu-4t, topology: 4x4, numSlices: 1, " +
			"template: {spec: {initContainers: [{name: colocated-python-sidecar, image: i}]}}}]}",
			`spec.workers: Invalid value: a container of the template is named colocated-python-sidecar, as the one that customComponents asks for: give it another name`},
		"no image": {head("containers: [{name: main}]"),
			headSpec + `.containers[0].image: Required value: container "main" has none`},
		"empty image": {head("containers: [{name: main, image: ''}]"),
			headSpec + `.containers[0].image: Required value: container "main" has none`},
		"no image, init": {head(main + ", initContainers: [{name: fetch}]"),
			headSpec + `.initContainers[0].image: Required value: container "fetch" has none`},
		"workers, no image": {workers("template: {spec: {containers: [{name: pathways-worker}, {name: logger}]}}"),
			workerSpec + `.containers[1].image: Required value: container "logger" has none`},
		"node label with a blank": {workers("nodeSelector: {a: c d, b: c}"),
			`spec.workers[0].nodeSelector: Invalid value: ["c d"]: ` + label},
		"node label too long": {workers("nodeSelector: {a: " + strings.Repeat("b", 64) + "}"),
			"spec.workers[0].nodeSelector.a: Too long: may not be more than 63 bytes\n" +
				"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		"node label of the workers' template": {workers("template: {spec: {nodeSelector: {a: -b}}}"),
			workerSpec + `.nodeSelector: Invalid value: ["-b"]: ` + label},
		"node label of the head": {head("nodeSelector: {pool: 'a/b', zone: 'c,d'}, " + main),
			headSpec + `.nodeSelector: Invalid value: ["a/b", "c,d"]: ` + label},
		"PriorityClass": {workers("priorityClassName: No Pe"),
			`spec.workers[0].priorityClassName: Invalid value: "No Pe" ` + class},
		"PriorityClass of the workers' template": {workers("template: {spec: {priorityClassName: a_b}}"),
			workerSpec + `.priorityClassName: Invalid value: "a_b" ` + class},
		"PriorityClass of the head": {head("priorityClassName: a..b, " + main),
			headSpec + `.priorityClassName: Invalid value: "a..b" ` + class},
		"port in words": {component("componentType: proxy_server, customFlags: [--a=b, --server_port=abc]"),
			`spec.customComponents[0].customFlags: Invalid value: ["--server_port=abc"]: write --server_port=N with N from 1 to 65535`},
		"port 0": {component("componentType: worker, customFlags: [--server_port=0]"),
			`spec.customComponents[0].customFlags: Invalid value: ["--server_port=0"]: write --server_port=N with N from 1 to 65535`},
		"port too high": {component("componentType: pathways_server, customFlags: [--server_port=65536]"),
			`spec.customComponents[0].customFlags: Invalid value: ["--server_port=65536"]: write --server_port=N with N from 1 to 65535`},
	}
	c := newClient(t, &recorder{})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := c.Create(context.Background(), manifest(t, "refused", tc.spec), client.DryRunAll)
			if diff := cmp.Diff(tc.want, causes(err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
