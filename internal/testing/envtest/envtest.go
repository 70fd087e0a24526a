// Package envtest starts a real kube-apiserver (with etcd) for tests, with the
// PathwaysJob CRD and, where wanted, the admission policies and JobSet's CRD.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
)

// defaultKubernetes is the version whose programs are used unless K8S_VERSION
// names another; hack/localcluster has the same.
const defaultKubernetes = "v1.36.3"

// startTimeout is how long etcd and kube-apiserver may take on a busy machine.
const startTimeout = 2 * time.Minute

// Options says what the API server has beside Kubernetes' own API.
type Options struct {
	// NoCRD leaves the PathwaysJob CRD out.
	NoCRD bool
	// Policies adds what is in config/admission; it needs the CRD.
	Policies bool
	// JobSet adds JobSet's CRD, of the version in go.mod.
	JobSet bool
}

// Environment is a running API server.
type Environment struct {
	// Config is an administrator's.
	Config *rest.Config

	env *crenvtest.Environment
}

// Start starts an API server; the caller stops it.
func Start(ctx context.Context, o Options) (*Environment, error) {
	assets, err := Assets()
	if err != nil {
		return nil, err
	}
	env := &crenvtest.Environment{
		BinaryAssetsDirectory:    assets,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startTimeout,
	}
	if !o.NoCRD {
		env.CRDDirectoryPaths = append(env.CRDDirectoryPaths, filepath.Join(Root(), "config", "crd", "bases"))
	}
	if o.JobSet {
		dir, err := jobSetCRDs(ctx)
		if err != nil {
			return nil, err
		}
		env.CRDDirectoryPaths = append(env.CRDDirectoryPaths, dir)
	}
	config, err := env.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting an API server: %w", err), env.Stop())
	}
	e := &Environment{Config: config, env: env}
	if o.Policies {
		if err := e.Apply(ctx, filepath.Join(Root(), "config", "admission")); err != nil {
			return nil, errors.Join(err, e.Stop())
		}
		if err := e.waitForPolicies(ctx); err != nil {
			return nil, errors.Join(err, e.Stop())
		}
	}
	return e, nil
}

// Kubeconfig is an administrator's, for kubectl.
func (e *Environment) Kubeconfig() []byte { return e.env.KubeConfig }

// Stop ends the API server and etcd.
func (e *Environment) Stop() error { return e.env.Stop() }

// Apply creates the objects of all manifests in a folder, but for
// kustomization.yaml.
func (e *Environment) Apply(ctx context.Context, dir string) error {
	c, err := client.New(e.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		objects, err := Objects(file)
		if err != nil {
			return err
		}
		for _, o := range objects {
			// A policy that only warns says nothing where an expression of it fails.
			if o.GetKind() == "ValidatingAdmissionPolicy" {
				if err := unstructured.SetNestedField(o.Object, "Fail", "spec", "failurePolicy"); err != nil {
					return err
				}
			}
			if err := c.Create(ctx, o); err != nil {
				return fmt.Errorf("creating %s %s of %s: %w", o.GetKind(), o.GetName(), file, err)
			}
		}
	}
	return nil
}

// waitForPolicies waits until the API server heeds the policy that was created
// last, which it does some time after it has accepted it.
func (e *Environment) waitForPolicies(ctx context.Context) error {
	warned := &counter{}
	config := rest.CopyConfig(e.Config)
	config.WarningHandler = warned
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	unwise := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "pathways-job.pathways.domain/v1",
		"kind":       "PathwaysJob",
		"metadata":   map[string]any{"name": "unwise", "namespace": "default"},
		"spec": map[string]any{
			"controller": map[string]any{},
			"workers":    []any{map[string]any{"type": "ct5lp-hightpu-4t", "topology": "4x4", "numSlices": int64(1)}},
		},
	}}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, unwise.DeepCopy(), client.DryRunAll)
		return warned.n > 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the admission policies to act: %w", err)
	}
	return nil
}

// counter counts warnings.
type counter struct{ n int }

func (c *counter) HandleWarningHeader(int, string, string) { c.n++ }

// Objects reads all objects of a YAML file.
func Objects(file string) ([]*unstructured.Unstructured, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(in, 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// Assets is the folder of kube-apiserver, etcd and kubectl: KUBEBUILDER_ASSETS,
// or else the cache that hack/localcluster builds them into.
func Assets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		cache, err := cacheDir()
		if err != nil {
			return "", err
		}
		version := os.Getenv("K8S_VERSION")
		if version == "" {
			version = defaultKubernetes
		}
		dir = filepath.Join(cache, version, "bin")
	}
	for _, program := range []string{"kube-apiserver", "etcd", "kubectl"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return "", fmt.Errorf("no %s in %s: run `make cluster-build`, or point KUBEBUILDER_ASSETS at a folder that has it", program, dir)
		}
	}
	return dir, nil
}

func cacheDir() (string, error) {
	if dir := os.Getenv("PATHWAYS_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache: %w", err)
	}
	return filepath.Join(dir, "pathways-job"), nil
}

// Root is the top folder of this repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// jobSetCRDs is the folder of JobSet's CRD in the module cache.
func jobSetCRDs(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset")
	cmd.Dir = Root()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module sigs.k8s.io/jobset: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "config", "components", "crd", "bases"), nil
}
