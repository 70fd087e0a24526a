package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const template = `
              template:
                description: ours
                type: object
                properties:
                  metadata: {type: object, description: theirs, properties: {labels: {type: object, description: theirs}}}
                  spec:
                    type: object
                    required: [containers]
                    description: theirs
                    properties:
                      containers:
                        type: array
                        items:
                          type: object
                          description: theirs
                          properties:
                            name: {type: string}
                            env: {type: array, description: theirs, items: {type: object}}
                            ports:
                              type: array
                              x-kubernetes-list-map-keys: [protocol]
                              items: {type: object, properties: {protocol: {type: string, default: TCP}, name: {type: string, default: ""}}}
                      initContainers: {type: array, items: {type: object, properties: {name: {type: string}, env: {type: array}}}}
                      nodeName: {type: string, description: theirs}
                      nodeSelector: {type: object, additionalProperties: {type: string}}
                      priorityClassName: {type: string}
                      restartPolicy: {type: string}
`

const wantTemplate = `
              template:
                description: ours
                type: object
                properties:
                  metadata:
                    type: object
                    description: "metadata of the pods: labels and annotations. See kubectl explain pod.metadata."
                    properties: {labels: {type: object}, creationTimestamp: {type: string, format: date-time}}
                  spec:
                    type: object
                    description: spec of the pods. See kubectl explain pod.spec.
                    properties:
                      containers:
                        type: array
                        maxItems: 128
                        items:
                          type: object
                          properties:
                            name: {type: string, maxLength: 63}
                            env: {type: array, maxItems: 2048, items: {type: object}}
                            ports:
                              type: array
                              x-kubernetes-list-map-keys: [protocol]
                              items: {type: object, properties: {protocol: {type: string, default: TCP}, name: {type: string}}}
                      initContainers: {type: array, maxItems: 128, items: {type: object, properties: {name: {type: string, maxLength: 63}, env: {type: array, maxItems: 2048}}}}
                      nodeName: {type: string, maxLength: 253}
                      nodeSelector: {type: object, maxProperties: 128, additionalProperties: {type: string, maxLength: 63}}
                      priorityClassName: {type: string, maxLength: 253}
                      restartPolicy: {type: string}
`

// placement are the fields that workers[] shares with the pods.
const (
	placement     = "nodeSelector: {type: object, additionalProperties: {type: string}}, priorityClassName: {type: string}"
	wantPlacement = "nodeSelector: {type: object, maxProperties: 128, additionalProperties: {type: string, maxLength: 63}}, priorityClassName: {type: string, maxLength: 253}"
)

func crdWith(metadata, placement, template string) string {
	return `
spec:
  versions:
  - schema:
      openAPIV3Schema:
        properties:
          metadata: ` + metadata + `
          spec:
            properties:
              controller: {type: object, properties: {template: {}}}
              workers: {items: {properties: {template: {}, ` + placement + `}}}
              customComponents:
                items: {properties: {customEnv: {type: array, description: kept}, resources: {type: object, default: {}}}}
` + template
}

// parse reads a CRD and moves the template beside spec's fields to where the
// real one has its two.
func parse(t *testing.T, text string, defaults bool) map[string]any {
	t.Helper()
	crd := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	version := at(crd, "spec", "versions").([]any)[0]
	spec := at(version, "schema", "openAPIV3Schema", "properties", "spec", "properties").(map[string]any)
	at(spec, "controller", "properties").(map[string]any)["template"] = clone(t, spec["template"])
	at(spec, "workers", "items", "properties").(map[string]any)["template"] = clone(t, spec["template"])
	delete(spec, "template")
	if !defaults {
		delete(at(spec, "customComponents", "items", "properties", "resources").(map[string]any), "default")
	}
	return crd
}

func clone(t *testing.T, v any) any {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var c any
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// wantRules: head, workers' template and, for two of them, workers.
var wantRules = map[string]int{
	".containers": 1, ".initContainers": 4, ".image": 4, ".nodeName": 2, ".restartPolicy": 2,
	".priorityClassName": 3, ".nodeSelector": 3,
}

// takeRules removes the rules from a schema, and counts those that hold on
// creation only.
func takeRules(schema map[string]any) map[string]int {
	taken := map[string]int{}
	walk(schema, func(s map[string]any) {
		list, _ := s["x-kubernetes-validations"].([]any)
		for _, v := range list {
			r := v.(map[string]any)
			if r["optionalOldSelf"] == true && strings.HasPrefix(r["rule"].(string), "oldSelf.hasValue() || ") {
				taken[r["fieldPath"].(string)]++
			}
		}
		delete(s, "x-kubernetes-validations")
	})
	return taken
}

func TestFinish(t *testing.T) {
	crd := parse(t, crdWith("{type: object}", placement, template), true)
	if err := Finish(crd); err != nil {
		t.Fatal(err)
	}
	rules := takeRules(at(at(crd, "spec", "versions").([]any)[0], "schema", "openAPIV3Schema").(map[string]any))
	if diff := cmp.Diff(wantRules, rules); diff != "" {
		t.Errorf("rules, by the field they speak of (-want +got):\n%s", diff)
	}
	want := parse(t, crdWith("{type: object, properties: {name: {type: string}}}", wantPlacement, wantTemplate), false)
	// Written and read again, since numbers differ in type until then.
	if diff := cmp.Diff(clone(t, want), clone(t, crd)); diff != "" {
		t.Errorf("CRD (-want +got):\n%s", diff)
	}
}

func TestFinishRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no versions": "spec: {}",
		"no schema":   "spec: {versions: [{name: v1}]}",
		"no template": "spec: {versions: [{schema: {openAPIV3Schema: {properties: {spec: {properties: {}}}}}}]}",
	} {
		t.Run(name, func(t *testing.T) {
			crd := map[string]any{}
			if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
				t.Fatal(err)
			}
			if err := Finish(crd); err == nil {
				t.Error("no error")
			}
		})
	}
}
