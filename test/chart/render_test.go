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
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const root = "../.."

// tool runs one of the pinned tools in the repository's top folder, and
// returns what it prints. An error holds what the tool said.
func tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	find, ok := tools[name]
	if !ok {
		t.Fatalf("no tool is called %s", name)
	}
	path, err := find()
	if err != nil {
		return "", err
	}
	return run(t, append([]string{path}, args...)...)
}

// tools find the executables, which the go command builds and keeps; to ask
// it once a test run saves seconds each time.
var tools = map[string]func() (string, error){
	"helm":      sync.OnceValues(func() (string, error) { return find("helm") }),
	"kustomize": sync.OnceValues(func() (string, error) { return find("kustomize") }),
}

func find(name string) (string, error) {
	cmd := exec.Command("go", "tool", "-modfile=go.tools.mod", "-n", name)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
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
	out, err := tool(t, "helm", append([]string{"template", "--namespace=pathways-job-system", "pathways-job", "charts/pathways-job"}, args...)...)
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
