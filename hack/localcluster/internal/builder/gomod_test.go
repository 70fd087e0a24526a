package builder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const kubernetesGoMod = `module k8s.io/kubernetes

require (
	example.com/later v1.2.0
	example.com/older v1.2.0
	k8s.io/api v0.0.0
	k8s.io/apimachinery v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/apimachinery => ./staging/src/k8s.io/apimachinery
)
`

func TestGenerate(t *testing.T) {
	tests := map[string]struct {
		module, version, upstream string
		kubernetes                string // DefaultKubernetes if empty
		packages                  []string
		want                      Module
		wantErr                   string
	}{
		"staging modules get their published versions": {
			module:  "k8s.io/kubernetes",
			version: "v1.36.3",
			upstream: `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/api v0.0.0

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
	example.com/fork => example.com/other v1.0.0
)
`,
			packages: []string{"k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubectl"},
			want: Module{
				GoMod: `module build

go 1.26.0

require k8s.io/kubernetes v1.36.3

replace k8s.io/api => k8s.io/api v0.36.3

replace k8s.io/kubelet => k8s.io/kubelet v0.36.3
`,
				Tools: `//go:build tools

package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
`,
			},
		},
		"libraries that Kubernetes has too get its versions": {
			module:  "sigs.k8s.io/kwok",
			version: "v0.8.0",
			upstream: `module sigs.k8s.io/kwok

go 1.26.0

require (
	example.com/later v1.3.0
	example.com/older v1.1.0
	example.com/own v0.36.1
	k8s.io/api v0.36.1
	k8s.io/apimachinery v0.36.9
)
`,
			want: Module{
				GoMod: "module build\n\ngo 1.26.0\n\nrequire sigs.k8s.io/kwok v0.8.0\n\nreplace example.com/later => example.com/later v1.2.0\n\nreplace example.com/older => example.com/older v1.2.0\n\nreplace k8s.io/api => k8s.io/api v0.36.3\n\nreplace k8s.io/apimachinery => k8s.io/apimachinery v0.36.3\n",
				Tools: "//go:build tools\n\npackage tools\n\nimport (\n)\n",
			},
		},
		"a module made for another minor release stays as it is": {
			module:   "sigs.k8s.io/kwok",
			version:  "v0.7.0",
			upstream: "module sigs.k8s.io/kwok\ngo 1.26.0\nrequire (\nexample.com/older v1.1.0\nk8s.io/apimachinery v0.35.1\n)\n",
			want: Module{
				GoMod: "module build\n\ngo 1.26.0\n\nrequire sigs.k8s.io/kwok v0.7.0\n",
				Tools: "//go:build tools\n\npackage tools\n\nimport (\n)\n",
			},
		},
		"a pre-release": {
			module:     "k8s.io/kubernetes",
			version:    "v1.37.0-rc.1",
			kubernetes: "v1.37.0-rc.1",
			upstream:   "module k8s.io/kubernetes\ngo 1.26.0\nreplace k8s.io/api => ./staging/src/k8s.io/api\n",
			want: Module{
				GoMod: "module build\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.37.0-rc.1\n\nreplace k8s.io/api => k8s.io/api v0.37.0-rc.1\n",
				Tools: "//go:build tools\n\npackage tools\n\nimport (\n)\n",
			},
		},
		"a module without staging": {
			module:   "sigs.k8s.io/kwok",
			version:  "v0.8.0",
			upstream: "module sigs.k8s.io/kwok\ngo 1.26.0\n",
			packages: []string{"sigs.k8s.io/kwok/cmd/kwok"},
			want: Module{
				GoMod: "module build\n\ngo 1.26.0\n\nrequire sigs.k8s.io/kwok v0.8.0\n",
				Tools: "//go:build tools\n\npackage tools\n\nimport (\n\t_ \"sigs.k8s.io/kwok/cmd/kwok\"\n)\n",
			},
		},
		"a version that is none of Kubernetes": {
			module:     "k8s.io/kubernetes",
			version:    "v2.0.0",
			kubernetes: "v2.0.0",
			upstream:   "module k8s.io/kubernetes\nreplace k8s.io/api => ./staging/src/k8s.io/api\n",
			wantErr:    `"v2.0.0" is no version of Kubernetes`,
		},
		"a go.mod that is none": {
			module:   "sigs.k8s.io/kwok",
			version:  "v0.8.0",
			upstream: "<html>",
			wantErr:  "parsing the go.mod of sigs.k8s.io/kwok@v0.8.0",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kubernetes := tc.kubernetes
			if kubernetes == "" {
				kubernetes = DefaultKubernetes
			}
			got, err := Generate(tc.module, tc.version, []byte(tc.upstream), tc.packages, Kubernetes{kubernetes, []byte(kubernetesGoMod)})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("Generate: error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("Generate: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Generate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	tools := Tools(DefaultKubernetes)
	tests := map[string]struct {
		names   []string
		want    []string
		wantErr string
	}{
		"some, in the order of the build": {names: []string{"kwok", "etcd"}, want: []string{"etcd", "kwok"}},
		"one that is not there":           {names: []string{"kubelet"}, wantErr: `no program is called "kubelet": there are etcd, kube-apiserver`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Select(tools, tc.names)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("Select: error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("Select: %v", err)
			}
			var names []string
			for _, tool := range got {
				names = append(names, tool.Name)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("Select (-want +got):\n%s", diff)
			}
		})
	}
}
