package render

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// override returns base without what over names anew, and then over.
func override[T any](base, over []T, name func(T) string) []T {
	return append(missing(base, over, name), over...)
}

// missing returns what of base is not named in over.
func missing[T any](base, over []T, name func(T) string) []T {
	var kept []T
	for _, item := range base {
		if !slices.ContainsFunc(over, func(o T) bool { return name(o) == name(item) }) {
			kept = append(kept, item)
		}
	}
	return kept
}

// complete returns base and then what of more it does not name.
func complete[T any](base, more []T, name func(T) string) []T {
	return append(slices.Clip(base), missing(more, base, name)...)
}

func envName(e corev1.EnvVar) string        { return e.Name }
func volumeName(v corev1.Volume) string     { return v.Name }
func mountPath(m corev1.VolumeMount) string { return m.MountPath }

// flagName is the name in --name=value, --name or -name.
func flagName(flag string) string {
	name, _, _ := strings.Cut(flag, "=")
	return strings.TrimLeft(name, "-")
}

// merged returns one map of all, or nil if there is nothing; later maps win.
func merged(all ...map[string]string) map[string]string {
	var result map[string]string
	for _, m := range all {
		if result == nil && len(m) > 0 {
			result = make(map[string]string)
		}
		maps.Copy(result, m)
	}
	return result
}

// inherited returns the annotations of a job that its children get: all but
// kubectl's notes to itself.
func inherited(annotations map[string]string) map[string]string {
	kept := maps.Clone(annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool { return strings.HasPrefix(key, "kubectl.kubernetes.io/") })
	return kept
}

// portName tells ports apart by number and protocol.
func portName(p corev1.ContainerPort) string {
	protocol := p.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return number(p.ContainerPort) + "/" + string(protocol)
}
