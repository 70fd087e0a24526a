package builder

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// progressEvery is how often a long build says that it is still going on.
const progressEvery = 15 * time.Second

// Build builds those of tools that are missing, one after the other, and writes what it does to progress.
// It is safe beside another Build on the same cache: the second waits, and finds the work done.
func (c Cache) Build(ctx context.Context, tools []Tool, progress io.Writer) error {
	if len(c.Missing(tools)) == 0 {
		return nil
	}
	unlock, err := c.lock(ctx, progress)
	if err != nil {
		return err
	}
	defer unlock()

	missing := c.Missing(tools) // again: another build may have done it meanwhile
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintf(progress, "building %d programs of Kubernetes %s into %s (the first time this takes 10 to 15 minutes on two cores)\n",
		len(missing), c.Kubernetes, c.Bin())
	for i, t := range missing {
		label := fmt.Sprintf("[%d/%d] %s", i+1, len(missing), t.Name)
		if err := c.build(ctx, t, label, progress); err != nil {
			return fmt.Errorf("building %s: %w", t.Name, err)
		}
	}
	return nil
}

// lock takes the cache's lock file; the lock ends with the process at the latest.
func (c Cache) lock(ctx context.Context, progress io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		if !told {
			fmt.Fprintf(progress, "another build holds %s, waiting for it\n", f.Name())
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (c Cache) build(ctx context.Context, t Tool, label string, progress io.Writer) error {
	start := time.Now()
	fmt.Fprintf(progress, "%s: %s@%s\n", label, t.Module, t.Version)

	upstream, err := download(ctx, t.Module, t.Version)
	if err != nil {
		return err
	}
	src, err := c.writeModule(ctx, t, upstream)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Bin(), 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(c.Dir, "building-"+t.Name)
	defer os.Remove(tmp)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-mod=mod", "-tags", t.Tags, "-ldflags", t.LDFlags, "-o", tmp, t.Package)
	cmd.Dir = src
	cmd.Env = buildEnv()
	if err := runWithProgress(cmd, label, start, progress); err != nil {
		return err
	}
	if t.Name == "jobset" {
		if err := c.copyManifests(upstream.Dir); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, c.Program(t.Name)); err != nil {
		return err
	}
	if err := writeFile(c.stampFile(t.Name), t.stamp()); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s: done in %s\n", label, time.Since(start).Round(time.Second))
	return nil
}

// copy copies a module with the fix in it.
func (f fix) copy(module, dir string) error {
	source, err := os.ReadFile(filepath.Join(module, filepath.FromSlash(f.File)))
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), f.Old); n != 1 {
		return fmt.Errorf("fixing %s in %s: the text to replace is there %d times, not once", f.File, module, n)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(module)); err != nil {
		return err
	}
	changed := filepath.Join(dir, filepath.FromSlash(f.File))
	if err := os.Remove(changed); err != nil { // modules are read-only
		return err
	}
	return writeFile(changed, strings.Replace(string(source), f.Old, f.New, 1))
}

// buildEnv is the environment of the builds: no C compiler, no workspace and no flags of the caller's.
func buildEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
}

// moduleInfo is what `go mod download -json` tells.
type moduleInfo struct {
	Dir, GoMod, Error string
}

func download(ctx context.Context, module, version string) (moduleInfo, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir() // outside of any module
	cmd.Env = buildEnv()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, runErr := cmd.Output()
	var info moduleInfo
	if err := json.Unmarshal(out, &info); err != nil {
		return moduleInfo{}, fmt.Errorf("downloading %s@%s: %w: %s", module, version, errors.Join(runErr, err), stderr.String())
	}
	if info.Error != "" {
		return moduleInfo{}, fmt.Errorf("downloading %s@%s: %s", module, version, info.Error)
	}
	return info, nil
}

// writeModule writes the generated module of the tool's own module, and returns its folder.
func (c Cache) writeModule(ctx context.Context, t Tool, upstream moduleInfo) (string, error) {
	gomod, err := os.ReadFile(upstream.GoMod)
	if err != nil {
		return "", err
	}
	var packages []string
	for _, other := range append(Tools(c.Kubernetes), HostTools(c.Kubernetes)...) {
		if other.Module == t.Module && other.Main == "" {
			packages = append(packages, other.Package)
		}
	}
	k8s, err := download(ctx, kubernetesPath, c.Kubernetes)
	if err != nil {
		return "", err
	}
	k8sGoMod, err := os.ReadFile(k8s.GoMod)
	if err != nil {
		return "", err
	}
	m, err := Generate(t.Module, t.Version, gomod, packages, Kubernetes{Version: c.Kubernetes, GoMod: k8sGoMod})
	if err != nil {
		return "", err
	}
	src := filepath.Join(c.Dir, "src", path.Base(t.Module)+"-"+t.Version)
	if t.Fix.File != "" {
		if err := t.Fix.copy(upstream.Dir, filepath.Join(src, "fixed")); err != nil {
			return "", err
		}
		m.GoMod += "\nreplace " + t.Module + " => ./fixed\n"
	}
	if err := writeFile(filepath.Join(src, "go.mod"), m.GoMod); err != nil {
		return "", err
	}
	if t.Main != "" {
		if err := writeFile(filepath.Join(src, t.Name, "main.go"), t.Main); err != nil {
			return "", err
		}
	}
	return src, writeFile(filepath.Join(src, "tools.go"), m.Tools)
}

// copyManifests keeps JobSet's CRD and webhook configurations, so that booting needs no module cache.
func (c Cache) copyManifests(jobset string) error {
	for from, to := range map[string]string{
		"config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml": "crd.yaml",
		"config/components/webhook/manifests.yaml":                 "webhooks.yaml",
	} {
		data, err := os.ReadFile(filepath.Join(jobset, from))
		if err != nil {
			return fmt.Errorf("reading JobSet's manifests: %w", err)
		}
		if err := writeFile(filepath.Join(c.Manifests(), to), string(data)); err != nil {
			return err
		}
	}
	return nil
}

// writeFile makes the folder, and never leaves a half-written file.
func writeFile(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

// runWithProgress runs a `go build -v`, which prints a line for each package that it compiles.
func runWithProgress(cmd *exec.Cmd, label string, start time.Time, progress io.Writer) error {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var (
		mu       sync.Mutex
		packages int
		last     = "nothing compiled yet"
		tail     []string
		done     = make(chan struct{})
	)
	go func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				mu.Lock()
				fmt.Fprintf(progress, "%s: %s, %d packages compiled, now at %s\n", label, time.Since(start).Round(time.Second), packages, last)
				mu.Unlock()
			}
		}
	}()
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		mu.Lock()
		last = lines.Text()
		if !strings.Contains(last, " ") { // a package's path; other lines are words of the go command
			packages++
		}
		if tail = append(tail, last); len(tail) > 30 {
			tail = tail[1:]
		}
		mu.Unlock()
	}
	err = cmd.Wait()
	close(done)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, strings.Join(tail, "\n"))
	}
	return nil
}
