package v1_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// manifest is a PathwaysJob of that name and spec, in YAML.
func manifest(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(spec), &o.Object); err != nil {
		t.Fatalf("parsing %s: %v", spec, err)
	}
	o.Object = map[string]any{"spec": o.Object}
	o.SetAPIVersion("pathways-job.pathways.domain/v1")
	o.SetKind("PathwaysJob")
	o.SetName(name)
	o.SetNamespace("default")
	return o
}

// worker is a spec of a headless job whose worker has that type and topology.
func worker(machineType, topology string) string {
	return "{controller: {}, workers: [{type: " + machineType + ", topology: '" + topology + "', numSlices: 1}]}"
}

// causes are the messages of an Invalid error, one per line, as kubectl
// prints them.
func causes(err error) string {
	if err == nil {
		return ""
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return err.Error()
	}
	var lines []string
	for _, c := range status.Status().Details.Causes {
		lines = append(lines, c.Field+": "+c.Message)
	}
	return strings.Join(lines, "\n")
}

func TestTopologyMessages(t *testing.T) {
	tests := map[string]struct{ machineType, topology, want string }{
		"star": {"ct5lp-hightpu-4t", "16*16", `spec.workers[0].topology: Invalid value: "16*16" is no topology: write sides joined by x, like 4x4 for ct5lp-hightpu-4t`},
	}
	c := newClient(t, &recorder{})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := manifest(t, "topology", worker(tc.machineType, tc.topology))
			err := c.Create(context.Background(), o, client.DryRunAll)
			if diff := cmp.Diff(tc.want, causes(err)); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}
