package kwok

import (
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// unmanagedIP is the address that KWOK takes for the node of a pod where it does not play that node; it is one
// that no node has (RFC 5737). A stage whose delay had begun when the host died would be played all the same:
// by this address the templates know, and refuse.
const unmanagedIP = "192.0.2.1"

// stage is a step in the life of a pod or node: where when holds, and after delay, the status is patched by
// template, or the object is deleted.
type stage struct {
	name     string
	kind     string
	when     string // a jq expression that gives true or false
	delay    string // a jq expression that gives a duration or a point in time; none is at once
	template string
	delete   bool
}

// Config returns the configuration file of KWOK: its options and stages. The kubelets' lease has that duration.
func Config(lease time.Duration) ([]byte, error) {
	docs := []any{
		map[string]any{
			"apiVersion": "config.kwok.x-k8s.io/v1alpha1",
			"kind":       "KwokConfiguration",
			"options": map[string]any{
				"manageNodesWithLabelSelector": Label + "=" + LabelValue,
				"nodeIP":                       unmanagedIP,
				"cidr":                         "10.128.0.0/10",
				"nodeLeaseDurationSeconds":     int(lease.Seconds()),
				"podPlayStageParallelism":      16,
				"nodePlayStageParallelism":     8,
				"nodeLeaseParallelism":         8,
				"podsOnNodeSyncParallelism":    8,
			},
		},
	}
	for _, s := range append(podStages(), nodeStages()...) {
		docs = append(docs, s.object())
	}
	var out strings.Builder
	for _, d := range docs {
		text, err := yaml.Marshal(d)
		if err != nil {
			return nil, fmt.Errorf("writing KWOK's configuration: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return []byte(out.String()), nil
}

// object is the stage as KWOK reads it.
func (s stage) object() map[string]any {
	spec := map[string]any{
		"resourceRef": map[string]any{"apiGroup": "v1", "kind": s.kind},
		"selector": map[string]any{
			"matchExpressions": []any{
				map[string]any{"key": jqFunctions + s.when, "operator": "In", "values": []string{"true"}},
			},
		},
	}
	if s.delay != "" {
		spec["delay"] = map[string]any{
			"durationMilliseconds": 0,
			"durationFrom":         map[string]any{"expressionFrom": jqFunctions + s.delay},
		}
	}
	if s.delete {
		spec["steps"] = []any{map[string]any{"delete": true}}
	} else {
		spec["steps"] = []any{map[string]any{"patch": map[string]any{
			"subresource": "status",
			"root":        "status",
			"template":    s.template,
		}}}
	}
	return map[string]any{
		"apiVersion": "kwok.x-k8s.io/v1alpha1",
		"kind":       "Stage",
		"metadata":   map[string]any{"name": s.name},
		"spec":       spec,
	}
}
