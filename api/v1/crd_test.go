package v1_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

// kubectl runs kubectl as an administrator and returns all that it prints.
func kubectl(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	assets, err := envtest.Assets()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), append(args, "--kubeconfig", file, "--cache-dir", t.TempDir())...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPlainApplyOfTheCRD(t *testing.T) {
	out, err := kubectl(t, "", "apply", "-f", filepath.Join(envtest.Root(), crdFile))
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	out, err = kubectl(t, "", "get", "crd", "pathwaysjobs.pathways-job.pathways.domain",
		"-o", `jsonpath={.metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration}`)
	if err != nil {
		t.Fatalf("kubectl get: %v\n%s", err, out)
	}
	const limit = 262144
	t.Logf("the annotation takes %d of %d bytes", len(out), limit)
	if len(out) == 0 || len(out) > limit*3/4 {
		t.Errorf("the annotation takes %d bytes, want some and at most three quarters of %d", len(out), limit)
	}
}

// walkSchema calls visit for each field below a schema, but not for what is
// inside the fields that skip names.
func walkSchema(path string, s apiextensionsv1.JSONSchemaProps, visit func(string, apiextensionsv1.JSONSchemaProps) bool) {
	for name, p := range s.Properties {
		if visit(path+"."+name, p) {
			walkSchema(path+"."+name, p, visit)
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		walkSchema(path+"[]", *s.Items.Schema, visit)
	}
}

func TestOnlyThreeDefaults(t *testing.T) {
	var got []string
	walkSchema("", *readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema, func(path string, p apiextensionsv1.JSONSchemaProps) bool {
		// These are keys of their lists, which must have a value.
		key := strings.HasSuffix(path, "ports[].protocol") || strings.HasSuffix(path, "imagePullSecrets[].name")
		if p.Default != nil && !key {
			got = append(got, path)
		}
		return true
	})
	slices.Sort(got)
	want := []string{".spec.controller.deploymentMode", ".spec.controller.mainContainerName", ".spec.workers[].maxSliceRestarts"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields with a default (-want +got):\n%s", diff)
	}
}

func TestStructuralTemplates(t *testing.T) {
	walkSchema("", *readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema, func(path string, p apiextensionsv1.JSONSchemaProps) bool {
		if p.XPreserveUnknownFields != nil || p.XEmbeddedResource {
			t.Errorf("%s keeps unknown fields", path)
		}
		return true
	})
}

// TestExplain reads what the API server publishes, which is what kubectl
// explain prints.
func TestExplain(t *testing.T) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := d.RESTClient().Get().AbsPath("/openapi/v3/apis/pathways-job.pathways.domain/v1").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]apiextensionsv1.JSONSchemaProps
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	job := doc.Components.Schemas["domain.pathways.pathways-job.v1.PathwaysJob"]
	if job.Description == "" {
		t.Error("PathwaysJob has no description")
	}
	fields := 0
	for _, part := range []string{"spec", "status"} {
		walkSchema("."+part, job.Properties[part], func(path string, p apiextensionsv1.JSONSchemaProps) bool {
			fields++
			if p.Description == "" {
				t.Errorf("%s has no description", path)
			}
			return !strings.HasSuffix(path, ".template.spec") && !strings.HasSuffix(path, ".template.metadata")
		})
	}
	if fields < 60 {
		t.Errorf("only %d fields seen", fields)
	}
	out, err := kubectl(t, "", "explain", "pathwaysjob.spec.workers.topology")
	if err != nil || !strings.Contains(out, "shape of one slice") {
		t.Errorf("kubectl explain: %v\n%s", err, out)
	}
}

func TestColumns(t *testing.T) {
	job := "{apiVersion: pathways-job.pathways.domain/v1, kind: PathwaysJob, metadata: {name: columns}, spec: {controller: {}, " + v5e + "}}"
	if out, err := kubectl(t, job, "apply", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	tests := map[string]struct {
		args []string
		want []string
	}{
		"narrow": {nil, []string{"NAME", "STATE", "SLICES", "RESTARTS", "AGE"}},
		"wide": {[]string{"-o", "wide"}, []string{"NAME", "STATE", "SLICES", "RESTARTS", "AGE", "TYPE", "TOPOLOGY", "HEAD-NODE",
			"TERMINALSTATE", "COMPLETED", "FAILED", "SUSPENDED"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := kubectl(t, "", append([]string{"get", "pwj", "columns"}, tc.args...)...)
			if err != nil {
				t.Fatalf("kubectl get: %v\n%s", err, out)
			}
			head, _, _ := strings.Cut(out, "\n")
			if diff := cmp.Diff(tc.want, strings.Fields(head)); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVendorSample applies the sample of the vendor's introduction: its
// command stands beside containers instead of in the container.
func TestVendorSample(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "vendor-sample.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	printed := string(raw)
	filled := strings.NewReplacer("pathways-USER", "pathways-user", "MAX_RESTARTS", "1", "JAX_VERSION", "0.5.3",
		"$(TPU_MACHINE_TYPE)", "ct6e-standard-4t", "$(TOPOLOGY)", "4x4", "$(WORKLOAD_NODEPOOL_COUNT)", "2",
		"ELASTIC_SLICES", "1", "BUCKET_NAME", "bucket").Replace(printed)
	head, command, found := strings.Cut(filled, "        command:\n")
	if !found {
		t.Fatal("no command in the sample")
	}
	moved := head + "          command:\n" + command
	const unknown = `unknown field "spec.controller.template.spec.command"`
	tests := map[string]struct{ manifest, want string }{
		"as printed":                        {printed, unknown},
		"with values":                       {filled, unknown},
		"with values and the command moved": {moved, "created (server dry run)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := kubectl(t, tc.manifest, "apply", "--dry-run=server", "-f", "-")
			if !strings.Contains(out, tc.want) || (err == nil) != (name == "with values and the command moved") {
				t.Errorf("kubectl apply: %v\n%s\nwant %s", err, out, tc.want)
			}
			t.Log(out)
		})
	}
}
