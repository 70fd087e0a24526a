package render_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// crd does in this process what the API server does with an object of a
// CustomResourceDefinition: defaults, pruning, schema, list keys and CEL.
type crd struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func readCRD(path string) (*crd, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(definition.Spec.Versions[0].Schema, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &crd{structural: structural, schema: validator, rules: cel.NewValidator(structural, true, math.MaxInt64)}, nil
}

// admit fills defaults into the object and returns what is wrong with it;
// unknown fields are.
func (c *crd) admit(object map[string]any) error {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	defaulting.Default(object, c.structural)
	unknown := pruning.PruneWithOptions(object, c.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	var errs field.ErrorList
	for _, path := range unknown {
		errs = append(errs, field.Invalid(field.NewPath(path), nil, "unknown field"))
	}
	errs = append(errs, validation.ValidateCustomResource(nil, object, c.schema)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	violations, _ := c.rules.Validate(context.Background(), nil, c.structural, object, nil, math.MaxInt64)
	return append(errs, violations...).ToAggregate()
}

// admitInto is admit for a typed object, which gets the defaults.
func (c *crd) admitInto(object any) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	if err := c.admit(raw); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(raw, object)
}

var (
	ourCRD = sync.OnceValues(func() (*crd, error) {
		return readCRD(filepath.Join("..", "..", "config", "crd", "bases", "pathways-job.pathways.domain_pathwaysjobs.yaml"))
	})
	jobSetCRD = sync.OnceValues(func() (*crd, error) {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset").Output()
		if err != nil {
			return nil, fmt.Errorf("finding the module of JobSet: %w", err)
		}
		return readCRD(filepath.Join(strings.TrimSpace(string(dir)), "config", "components", "crd", "bases", "jobset.x-k8s.io_jobsets.yaml"))
	})
)

// must returns the value of a call that must not fail: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
