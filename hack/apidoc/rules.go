package main

import (
	"fmt"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

var (
	// formatted is the text of a message expression like '…'.format([…]).
	formatted = regexp.MustCompile(`^'(.*?)'\.format\(`)
	verb      = regexp.MustCompile(`%[sd]`)
)

// rules are the messages of an object's CEL rules, with … for each value.
func rules(out *strings.Builder, schema apiextensionsv1.JSONSchemaProps) {
	if len(schema.XValidations) == 0 {
		return
	}
	fmt.Fprintf(out, "\nRefused, with these messages:\n\n")
	for _, r := range schema.XValidations {
		message := r.Message
		if m := formatted.FindStringSubmatch(r.MessageExpression); m != nil {
			message = verb.ReplaceAllString(strings.ReplaceAll(m[1], `\"`, `"`), "…")
		}
		fmt.Fprintf(out, "- `%s`: %s\n", strings.TrimPrefix(r.FieldPath, "."), oneLine(message))
	}
}
