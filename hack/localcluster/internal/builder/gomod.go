// Package builder builds the programs of the local cluster from Go modules, each in a generated module of its
// own: in one module they would fight over the versions of what they share.
package builder

import (
	"fmt"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// stagingPrefix is where k8s.io/kubernetes keeps the modules that it publishes under their own names.
const stagingPrefix = "./staging/src/"

// Module is a generated module: what is written as go.mod and as tools.go.
type Module struct {
	GoMod, Tools string
}

// Generate returns a module that requires path at version and imports packages, so that they can be built in it.
//
// upstream is the go.mod of path at version. Its go directive is taken over, and each replacement of a module by
// a directory below staging/src (k8s.io/kubernetes has some thirty) becomes one by the published version of
// that module: v0.36.3 of k8s.io/api belongs to v1.36.3 of k8s.io/kubernetes.
//
// Libraries of Kubernetes that upstream requires in an older patch release than that of kubernetes, but of the same
// minor one, are raised to it: they are compiled for Kubernetes anyway, and are most of the work.
func Generate(path, version string, upstream []byte, packages []string, kubernetes string) (Module, error) {
	parsed, err := modfile.Parse(path+"@"+version+"/go.mod", upstream, nil)
	if err != nil {
		return Module{}, fmt.Errorf("parsing the go.mod of %s@%s: %w", path, version, err)
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
	published, err := stagingVersion(kubernetes)
	if err != nil {
		return Module{}, err
	}
	for _, r := range parsed.Require {
		if strings.HasPrefix(r.Mod.Path, "k8s.io/") && semver.MajorMinor(r.Mod.Version) == semver.MajorMinor(published) &&
			semver.Compare(r.Mod.Version, published) < 0 {
			if err := out.AddRequire(r.Mod.Path, published); err != nil {
				return Module{}, err
			}
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

// stagingVersion maps a version of k8s.io/kubernetes (v1.36.3) to that of its staging modules (v0.36.3).
func stagingVersion(version string) (string, error) {
	if !semver.IsValid(version) || semver.Major(version) != "v1" {
		return "", fmt.Errorf("%q is no version of Kubernetes: want v1.<minor>.<patch>", version)
	}
	return "v0" + strings.TrimPrefix(version, "v1"), nil
}
