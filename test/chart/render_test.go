// Package chart_test checks the two ways to install the operator, the Helm
// chart and config/, against each other and against the operator.
package chart_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const root = "../.."

// tool runs one of the pinned tools in the repository's top folder, and
// returns what it prints. An error holds what the tool said.
func tool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return run(t, append([]string{"go", "tool", "-modfile=go.tools.mod"}, args...)...)
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// template renders the chart.
func template(t *testing.T, args ...string) (objects, error) {
	t.Helper()
	out, err := tool(t, append([]string{"helm", "template", "--namespace=pathways-job-system", "pathways-job", "charts/pathways-job"}, args...)...)
	if err != nil {
		return nil, err
	}
	return parse(out)
}

func mustTemplate(t *testing.T, args ...string) objects {
	t.Helper()
	o, err := template(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// build renders a folder of config.
func build(t *testing.T, dir string) objects {
	t.Helper()
	out, err := tool(t, "kustomize", "build", filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse(out)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// objects by "Kind namespace/name".
type objects map[string]*unstructured.Unstructured

func key(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

func parse(text string) (objects, error) {
	all := objects{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what was rendered: %w", err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if all[key(o)] != nil {
			return nil, fmt.Errorf("%s is there twice", key(o))
		}
		all[key(o)] = o
	}
}

func (o objects) deployment(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	for _, object := range o {
		if object.GetKind() == "Deployment" {
			return object
		}
	}
	t.Fatal("no Deployment")
	return nil
}

// container is the manager's.
func (o objects) container(t *testing.T) map[string]any {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(o.deployment(t).Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers: %v, %v", containers, err)
	}
	return containers[0].(map[string]any)
}

func (o objects) count(kind string) int {
	n := 0
	for _, object := range o {
		if object.GetKind() == kind {
			n++
		}
	}
	return n
}
