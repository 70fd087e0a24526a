package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// tools are the programs that the local cluster's builder makes for hosts.
var tools = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "jobset", "kubectl",
	"kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "coredns",
}

// hostTools are those of them that run inside hosts. They are copied to where
// hosts see them: /tmp, where a cache may be, is each host's own.
var hostTools = []string{"kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2"}

// program is the path of a program that was built from this repository.
func program(name string) string { return filepath.Join(Root, "bin", name) }

// repository is the directory of the root module.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack/localcluster/go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("run this inside the repository")
}

// localcluster runs the local cluster's command, with its words to progress.
func localcluster(ctx context.Context, progress io.Writer, args ...string) (string, error) {
	repo, err := repository()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"-C", filepath.Join(repo, "hack/localcluster"), "run", "."}, args...)...)
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("localcluster %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

var programsOnce = sync.OnceValues(func() (string, error) {
	return localcluster(context.Background(), io.Discard, "bin")
})

// Programs is the folder of the tools.
func Programs(context.Context) (string, error) { return programsOnce() }

// Build builds all programs. The first time takes long.
func Build(ctx context.Context, progress io.Writer) error {
	if err := Check(ctx, progress); err != nil {
		return err
	}
	if _, err := localcluster(ctx, progress, append([]string{"build"}, tools...)...); err != nil {
		return err
	}
	bin, err := Programs(ctx)
	if err != nil {
		return err
	}
	for _, name := range hostTools {
		if err := copyFile(filepath.Join(bin, name), program(name)); err != nil {
			return err
		}
	}
	repo, err := repository()
	if err != nil {
		return err
	}
	docker, err := os.ReadFile(filepath.Join(repo, "Dockerfile"))
	if err != nil {
		return err
	}
	if err := writeFile(program("Dockerfile"), string(docker)); err != nil {
		return err
	}
	operator, err := readDockerfile(program("Dockerfile"))
	if err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"standin":     {"-buildvcs=false", "-ldflags", "-s -w", "./test/standin"},
		"manager":     goFlags(operator.build),
		"realcluster": {"./test/realcluster"},
		"helm":        {"-modfile=go.tools.mod", "helm.sh/helm/v4/cmd/helm"},
	} {
		fmt.Fprintf(progress, "building %s\n", name)
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", program(name)}, args...)...)
		cmd.Dir, cmd.Stderr = repo, progress
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// copyFile copies a program, if the copy differs in size or age.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if old, err := os.Stat(to); err == nil && old.Size() == info.Size() && !old.ModTime().Before(info.ModTime()) {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := writeFile(to+".new", string(data)); err != nil {
		return err
	}
	return errors.Join(os.Chmod(to+".new", 0o755), os.Rename(to+".new", to))
}

// goFlags undoes the shell's quoting in a go build of the Dockerfile. It
// leaves -trimpath out, which changes nothing that runs, but would compile
// everything a second time beside the tests' own.
func goFlags(words []string) []string {
	line := strings.ReplaceAll(strings.Join(words, " "), "-trimpath ", "")
	var out []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, strings.ReplaceAll(m[1]+m[2], "$VERSION", "real"))
	}
	return out
}

// Up boots the cluster; what is left of an earlier one is removed first.
func Up(ctx context.Context, progress io.Writer, extra ...string) error {
	if err := Down(ctx, progress); err != nil {
		return err
	}
	if err := Build(ctx, progress); err != nil {
		return err
	}
	began := time.Now()
	if err := up(ctx, progress, extra); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%d hosts are up after %s\n", len(booted()), time.Since(began).Round(100*time.Millisecond))
	return nil
}

func up(ctx context.Context, progress io.Writer, extra []string) error {
	bin, err := Programs(ctx)
	if err != nil {
		return err
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	args := append([]string{
		"up", "--dir", controlDir(), "--address", Address,
		"--components", "etcd,kube-apiserver,kube-controller-manager,kube-scheduler,jobset",
		"--arg", "kube-apiserver=--kubelet-preferred-address-types=InternalIP",
	}, extra...)
	if _, err := localcluster(ctx, progress, args...); err != nil {
		return err
	}
	config, err := os.ReadFile(Kubeconfig())
	if err != nil {
		return err
	}
	if err := writeFile(hostKubeconfig(), strings.Replace(string(config), "127.0.0.1", Address, 1)); err != nil {
		return err
	}
	if err := startServices(ctx, bin); err != nil {
		return err
	}
	for _, h := range booted() {
		if err := h.boot(ctx); err != nil {
			return fmt.Errorf("boot %s: %w", h.Name, err)
		}
		fmt.Fprintf(progress, "%s is started\n", h.Name)
	}
	for _, h := range booted() {
		if err := h.becomesReady(ctx); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return nil
}

// prepare makes what all hosts share.
func prepare(ctx context.Context) error {
	if err := saveSysctls(); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	// A mount namespace can be held only by a file on a private mount.
	mnt := filepath.Join(runtimeDir, "mnt")
	if err := os.MkdirAll(mnt, 0o755); err != nil {
		return err
	}
	if err := runAll(ctx, fmt.Sprintf("mount --bind %[1]s %[1]s\nmount --make-private %[1]s", mnt)); err != nil {
		return err
	}
	for at := range private {
		if _, err := os.Stat(at); os.IsNotExist(err) {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
			if err := writeFile(filepath.Join(Root, "made", strings.ReplaceAll(at, "/", "_")), at); err != nil {
				return err
			}
		}
	}
	return makeBridge(ctx)
}

// startServices starts DNS, the images and the object store on this machine.
func startServices(ctx context.Context, bin string) error {
	corefile := fmt.Sprintf(`.:53 {
  bind %s
  errors
  ready %s:8181
  kubernetes cluster.local in-addr.arpa {
    kubeconfig %s
    pods insecure
    ttl 1
  }
}
`, Address, Address, Kubeconfig())
	if err := writeFile(filepath.Join(Root, "Corefile"), corefile); err != nil {
		return err
	}
	err := errors.Join(
		start("coredns", nil, filepath.Join(bin, "coredns"), "-conf", filepath.Join(Root, "Corefile")),
		start("images", nil, program("realcluster"), "serve-images"),
		start("objects", nil, program("standin"), "object_store", fmt.Sprintf("--listen=%s:%d", Address, objectsPort)),
	)
	if err != nil {
		return err
	}
	for what, url := range map[string]string{
		"CoreDNS":          fmt.Sprintf("http://%s:8181/ready", Address),
		"the images":       fmt.Sprintf("http://%s:%d/v2/", Address, imagePort),
		"the object store": ObjectStore + "/storage/v1/b/any/o",
	} {
		if err := waitFor(ctx, what, func() bool { return answers(ctx, url) }); err != nil {
			return err
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Down ends the cluster and removes all it left behind, whatever state it is
// in. Only the caches of what was built stay.
func Down(ctx context.Context, progress io.Writer) error {
	if err := checkRoot(); err != nil {
		return err
	}
	var errs []error
	for _, h := range Hosts {
		if err := h.remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", h.Name, err))
		}
	}
	for _, name := range []string{"coredns", "images", "objects"} {
		errs = append(errs, kill(name))
	}
	if _, err := os.Stat(controlDir()); err == nil {
		_, err := localcluster(ctx, progress, "down", "--dir", controlDir())
		errs = append(errs, err)
	}
	if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
		_, err := run(ctx, "ip", "link", "del", bridge)
		errs = append(errs, err)
	}
	mnt := filepath.Join(runtimeDir, "mnt")
	for range 10 { // A crash between two mounts may leave more than one.
		if _, err := run(ctx, "umount", mnt); err != nil {
			break
		}
	}
	errs = append(errs, os.RemoveAll(runtimeDir), restoreSysctls())
	made, _ := filepath.Glob(filepath.Join(Root, "made", "*"))
	for _, m := range made {
		at, err := os.ReadFile(m)
		if err != nil {
			return err
		}
		// Only if it is empty: it may be in use by others now.
		_ = os.Remove(string(at))
	}
	if err := errors.Join(errs...); err != nil {
		return err // and keep what tells what is left
	}
	return os.RemoveAll(Root)
}
