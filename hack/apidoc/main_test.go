package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const crd = `
spec:
  group: example.com
  names: {kind: Thing, singular: thing, shortNames: [th]}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: |-
          A Thing of
          two lines.
        properties:
          metadata: {type: object}
          spec:
            type: object
            description: What is wanted.
            required: [size]
            x-kubernetes-validations: [{fieldPath: .color, message: cannot change}]
            properties:
              color: {type: string, description: color of it, enum: [red, blue], default: red}
              size: {type: integer, format: int32, description: "size, a|b <c>", minimum: 1, maximum: 9}
              labels: {type: object, additionalProperties: {type: string}}
              template:
                type: object
                description: pods
                properties:
                  spec:
                    type: object
                    properties:
                      list: {type: array, items: {type: object, x-kubernetes-validations: [{fieldPath: .image, message: none}]}}
                    x-kubernetes-validations: [{fieldPath: .node, messageExpression: "'\"%s\" is no node'.format([self.node])"}]
              parts:
                type: array
                maxItems: 2
                description: parts of it
                items:
                  type: object
                  properties:
                    name: {type: string, description: name of the part}
`

const want = `# Thing, example.com/v1

<!-- Written by hack/apidoc from the CRD: make generate -->

A Thing of two lines.

` + "`kubectl explain thing.spec`" + ` shows the same. Short names: th. Fields with * are required.

## spec

What is wanted.

| field | type | |
|---|---|---|
| ` + "`size`" + ` * | int32 | size, a\|b &lt;c> At least 1. At most 9. |
| ` + "`color`" + ` | string | color of it One of ` + "`red`, `blue`. Set by default: `red`" + `. |
| ` + "`labels`" + ` | map of string |  |
| ` + "`parts`" + ` | list of object | parts of it At most 2 entries. |
| ` + "`template`" + ` | object | pods |

Refused, with these messages:

- ` + "`color`" + `: cannot change
- ` + "`template.spec.node`" + `: "…" is no node
- ` + "`template.spec.list[].image`" + `: none

## spec.parts[]

parts of it

| field | type | |
|---|---|---|
| ` + "`name`" + ` | string | name of the part |
`

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(crd), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(file, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("reference (-want +got):\n%s", diff)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML":   "{",
		"no schema": "spec: {versions: [{name: v1}]}",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "crd.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := run(file, &strings.Builder{}); err == nil {
				t.Error("no error")
			}
		})
	}
}
