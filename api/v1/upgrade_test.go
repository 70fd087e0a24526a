package v1_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

// TestUpgrade stores objects while the CRD has no rules, then gives it ours.
// Whatever rule an older object breaks, it can still be observed, annotated,
// suspended and deleted.
func TestUpgrade(t *testing.T) {
	tests := map[string]struct{ name, spec string }{
		"name too long":         {strings.Repeat("n", 47), "{controller: {}, " + v5e + "}"},
		"name with a dot":       {"2nd.train", "{controller: {}, " + v5e + "}"},
		"name, no main, order":  {strings.Repeat("m", 60), "{controller: {template: {spec: {containers: [{name: a}, {name: b}]}}}, workers: [{type: ct5p-hightpu-4t, topology: 8x4x4, numSlices: 1}]}"},
		"topology":              {"topology", worker("ct5lp-hightpu-4t", "16*16")},
		"topology too long":     {"topology-long", worker("ct5lp-hightpu-4t", strings.Repeat("4x", 40))},
		"topology of one VM":    {"topology-one", worker("ct5lp-hightpu-8t", "4x4")},
		"topology, sides":       {"topology-sides", worker("ct5lp-hightpu-4t", "2x2x2")},
		"topology, order":       {"topology-order", worker("ct5lp-hightpu-4t", "4x2")},
		"topology, shape":       {"topology-shape", worker("ct5lp-hightpu-4t", "2x8")},
		"topology, small":       {"topology-small", worker("ct5p-hightpu-4t", "1x2x2")},
		"topology, cubes":       {"topology-cubes", worker("ct5p-hightpu-4t", "64x64x64")},
		"topology, multiples":   {"topology-multiples", worker("ct5p-hightpu-4t", "3x4x4")},
		"type":                  {"type", worker("ct7-mega-4t", "4x4")},
		"no slices":             {"slices", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 0}]}"},
		"no workers":            {"no-workers", "{controller: {}, workers: []}"},
		"two workers":           {"two-workers", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 1}, {type: ct6e-standard-4t, topology: 4x4, numSlices: 1}]}"},
		"main container":        {"main-container", "{controller: {template: {spec: {containers: [{name: a}, {name: b}]}}}, " + v5e + "}"},
		"sidecar without image": {"sidecar", "{controller: {}, customComponents: [{componentType: colocated_python_sidecar}], " + v5e + "}"},
		"component":             {"component", "{controller: {}, customComponents: [{componentType: gcsfuse}], " + v5e + "}"},
		"component twice":       {"component-twice", "{controller: {}, customComponents: [{componentType: worker}, {componentType: worker}], " + v5e + "}"},
		"five components": {"component-five", "{controller: {}, customComponents: [{componentType: worker}, {componentType: proxy_server}, " +
			"{componentType: pathways_server}, {componentType: a}, {componentType: b}], " + v5e + "}"},
		"variable twice":           {"variable", "{controller: {}, customComponents: [{componentType: worker, customEnv: [{name: A}, {name: A}]}], " + v5e + "}"},
		"negative restarts":        {"restarts", "{maxRestarts: -1, controller: {}, " + v5e + "}"},
		"negative elastic":         {"elastic", "{controller: {elasticSlices: -1}, " + v5e + "}"},
		"negative budget":          {"budget", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 1, maxSliceRestarts: -1}]}"},
		"negative grace":           {"grace", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 1, terminationGracePeriodSeconds: -1}]}"},
		"negative ttl":             {"ttl", "{ttlSecondsAfterFinished: -1, controller: {}, " + v5e + "}"},
		"deployment mode":          {"mode", "{controller: {deploymentMode: other}, " + v5e + "}"},
		"managed by nobody":        {"managed", "{managedBy: nobody, controller: {}, " + v5e + "}"},
		"version too long":         {"version", "{pathwaysVersion: " + strings.Repeat("v", 300) + ", controller: {}, " + v5e + "}"},
		"directory too long":       {"directory", "{pathwaysDir: gs://" + strings.Repeat("d", 2100) + ", controller: {}, " + v5e + "}"},
		"priority too long":        {"priority", "{controller: {}, workers: [{type: ct5p-hightpu-4t, topology: 4x4x4, numSlices: 1, priorityClassName: " + strings.Repeat("p", 300) + "}]}"},
		"version of no tag":        {"version-tag", "{pathwaysVersion: 'gcr.io/x:y', controller: {}, " + v5e + "}"},
		"node by name":             {"node", head("nodeName: node-7, " + main)},
		"node name too long":       {"node-long", head("nodeName: " + strings.Repeat("n", 300) + ", " + main)},
		"restartPolicy":            {"policy", head("restartPolicy: Always, " + main)},
		"container and init":       {"container-init", head(main + ", initContainers: [{name: main, image: a}]")},
		"container of ours":        {"container-ours", head("containers: [{name: main, image: a}, {name: pathways-rm, image: b}]")},
		"container too long":       {"container-long", head("containers: [{name: " + strings.Repeat("c", 64) + ", image: a}]")},
		"container, no image":      {"container-image", head("containers: [{name: main}]")},
		"too many init containers": {"container-many", head(main + ", initContainers: [" + strings.TrimSuffix(strings.Repeat("{name: a, image: a}, ", 129), ", ") + "]")},
		"node label":               {"label", workers("nodeSelector: {a: c d}")},
		"node label too long":      {"label-long", workers("nodeSelector: {a: " + strings.Repeat("c", 64) + "}")},
		"node label, head":         {"label-head", head("nodeSelector: {a: c d}, " + main)},
		"priority":                 {"priority-class", workers("priorityClassName: No Pe")},
		"priority, head":           {"priority-head", head("priorityClassName: No Pe, " + main)},
		"workers of our name":      {"workers-ours", workers("template: {spec: {initContainers: [{name: pathways-worker, image: a}]}}")},
		"workers, no image":        {"workers-image", workers("template: {spec: {containers: [{name: logger}]}}")},
		"sidecar of our name": {"sidecar-ours", "{controller: {}, customComponents: [{componentType: colocated_python_sidecar, image: i}], workers: [{type: ct5lp-hightpu-4t, topology: 4x4, numSlices: 1, " +
			"template: {spec: {containers: [{name: colocated-python-sidecar, image: i}]}}}]}"},
		"port":               {"port", component("componentType: worker, customFlags: [--server_port=abc]")},
		"flag too long":      {"flag-long", component("componentType: worker, customFlags: [--" + strings.Repeat("f", 3000) + "]")},
		"too many flags":     {"flag-many", component("componentType: worker, customFlags: [" + strings.TrimSuffix(strings.Repeat("--a, ", 300), ", ") + "]")},
		"main name too long": {"main-name", "{controller: {mainContainerName: " + strings.Repeat("m", 64) + "}, " + v5e + "}"},
	}
	ctx := t.Context()
	env, err := envtest.Start(ctx, envtest.Options{NoCRD: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(env.Config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}

	ours := readCRD(t)
	lax := ours.DeepCopy()
	lax.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: new(true),
	}
	if err := c.Create(ctx, lax); err != nil {
		t.Fatal(err)
	}
	for _, tc := range tests {
		o := manifest(t, tc.name, tc.spec)
		until(t, "the API server serves the CRD", func() (bool, error) {
			err := c.Create(ctx, o)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
	}
	until(t, "the CRD is replaced", func() (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(lax), lax); err != nil {
			return false, err
		}
		lax.Spec = ours.Spec
		err := c.Update(ctx, lax)
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	until(t, "the CRD's rules are in force", func() (bool, error) {
		err := c.Create(ctx, manifest(t, strings.Repeat("z", 40), "{controller: {}, "+v5e+"}"), client.DryRunAll)
		return apierrors.IsInvalid(err), nil
	})

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(ctx, manifest(t, tc.name, tc.spec), client.DryRunAll); !apierrors.IsInvalid(err) && !apierrors.IsAlreadyExists(err) {
				t.Errorf("a new object like it: got %v, want it refused", err)
			}
			o := manifest(t, tc.name, "{}")
			merge := func(patch string) error {
				return c.Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
			}
			if err := merge(`{"metadata":{"annotations":{"a":"b"}}}`); err != nil {
				t.Errorf("annotation: %s", causes(err))
			}
			status := manifest(t, tc.name, "")
			delete(status.Object, "spec")
			status.Object["status"] = map[string]any{"state": "Failed"}
			if err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("test"), client.ForceOwnership); err != nil {
				t.Errorf("status: %s", causes(err))
			}
			if err := c.Status().Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"terminalState":"Failed"}}`))); err != nil {
				t.Errorf("status by merge patch: %s", causes(err))
			}
			if err := merge(`{"spec":{"suspend":true}}`); err != nil {
				t.Errorf("suspend: %s", causes(err))
			}
			if err := c.Delete(ctx, o.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
				t.Errorf("foreground deletion: %s", causes(err))
			}
			// What the garbage collector does when all dependents are gone.
			if err := merge(`{"metadata":{"finalizers":null}}`); err != nil {
				t.Errorf("the end of the foreground deletion: %s", causes(err))
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				t.Errorf("after deletion: got %v, want not found", err)
			}
		})
	}
}

// until polls with a deadline.
func until(t *testing.T, what string, done func() (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return done() })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

const crdFile = "config/crd/bases/pathways-job.pathways.domain_pathwaysjobs.yaml"

// readCRD reads the generated CRD.
func readCRD(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	objects, err := envtest.Objects(filepath.Join(envtest.Root(), crdFile))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}
