package render

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// What is checked here is refused at apply time, too, as far as the CRD can
// tell; but an object may be older than its rules.

// tag is what an image tag can be.
var tag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

func checkVersion(version string) error {
	if version != "" && !tag.MatchString(version) {
		return refuse(ReasonInvalidComponent, "spec.pathwaysVersion %q is no image tag, like jax-0.5.3; other images are set in customComponents", version)
	}
	return nil
}

// operators are the names of the operator's containers in a pod.
type operators struct {
	// containers and init are those that the user's lists cannot have.
	containers, init []string
	// merged is the one that may be the user's, too, and needs no image.
	merged string
}

// checkTemplate refuses what no Job can run, and container names that are
// ours.
func checkTemplate(path string, template corev1.PodTemplateSpec, ours operators) error {
	pod := template.Spec
	if pod.NodeName != "" {
		return refuse(ReasonInvalidTemplate, "%s.spec.nodeName is %s, which leaves the scheduler out: use nodeSelector, with %s: %[2]s", path, pod.NodeName, labelHostname)
	}
	switch pod.RestartPolicy {
	case "", corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
	default:
		return refuse(ReasonInvalidTemplate, "%s.spec.restartPolicy is %s: a Job's pods can have Never or OnFailure", path, pod.RestartPolicy)
	}
	if err := checkContainers(path, pod, ours); err != nil {
		return err
	}
	if err := checkLabels(path+".metadata.labels", template.Labels); err != nil {
		return err
	}
	if err := checkOwned(path+".metadata.labels", template.Labels); err != nil {
		return err
	}
	return checkPlacement(path+".spec", pod.NodeSelector, pod.PriorityClassName)
}

func checkContainers(path string, pod corev1.PodSpec, ours operators) error {
	seen := map[string]bool{}
	for i, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		names := ours.containers
		if i < len(pod.InitContainers) {
			names = ours.init
		}
		if slices.Contains(names, c.Name) {
			return refuse(ReasonInvalidTemplate, "%s.spec has a container %q: the operator adds one of that name, give yours another", path, c.Name)
		}
		if seen[c.Name] {
			return refuse(ReasonInvalidTemplate, "%s.spec has two containers %q: give each its own name", path, c.Name)
		}
		seen[c.Name] = true
		if c.Image == "" && c.Name != ours.merged {
			return refuse(ReasonInvalidTemplate, "%s.spec has no image for the container %q", path, c.Name)
		}
	}
	return nil
}

// checkPlacement refuses what can neither select a node nor name a
// PriorityClass.
func checkPlacement(path string, selector map[string]string, priorityClass string) error {
	if priorityClass != "" {
		if errs := validation.IsDNS1123Subdomain(priorityClass); len(errs) > 0 {
			return refuse(ReasonInvalidTemplate, "%s.priorityClassName %q: %s", path, priorityClass, strings.Join(errs, "; "))
		}
	}
	return checkLabels(path+".nodeSelector", selector)
}

// checkOwned refuses labels by which JobSet and the Job controller know their
// pods: the API server refuses a Job with another value of some, and others
// are read as theirs.
func checkOwned(path string, labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		domain, _, _ := strings.Cut(key, "/")
		switch domain {
		case "jobset.sigs.k8s.io", "batch.kubernetes.io", "job-name", "controller-uid":
			return refuse(ReasonInvalidTemplate, "%s has %s, which JobSet and the Job controller set themselves: remove it, or give it another name", path, key)
		}
	}
	return nil
}

func checkLabels(path string, labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		errs := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key]))
		if len(errs) > 0 {
			return refuse(ReasonInvalidTemplate, "%s has %s: %q, which is no label: %s", path, key, labels[key], strings.Join(errs, "; "))
		}
	}
	return nil
}
