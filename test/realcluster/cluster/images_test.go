package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The operator's image is what its Dockerfile says.
func TestReadDockerfile(t *testing.T) {
	got, err := readDockerfile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/manager"}, got.entrypoint); diff != "" {
		t.Error(diff)
	}
	if got.user != "65532:65532" {
		t.Errorf("user %q", got.user)
	}
	if last := got.build[len(got.build)-1]; last != "./cmd" {
		t.Errorf("builds %q", last)
	}
}

func TestGoFlags(t *testing.T) {
	got := goFlags([]string{"-trimpath", "-ldflags", `"-s`, "-w", `-X`, `main.version=$VERSION"`, "./cmd"})
	want := []string{"-ldflags", "-s -w -X main.version=real", "./cmd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a puller gets by tag leads to the program that is in the image.
func TestImageCanBePulled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!program"), 0o755); err != nil {
		t.Fatal(err)
	}
	blobs := map[string]blob{}
	digest, err := image{name: "x/y:1", program: file, entrypoint: []string{"/program", "role"}, user: "1"}.add(blobs)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(serveBlobs(blobs, map[string]string{"x/y:1": digest}))
	defer server.Close()
	get := func(path string) []byte {
		t.Helper()
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s, %v", path, resp.Status, err)
		}
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); resp.Header.Get("Docker-Content-Digest") != got {
			t.Errorf("GET %s: the digest is %s", path, got)
		}
		return data
	}
	type descriptor struct{ Digest string }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(get("/v2/x/y/manifests/1"), &manifest); err != nil {
		t.Fatal(err)
	}
	var config struct{ Config struct{ Entrypoint []string } }
	if err := json.Unmarshal(get("/v2/x/y/blobs/"+manifest.Config.Digest), &config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/program", "role"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	layer := tar.NewReader(bytes.NewReader(get("/v2/x/y/blobs/" + manifest.Layers[0].Digest)))
	header, err := layer.Next()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(layer)
	if err != nil || header.Name != "program" || header.Mode != 0o755 || string(data) != "#!program" {
		t.Errorf("the layer holds %q, mode %o: %q, %v", header.Name, header.Mode, data, err)
	}
	resp, err := http.Head(server.URL + "/v2/x/y/manifests/2")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("a tag that does not exist: %s", resp.Status)
	}
}
