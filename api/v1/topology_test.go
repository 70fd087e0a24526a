package v1_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"pathways.domain/pathways-job/internal/tpu"
)

// rules evaluates the CRD's rules on a worker, as the API server does, and
// returns the messages of those that it breaks.
func rules(t testing.TB) func(machineType, topology string) string {
	t.Helper()
	spec := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	worker := spec.Properties["workers"].Items.Schema
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(worker, internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	validator := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	return func(machineType, topology string) string {
		object := map[string]any{"type": machineType, "topology": topology, "numSlices": int64(1), "maxSliceRestarts": int64(1)}
		errs, _ := validator.Validate(context.Background(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
		if len(errs) == 0 {
			return ""
		}
		return errs.ToAggregate().Error()
	}
}

// hint is a topology that a message says would be right.
var hint = regexp.MustCompile(`(?:first, |write |nearest |largest |with topology |like )([0-9]+x[0-9x]+)`)

// checkAgreement fails if the CRD's rules and package tpu differ on a
// topology, if more than one rule speaks, or if a message proposes what is not
// valid itself.
func checkAgreement(t *testing.T, broken string, machineType tpu.MachineType, topology string) {
	t.Helper()
	valid := func(s string) error {
		parsed, err := tpu.ParseTopology(s)
		if err != nil {
			return err
		}
		return machineType.Check(parsed)
	}
	err := valid(topology)
	if (err == nil) != (broken == "") {
		t.Errorf("%s %q: the CRD says %q, package tpu says %v", machineType, topology, broken, err)
	}
	if strings.Count(broken, "Invalid value") > 1 {
		t.Errorf("%s %q: more than one message: %s", machineType, topology, broken)
	}
	if found := hint.FindStringSubmatch(broken); found != nil && !strings.Contains(broken, "is no topology") {
		if err := valid(found[1]); err != nil {
			t.Errorf("%s %q: the CRD says %q, but: %v", machineType, topology, broken, err)
		}
	}
}

func TestTopologiesAgreeWithPackageTPU(t *testing.T) {
	sides := []int{1, 2, 3, 4, 6, 8, 12, 16, 20, 28, 32, 256, 260}
	topologies := map[int][]string{2: {"2x2x1", "4x4x4"}, 3: {"2x2", "4x4"}}
	for _, a := range sides {
		for _, b := range sides {
			topologies[2] = append(topologies[2], fmt.Sprintf("%dx%d", a, b))
			for _, c := range sides {
				topologies[3] = append(topologies[3], fmt.Sprintf("%dx%dx%d", a, b, c))
			}
		}
	}
	broken := rules(t)
	for _, machineType := range tpu.All() {
		for _, topology := range topologies[machineType.Dimensions()] {
			checkAgreement(t, broken(machineType.String(), topology), machineType, topology)
		}
		for _, topology := range machineType.Topologies() {
			checkAgreement(t, broken(machineType.String(), topology.String()), machineType, topology.String())
		}
	}
}

func FuzzTopology(f *testing.F) {
	for _, seed := range []string{"", "x", "4", "4x", "x4", "4x4", "4X4", "16*16", " 4x4", "4x4 ", "04x4", "0x0x0", "-4x4", "4x4x4x4",
		"999x999x999", "1000x1x1", "4x4x4", "٤x٤", "4x4\n", "1e1x4", "+4x4", "8x4x4", "1x2x2"} {
		f.Add(seed)
	}
	broken := rules(f)
	f.Fuzz(func(t *testing.T, topology string) {
		if len(topology) > 32 {
			t.Skip("longer than the schema lets through")
		}
		for _, machineType := range tpu.All() {
			checkAgreement(t, broken(machineType.String(), topology), machineType, topology)
		}
	})
}
