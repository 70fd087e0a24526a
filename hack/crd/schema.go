package main

import (
	"errors"
	"fmt"
	"slices"
)

// Finish changes a CustomResourceDefinition of ours in place.
func Finish(crd map[string]any) error {
	versions, ok := at(crd, "spec", "versions").([]any)
	if !ok {
		return errors.New("no spec.versions")
	}
	for _, v := range versions {
		root, ok := at(v, "schema", "openAPIV3Schema").(map[string]any)
		if !ok {
			return errors.New("a version without a schema")
		}
		if err := finishSchema(root); err != nil {
			return err
		}
	}
	return nil
}

func finishSchema(root map[string]any) error {
	props := root["properties"].(map[string]any)
	// Named so that a rule on it can say where it looked.
	props["metadata"] = map[string]any{
		"type":       "object",
		"properties": map[string]any{"name": map[string]any{"type": "string"}},
	}
	spec := at(props, "spec", "properties")
	for _, t := range templates {
		owner, _ := at(spec, t.owner...).(map[string]any)
		template, ok := owner["template"].(map[string]any)
		if !ok {
			return fmt.Errorf("no schema of a template at %v", t.owner)
		}
		t.finish(template)
	}
	finishPlacement(at(spec, "workers", "items"))
	for _, path := range [][]string{{"customComponents", "items", "properties", "customEnv"}, {"customComponents", "items", "properties", "resources"}} {
		s, ok := at(spec, path...).(map[string]any)
		if !ok {
			return fmt.Errorf("no schema at %v", path)
		}
		dropDefaults(s)
	}
	return nil
}

// dropDefaults removes the defaults of core types, but for those that the keys
// of a list need: whatever a user leaves out stays visibly unset.
func dropDefaults(schema map[string]any) {
	walk(schema, func(s map[string]any) {
		keys, _ := s["x-kubernetes-list-map-keys"].([]any)
		items, _ := at(s, "items", "properties").(map[string]any)
		for name, prop := range items {
			if p := prop.(map[string]any); p["default"] != nil && slices.Contains(keys, any(name)) {
				p["x-keep"] = true
			}
		}
	})
	walk(schema, func(s map[string]any) {
		if s["x-keep"] == nil {
			delete(s, "default")
		}
		delete(s, "x-keep")
	})
}

// walk calls visit for a schema and every schema in it, outermost first.
func walk(schema map[string]any, visit func(map[string]any)) {
	visit(schema)
	if props, ok := schema["properties"].(map[string]any); ok {
		for _, p := range props {
			walk(p.(map[string]any), visit)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if s, ok := schema[key].(map[string]any); ok {
			walk(s, visit)
		}
	}
}

// at follows keys through nested maps; nil if one is missing.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}
