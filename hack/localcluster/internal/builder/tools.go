package builder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// Versions of what the local cluster consists of beside Kubernetes.
const (
	DefaultKubernetes = "v1.36.3"

	etcdVersion   = "v3.6.16"
	jobsetVersion = "v0.12.0"
	kwokVersion   = "v0.8.0"

	containerdVersion = "v2.4.2"
	corednsVersion    = "v1.15.0"
)

// Tool is a program of the local cluster.
type Tool struct {
	Name    string // the file's name
	Module  string // its module's path
	Version string // its module's version
	Package string // its main package
	LDFlags string
	Tags    string // build tags, separated by commas
	Main    string // source of a main package of our own that takes the place of Package
	Fix     fix
}

// fix replaces a text in a file of the tool's module, which is built with that.
type fix struct {
	File, Old, New string
}

// kwokFix keeps the simulated kubelets alive. KWOK's queue of leases takes a node twice that was released and taken
// again while its lease was being renewed; the first of the two entries can then not be removed from the head of the
// heap, and from then on no lease is renewed at all.
var kwokFix = fix{
	File: "pkg/utils/heap/heap.go",
	Old:  "\tentry := &waitEntry[K, T]{key: key, data: data}\n",
	New:  "\th.Remove(data)\n\tentry := &waitEntry[K, T]{key: key, data: data}\n",
}

// Tools lists what a cluster of that version of Kubernetes needs, the quickest to build first but for
// Kubernetes itself: what tests with an API server alone need (etcd, kube-apiserver, kubectl) comes first.
func Tools(kubernetes string) []Tool {
	const k8s = kubernetesPath
	ldflags := "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetes
	return []Tool{
		{Name: "etcd", Module: "go.etcd.io/etcd/server/v3", Version: etcdVersion, Package: "go.etcd.io/etcd/server/v3", LDFlags: "-s -w"},
		{Name: "kube-apiserver", Module: k8s, Version: kubernetes, Package: k8s + "/cmd/kube-apiserver", LDFlags: ldflags},
		{Name: "kubectl", Module: k8s, Version: kubernetes, Package: k8s + "/cmd/kubectl", LDFlags: ldflags},
		{Name: "kube-controller-manager", Module: k8s, Version: kubernetes, Package: k8s + "/cmd/kube-controller-manager", LDFlags: ldflags},
		{Name: "kube-scheduler", Module: k8s, Version: kubernetes, Package: k8s + "/cmd/kube-scheduler", LDFlags: ldflags},
		{Name: "jobset", Module: "sigs.k8s.io/jobset", Version: jobsetVersion, Package: "sigs.k8s.io/jobset", LDFlags: "-s -w"},
		{Name: "kwok", Module: "sigs.k8s.io/kwok", Version: kwokVersion, Package: "sigs.k8s.io/kwok/cmd/kwok", LDFlags: "-s -w", Fix: kwokFix},
	}
}

// HostTools lists what real hosts need beside Tools: kubelets, containers and DNS (test/realcluster runs them).
func HostTools(kubernetes string) []Tool {
	const k8s, containerd = "k8s.io/kubernetes", "github.com/containerd/containerd/v2"
	ldflags := "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetes
	versioned := "-s -w -X " + containerd + "/version.Version=" + containerdVersion
	tags := "no_btrfs,no_zfs,no_devmapper,no_tracing,nri_no_wasm" // each costs minutes of building, and nothing here uses it
	return []Tool{
		{Name: "kubelet", Module: k8s, Version: kubernetes, Package: k8s + "/cmd/kubelet", LDFlags: ldflags},
		{Name: "kube-proxy", Module: k8s, Version: kubernetes, Package: k8s + "/cmd/kube-proxy", LDFlags: ldflags},
		{Name: "containerd", Module: containerd, Version: containerdVersion, Package: containerd + "/cmd/containerd", LDFlags: versioned, Tags: tags},
		{Name: "containerd-shim-runc-v2", Module: containerd, Version: containerdVersion, Package: containerd + "/cmd/containerd-shim-runc-v2", LDFlags: versioned, Tags: tags},
		{Name: "coredns", Module: "github.com/coredns/coredns", Version: corednsVersion, Package: "./coredns", LDFlags: "-s -w", Main: corednsMain},
	}
}

// corednsMain is CoreDNS with the few plugins that a cluster needs: all of them, with the clouds' SDKs, take minutes
// to build.
const corednsMain = `package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
`

// stamp identifies a build of the tool; a binary with another stamp is built anew.
func (t Tool) stamp() string {
	tags := ""
	if t.Tags != "" {
		tags = " -tags " + t.Tags
	}
	if t.Fix.File != "" {
		tags += " fix " + t.Fix.File
	}
	return fmt.Sprintf("%s@%s %s%s\n", t.Package, t.Version, t.LDFlags, tags)
}

// Cache is the folder of one version of Kubernetes in the cache: bin holds the programs, manifests those of
// JobSet, src the generated modules.
type Cache struct {
	Kubernetes string
	Dir        string
}

// NewCache returns the cache of that version of Kubernetes: below $PATHWAYS_CACHE, else below pathways-job in
// $XDG_CACHE_HOME or ~/.cache.
func NewCache(kubernetes string) (Cache, error) {
	if !semver.IsValid(kubernetes) {
		return Cache{}, fmt.Errorf("K8S_VERSION=%q is no version: want v1.<minor>.<patch>, such as %s", kubernetes, DefaultKubernetes)
	}
	root, err := Root()
	if err != nil {
		return Cache{}, err
	}
	return Cache{Kubernetes: kubernetes, Dir: filepath.Join(root, kubernetes)}, nil
}

// Root is the folder that holds the caches of all versions.
func Root() (string, error) {
	root := os.Getenv("PATHWAYS_CACHE")
	if root == "" {
		base := os.Getenv("XDG_CACHE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("finding a place for the cache (PATHWAYS_CACHE is unset): %w", err)
			}
			base = filepath.Join(home, ".cache")
		}
		root = filepath.Join(base, "pathways-job")
	}
	return filepath.Abs(root)
}

// Bin is the folder of the programs; it serves as KUBEBUILDER_ASSETS of envtest.
func (c Cache) Bin() string { return filepath.Join(c.Dir, "bin") }

// Program is the path of one program.
func (c Cache) Program(name string) string { return filepath.Join(c.Bin(), name) }

// Manifests is the folder that holds JobSet's CRD (crd.yaml) and webhooks (webhooks.yaml).
func (c Cache) Manifests() string { return filepath.Join(c.Dir, "manifests", "jobset") }

// Missing returns those of tools that are not built yet, or were built from something else.
func (c Cache) Missing(tools []Tool) []Tool {
	var missing []Tool
	for _, t := range tools {
		stamp, err := os.ReadFile(c.stampFile(t.Name))
		if err != nil || string(stamp) != t.stamp() {
			missing = append(missing, t)
			continue
		}
		if _, err := os.Stat(c.Program(t.Name)); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

func (c Cache) stampFile(name string) string { return filepath.Join(c.Dir, "stamps", name) }

// Select returns the tools of those names, in their own order; no names means all.
func Select(tools []Tool, names []string) ([]Tool, error) {
	if len(names) == 0 {
		return tools, nil
	}
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	var out []Tool
	for _, t := range tools {
		if wanted[t.Name] {
			out = append(out, t)
			delete(wanted, t.Name)
		}
	}
	for n := range wanted {
		var known []string
		for _, t := range tools {
			known = append(known, t.Name)
		}
		return nil, fmt.Errorf("no program is called %q: there are %s", n, strings.Join(known, ", "))
	}
	return out, nil
}
