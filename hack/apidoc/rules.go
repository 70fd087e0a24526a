package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

var (
	// formatted is the text of a message expression like '…'.format([…]).
	formatted = regexp.MustCompile(`^'(.*?)'\.format\(`)
	verb      = regexp.MustCompile(`%[sd]`)
)

// rules are the messages of the CEL rules of an object, and of those of its
// fields that have no section of their own.
func rules(out *strings.Builder, schema apiextensionsv1.JSONSchemaProps) {
	messages := messagesOf("", schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if field := schema.Properties[name]; !hasSection(name, field) {
			walk(name, field, func(path string, s apiextensionsv1.JSONSchemaProps) {
				messages = append(messages, messagesOf(path, s)...)
			})
		}
	}
	if len(messages) == 0 {
		return
	}
	fmt.Fprintf(out, "\nRefused, with these messages:\n\n%s\n", strings.Join(messages, "\n"))
}

// messagesOf are the messages of a schema's own rules, with … for each value.
func messagesOf(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	var list []string
	for _, r := range schema.XValidations {
		message := r.Message
		if m := formatted.FindStringSubmatch(r.MessageExpression); m != nil {
			message = verb.ReplaceAllString(strings.ReplaceAll(m[1], `\"`, `"`), "…")
		}
		list = append(list, fmt.Sprintf("- `%s`: %s", strings.TrimPrefix(path+r.FieldPath, "."), oneLine(message)))
	}
	return list
}

// walk calls visit for a schema and those in it, in the order of their names.
func walk(path string, schema apiextensionsv1.JSONSchemaProps, visit func(string, apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		walk(path+"."+name, schema.Properties[name], visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(path+"[]", *schema.Items.Schema, visit)
	}
}
