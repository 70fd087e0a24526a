package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// registry is the host in the names of all images here. containerd gets them
// from this machine; no such host exists.
const registry = "local.test/"

// Images of the stand-in, without their tags where they have several.
const (
	ImageServer   = registry + "standin/server"
	ImageProxy    = registry + "standin/proxy_server"
	ImageSidecar  = registry + "standin/sidecar:latest"
	ImageMain     = registry + "standin/main:latest"
	ImagePause    = registry + "standin/pause:latest"
	ImageOperator = registry + "pathways-job-controller"

	// TagLatest knows the newer elastic flag, TagPinned the older one; a
	// worker of TagExit0 exits with 0 when it was suspended.
	TagLatest = "latest"
	TagPinned = "jax-0.5.3"
	TagExit0  = "exit0"
)

// image is one static program with its configuration.
type image struct {
	name       string // with its tag
	program    string // a file on this machine
	entrypoint []string
	user       string
}

// images lists all images, from the programs that were built.
func images() ([]image, error) {
	var all []image
	standin := func(name string, entrypoint ...string) {
		all = append(all, image{name: name, program: program("standin"), entrypoint: append([]string{"/standin"}, entrypoint...)})
	}
	standin(ImageServer+":"+TagLatest, "server")
	standin(ImageServer+":"+TagPinned, "server")
	standin(ImageServer+":"+TagExit0, "-exit-on-sigterm=0", "server")
	standin(ImageProxy+":"+TagLatest, "proxy_server")
	standin(ImageProxy+":"+TagExit0, "proxy_server")
	standin(ImageProxy+":"+TagPinned, "-elastic-flag=slices", "proxy_server")
	standin(ImageSidecar, "colocated_python_sidecar")
	standin(ImageMain, "main")
	standin(ImagePause, "pause")
	operator, err := readDockerfile(program("Dockerfile"))
	if err != nil {
		return nil, err
	}
	return append(all, image{
		name: ImageOperator + ":" + TagLatest, program: program("manager"),
		entrypoint: operator.entrypoint, user: operator.user,
	}), nil
}

// dockerfile is what the operator's Dockerfile says.
type dockerfile struct {
	build      []string // arguments of go build
	entrypoint []string
	user       string
}

var goBuild = regexp.MustCompile(`go build (.*) -o /manager (\S+)`)

// readDockerfile reads the few things that make the operator's image, so that
// a mistake in one of them fails here.
func readDockerfile(name string) (dockerfile, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return dockerfile{}, err
	}
	var d dockerfile
	if m := goBuild.FindStringSubmatch(string(data)); m != nil {
		d.build = append(strings.Fields(m[1]), m[2])
	}
	for line := range strings.Lines(string(data)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "USER":
			d.user = rest
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &d.entrypoint); err != nil {
				return d, fmt.Errorf("read the ENTRYPOINT of %s: %w", name, err)
			}
		}
	}
	if d.build == nil || len(d.entrypoint) == 0 || d.user == "" {
		return d, fmt.Errorf("%s: go build, USER or ENTRYPOINT not found: %+v", name, d)
	}
	return d, nil
}

// blob is one object of a registry.
type blob struct {
	kind string
	data []byte
}

// Media types of the OCI image format.
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// ServeImages answers pulls as a registry does, from programs on this
// machine.
func ServeImages() error {
	all, err := images()
	if err != nil {
		return err
	}
	blobs, tags := map[string]blob{}, map[string]string{}
	for _, i := range all {
		digest, err := i.add(blobs)
		if err != nil {
			return fmt.Errorf("make the image %s: %w", i.name, err)
		}
		tags[strings.TrimPrefix(i.name, registry)] = digest
	}
	return http.ListenAndServe(fmt.Sprintf("%s:%d", Address, imagePort), serveBlobs(blobs, tags))
}

var pull = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+)$`)

func serveBlobs(blobs map[string]blob, tags map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		m := pull.FindStringSubmatch(r.URL.Path)
		if m == nil {
			http.NotFound(w, r)
			return
		}
		digest := m[3]
		if !strings.HasPrefix(digest, "sha256:") {
			digest = tags[m[1]+":"+m[3]]
		}
		b, ok := blobs[digest]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", b.kind)
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Length", fmt.Sprint(len(b.data)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(b.data) // The puller has gone; nobody is left to tell.
		}
	}
}

// add makes the image's blobs and returns its digest.
func (i image) add(blobs map[string]blob) (string, error) {
	put := func(kind string, data []byte) map[string]any {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		blobs[digest] = blob{kind, data}
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(data)}
	}
	layer, err := tarFile(i.entrypoint[0], i.program)
	if err != nil {
		return "", err
	}
	layerEntry := put(typeLayer, layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.entrypoint, "User": i.user, "Env": []string{"PATH=/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layerEntry["digest"]}},
	})
	if err != nil {
		return "", err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": put(typeConfig, config), "layers": []any{layerEntry},
	})
	if err != nil {
		return "", err
	}
	return put(typeManifest, manifest)["digest"].(string), nil
}

// tarFile makes a tar archive of one program.
func tarFile(name, program string) ([]byte, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := &tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(data))}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
