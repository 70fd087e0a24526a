package main

import (
	"cmp"
	"fmt"
	"strings"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Bounds that let the API server tell the cost of the rules on what they
// bound. Those of lists and maps are far above what a pod can have in
// practice; the others are Kubernetes' own.
const (
	maxContainers = 128
	maxEnv        = 2048
	maxSelector   = 128
	maxLabel      = 63
	maxName       = 253
)

// The rules of pods: what a Job's pods cannot have is refused when the job is
// applied, and not later, in the messages of a child Job.
var (
	nodeNameRule = rule{
		field:   "nodeName",
		rule:    `self.nodeName == ""`,
		message: `'"%s" leaves the scheduler out, and the job would restart without end if there is no such node: use nodeSelector, with kubernetes.io/hostname: %s'.format([self.nodeName, self.nodeName])`,
	}
	restartPolicyRule = rule{
		field:   "restartPolicy",
		rule:    `self.restartPolicy in ["", "Never", "OnFailure"]`,
		message: `'"%s" is not possible: the pods of a Job can have Never or OnFailure'.format([self.restartPolicy])`,
	}
	priorityRule = rule{
		field:   "priorityClassName",
		rule:    `self.priorityClassName.matches("^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$")`,
		message: `'"%s" cannot name a PriorityClass: a name has lower case letters, digits, - and ., and begins and ends with a letter or digit'.format([self.priorityClassName])`,
	}
	selectorRule = rule{
		field: "nodeSelector",
		rule:  `self.nodeSelector.all(key, self.nodeSelector[key].matches("` + labelValue + `"))`,
		message: `'%s: no label of a node can have such a value: it has letters, digits, -, _ and ., and begins and ends with a letter or digit'` +
			`.format([self.nodeSelector.map(key, !self.nodeSelector[key].matches("` + labelValue + `"), self.nodeSelector[key])])`,
	}
	uniqueRule = rule{
		field: "initContainers",
		rule:  `!has(self.containers) || self.initContainers.all(i, !self.containers.exists(c, c.name == i.name))`,
		message: `'containers has %s, too: give each container its own name'` +
			`.format([self.initContainers.map(i, self.containers.exists(c, c.name == i.name), i.name)])`,
	}
)

const labelValue = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`

// reservedRule refuses containers of these names in a list.
func reservedRule(list string, names ...string) rule {
	taken := `c.name in ["` + strings.Join(names, `", "`) + `"]`
	return rule{
		field:   list,
		rule:    fmt.Sprintf(`!self.%s.exists(c, %s)`, list, taken),
		message: fmt.Sprintf(`'the operator adds %%s: give yours another name'.format([self.%s.map(c, %s, c.name)])`, list, taken),
	}
}

// imageRule refuses containers without an image, but for one of the operator's.
func imageRule(but string) rule {
	return rule{
		field:   "name",
		path:    ".image",
		rule:    fmt.Sprintf(`has(self.image) && self.image != "" || self.name == "%s"`, but),
		message: `'container "%s" has none'.format([self.name])`,
		reason:  "FieldValueRequired",
	}
}

// rule is a rule in CEL on an object in which a field is set. Its message is
// an expression, too.
type rule struct {
	field, rule, message string
	// path is what the message speaks of, if not the field.
	path string
	// reason of the error, if not that the value is invalid.
	reason string
}

// addTo adds the rule to the schema of the object. It holds on creation only:
// nothing of a pod changes later, and objects that were stored before there
// was the rule must stay writable.
func (r rule) addTo(schema any) {
	v := map[string]any{
		"rule":              fmt.Sprintf("oldSelf.hasValue() || !has(self.%s) || %s", r.field, r.rule),
		"optionalOldSelf":   true,
		"fieldPath":         cmp.Or(r.path, "."+r.field),
		"messageExpression": r.message,
	}
	if r.reason != "" {
		v["reason"] = r.reason
	}
	s := schema.(map[string]any)
	list, _ := s["x-kubernetes-validations"].([]any)
	s["x-kubernetes-validations"] = append(list, v)
}

// embedded is a pod template in the spec.
type embedded struct {
	// owner is the path to the fields of which one is template.
	owner []string
	// noImage names the container that can do without an image.
	noImage string
	// reserved are names that containers of these lists cannot have.
	reserved []reserved
}

type reserved struct {
	list  string
	names []string
}

var templates = []embedded{
	{
		owner: []string{"controller", "properties"},
		reserved: []reserved{
			{"containers", []string{v1.ContainerResourceManager, v1.ContainerProxy}},
			{"initContainers", []string{v1.ContainerResourceManager, v1.ContainerProxy}},
		},
	},
	{
		owner:    []string{"workers", "items", "properties"},
		noImage:  v1.ContainerWorker,
		reserved: []reserved{{"initContainers", []string{v1.ContainerWorker}}},
	},
}

// finish takes out the descriptions, and puts in bounds and rules.
func (t embedded) finish(template map[string]any) {
	description := template["description"]
	walk(template, func(s map[string]any) { delete(s, "description") })
	template["description"] = description
	dropDefaults(template)

	props := template["properties"].(map[string]any)
	props["metadata"].(map[string]any)["description"] = "metadata of the pods: labels and annotations. See kubectl explain pod.metadata."
	spec := props["spec"].(map[string]any)
	spec["description"] = "spec of the pods. See kubectl explain pod.spec."
	// Go programs print creationTimestamp: null in a template.
	at(props, "metadata", "properties").(map[string]any)["creationTimestamp"] =
		map[string]any{"type": "string", "format": "date-time"}

	// A template may do without containers of its own: those of Pathways are
	// added. Without the requirement, an explicit null means the same.
	delete(spec, "required")

	fields := spec["properties"].(map[string]any)
	for _, list := range []string{"containers", "initContainers"} {
		containers := fields[list].(map[string]any)
		containers["maxItems"] = maxContainers
		item := at(containers, "items", "properties")
		at(item, "env").(map[string]any)["maxItems"] = maxEnv
		at(item, "name").(map[string]any)["maxLength"] = maxLabel
	}
	imageRule(t.noImage).addTo(at(fields, "containers", "items"))
	imageRule("").addTo(at(fields, "initContainers", "items"))
	fields["nodeName"].(map[string]any)["maxLength"] = maxName
	for _, r := range []rule{nodeNameRule, restartPolicyRule, uniqueRule} {
		r.addTo(spec)
	}
	for _, r := range t.reserved {
		reservedRule(r.list, r.names...).addTo(spec)
	}
	finishPlacement(spec)
}

// finishPlacement bounds the two fields of a pod that workers[] has, too.
func finishPlacement(schema any) {
	fields := at(schema, "properties")
	at(fields, "priorityClassName").(map[string]any)["maxLength"] = maxName
	selector := at(fields, "nodeSelector").(map[string]any)
	selector["maxProperties"] = maxSelector
	selector["additionalProperties"].(map[string]any)["maxLength"] = maxLabel
	priorityRule.addTo(schema)
	selectorRule.addTo(schema)
}
