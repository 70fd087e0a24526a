// Package builder builds the programs of the local cluster from Go modules, each in a generated module of its
// own: in one module they would fight over the versions of what they share.
package builder

import (
	"fmt"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

const kubernetesPath = "k8s.io/kubernetes"

// stagingPrefix is where k8s.io/kubernetes keeps the modules that it publishes under their own names.
const stagingPrefix = "./staging/src/"

// Module is a generated module: what is written as go.mod and as tools.go.
type Module struct {
	GoMod, Tools string
}

// Kubernetes is the release that the cluster runs.
type Kubernetes struct {
	Version string // of k8s.io/kubernetes
	GoMod   []byte // of that version
}

// Generate returns a module that requires path at version and imports packages, so that they can be built in it.
//
// upstream is the go.mod of path at version. Its go directive is taken over, and each replacement of a module by
// a directory below staging/src (k8s.io/kubernetes has some thirty) becomes one by the published version of
// that module: v0.36.3 of k8s.io/api belongs to v1.36.3 of k8s.io/kubernetes.
//
// What upstream requires beside Kubernetes itself, in another version than Kubernetes does, is replaced by Kubernetes'
// version: it is compiled for Kubernetes anyway, and is most of the work. That holds only where both are made for the
// same minor release of Kubernetes.
func Generate(path, version string, upstream []byte, packages []string, kubernetes Kubernetes) (Module, error) {
	parsed, err := modfile.Parse(path+"@"+version+"/go.mod", upstream, nil)
	if err != nil {
		return Module{}, fmt.Errorf("parsing the go.mod of %s@%s: %w", path, version, err)
	}
	published, err := stagingVersion(kubernetes.Version)
	if err != nil {
		return Module{}, err
	}

	out := new(modfile.File)
	if err := out.AddModuleStmt("build"); err != nil {
		return Module{}, err
	}
	if parsed.Go != nil {
		if err := out.AddGoStmt(parsed.Go.Version); err != nil {
			return Module{}, err
		}
	}
	if err := out.AddRequire(path, version); err != nil {
		return Module{}, err
	}
	shared, err := kubernetes.shared(parsed, published)
	if err != nil {
		return Module{}, err
	}
	for _, r := range shared {
		if err := out.AddReplace(r.Path, "", r.Path, r.Version); err != nil {
			return Module{}, err
		}
	}
	for _, r := range parsed.Replace {
		if !strings.HasPrefix(r.New.Path, stagingPrefix) {
			continue
		}
		if err := out.AddReplace(r.Old.Path, "", r.Old.Path, published); err != nil {
			return Module{}, err
		}
	}
	out.Cleanup()
	gomod, err := out.Format()
	if err != nil {
		return Module{}, err
	}

	var tools strings.Builder
	tools.WriteString("//go:build tools\n\npackage tools\n\nimport (\n")
	for _, p := range packages {
		fmt.Fprintf(&tools, "\t_ %q\n", p)
	}
	tools.WriteString(")\n")
	return Module{GoMod: string(gomod), Tools: tools.String()}, nil
}

// shared lists the modules of upstream that Kubernetes requires in another version; none where upstream is made for
// another minor release.
func (k Kubernetes) shared(upstream *modfile.File, published string) ([]module.Version, error) {
	own, err := modfile.Parse(kubernetesPath+"@"+k.Version+"/go.mod", k.GoMod, nil)
	if err != nil {
		return nil, fmt.Errorf("parsing the go.mod of Kubernetes %s: %w", k.Version, err)
	}
	versions := map[string]string{}
	for _, r := range own.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range own.Replace {
		if strings.HasPrefix(r.New.Path, stagingPrefix) {
			versions[r.Old.Path] = published
		}
	}
	var out []module.Version
	same := false
	for _, r := range upstream.Require {
		if r.Mod.Path == "k8s.io/apimachinery" {
			same = semver.MajorMinor(r.Mod.Version) == semver.MajorMinor(published)
		}
		if v, ok := versions[r.Mod.Path]; ok && v != r.Mod.Version {
			out = append(out, module.Version{Path: r.Mod.Path, Version: v})
		}
	}
	if !same {
		return nil, nil
	}
	return out, nil
}

// stagingVersion maps a version of k8s.io/kubernetes (v1.36.3) to that of its staging modules (v0.36.3).
func stagingVersion(version string) (string, error) {
	if !semver.IsValid(version) || semver.Major(version) != "v1" {
		return "", fmt.Errorf("%q is no version of Kubernetes: want v1.<minor>.<patch>", version)
	}
	return "v0" + strings.TrimPrefix(version, "v1"), nil
}
