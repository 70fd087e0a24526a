// Command apidoc writes the API reference from the CustomResourceDefinition:
//
//	go run ./hack/apidoc CRD.yaml >docs/reference/api.md
//
// It takes what `kubectl explain` would show, so the two never differ.
// Embedded pod templates, whose descriptions the CRD leaves out, are one line.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apidoc CRD.yaml")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func run(file string, out io.Writer) error {
	in, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(in, crd); err != nil {
		return fmt.Errorf("parsing %s: %w", file, err)
	}
	var text strings.Builder
	for _, v := range crd.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return fmt.Errorf("%s: version %s has no schema", file, v.Name)
		}
		document(&text, crd, v)
	}
	_, err = io.WriteString(out, text.String())
	return err
}

func document(out *strings.Builder, crd *apiextensionsv1.CustomResourceDefinition, v apiextensionsv1.CustomResourceDefinitionVersion) {
	root := v.Schema.OpenAPIV3Schema
	fmt.Fprintf(out, "# %s, %s/%s\n\n", crd.Spec.Names.Kind, crd.Spec.Group, v.Name)
	fmt.Fprintf(out, "<!-- Written by hack/apidoc from the CRD: make generate -->\n\n%s\n\n", oneLine(root.Description))
	fmt.Fprintf(out, "`kubectl explain %s.spec` shows the same. Short names: %s. Fields with * are required.\n", crd.Spec.Names.Singular, strings.Join(crd.Spec.Names.ShortNames, ", "))
	rules(out, *root)
	for _, part := range []string{"spec", "status"} {
		schema, ok := root.Properties[part]
		if !ok {
			continue
		}
		section(out, part, schema)
	}
}

// section is the table of one object's fields, and the sections of the objects
// in it.
func section(out *strings.Builder, path string, schema apiextensionsv1.JSONSchemaProps) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n| field | type | |\n|---|---|---|\n", path, oneLine(schema.Description))
	type child struct {
		path   string
		schema apiextensionsv1.JSONSchemaProps
	}
	var children []child
	for _, name := range slices.SortedFunc(maps.Keys(schema.Properties), byNeed(schema.Required)) {
		field := schema.Properties[name]
		fmt.Fprintf(out, "| `%s`%s | %s | %s |\n", name, mark(slices.Contains(schema.Required, name)), typeOf(field), facts(field))
		if !hasSection(name, field) {
			continue
		}
		if field.Type == "object" {
			children = append(children, child{path + "." + name, field})
		} else {
			item := *field.Items.Schema
			item.Description = cmp.Or(item.Description, field.Description)
			children = append(children, child{path + "." + name + "[]", item})
		}
	}
	rules(out, schema)
	for _, c := range children {
		section(out, c.path, c.schema)
	}
}

// byNeed sorts required fields first, then by name.
func byNeed(required []string) func(a, b string) int {
	return func(a, b string) int {
		if x, y := slices.Contains(required, a), slices.Contains(required, b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	}
}

// hasSection says whether a field holds objects of ours, which get a section.
// Those of Kubernetes are documented there.
func hasSection(name string, field apiextensionsv1.JSONSchemaProps) bool {
	switch name {
	case "template", "resources", "customEnv", "conditions":
		return false
	}
	if field.Type == "array" && field.Items != nil && field.Items.Schema != nil {
		field = *field.Items.Schema
	}
	return len(field.Properties) > 0
}

func mark(required bool) string {
	if required {
		return " *"
	}
	return ""
}

func typeOf(field apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.Type == "array" && field.Items != nil && field.Items.Schema != nil:
		return "list of " + typeOf(*field.Items.Schema)
	case field.Type == "object" && field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*field.AdditionalProperties.Schema)
	case field.Format != "":
		return field.Format
	}
	return field.Type
}

// facts are a field's description and what its schema demands.
func facts(field apiextensionsv1.JSONSchemaProps) string {
	parts := []string{oneLine(field.Description)}
	if len(field.Enum) > 0 {
		values := make([]string, 0, len(field.Enum))
		for _, v := range field.Enum {
			values = append(values, "`"+plain(v.Raw)+"`")
		}
		parts = append(parts, "One of "+strings.Join(values, ", ")+".")
	}
	if field.Default != nil {
		parts = append(parts, "Set by default: `"+plain(field.Default.Raw)+"`.")
	}
	if field.Minimum != nil {
		parts = append(parts, fmt.Sprintf("At least %v.", *field.Minimum))
	}
	if field.Maximum != nil {
		parts = append(parts, fmt.Sprintf("At most %v.", *field.Maximum))
	}
	if field.MaxItems != nil {
		parts = append(parts, fmt.Sprintf("At most %d entries.", *field.MaxItems))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// plain is a JSON value as people write it.
func plain(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// oneLine fits a description into a table.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(s)
}
