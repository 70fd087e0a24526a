package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

// DirEnv names the folder of a running cluster that FromEnv attaches to.
const DirEnv = "PATHWAYS_CLUSTER_DIR"

// stopTimeout bounds the end of a cluster or operator.
const stopTimeout = 30 * time.Second

// Options of a cluster that Start boots.
type Options struct {
	// Dir is its folder; a temporary one if empty.
	Dir string
	// NodeMonitorGracePeriod is how long a node may be silent until it is Unknown; 50 s if 0, as in Kubernetes.
	NodeMonitorGracePeriod time.Duration
	// Components to run; all if empty.
	Components []string
	// Args are more arguments of components, each as NAME=ARGUMENT.
	Args []string
	// Progress takes what the build and boot say; os.Stderr if nil.
	Progress io.Writer
}

// Cluster is a running local cluster.
type Cluster struct {
	// Client is an administrator's, without a cache; it knows Kubernetes' own types, JobSets and PathwaysJobs.
	Client client.Client
	// Config is an administrator's, without a limit of its rate.
	Config *rest.Config
	// Kubeconfig is an administrator's file.
	Kubeconfig string
	// Dir is the cluster's folder; Bin is that of its programs, kubectl among them.
	Dir, Bin string

	stop func() error
}

// state is what a cluster's folder says about it; hack/localcluster writes it.
type state struct {
	Ready      bool   `json:"ready"`
	Bin        string `json:"bin"`
	Kubeconfig string `json:"kubeconfig"`
}

// NewScheme returns a scheme with Kubernetes' own types, JobSets and PathwaysJobs.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(jobsetv1alpha2.AddToScheme(s))
	utilruntime.Must(v1.AddToScheme(s))
	return s
}

// FromEnv attaches to the cluster that PATHWAYS_CLUSTER_DIR names, or starts one where it is unset.
func FromEnv(ctx context.Context, o Options) (*Cluster, error) {
	if dir := os.Getenv(DirEnv); dir != "" {
		return Attach(dir)
	}
	return Start(ctx, o)
}

// Attach returns the cluster that runs in dir; Stop leaves it running.
func Attach(dir string) (*Cluster, error) {
	data, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		return nil, fmt.Errorf("attaching to the cluster in %s: %w", dir, err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading the state of the cluster in %s: %w", dir, err)
	}
	if !s.Ready {
		return nil, fmt.Errorf("the cluster in %s is not ready", dir)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Kubeconfig, err)
	}
	config.QPS = -1                           // no limit
	config.WarningHandler = rest.NoWarnings{} // tests that look for them make clients of their own
	c, err := client.New(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Cluster{
		Client:     c,
		Config:     config,
		Kubeconfig: s.Kubeconfig,
		Dir:        dir,
		Bin:        s.Bin,
		stop:       func() error { return nil },
	}, nil
}

// Start boots a cluster, building what is missing, and returns when it works. It dies with this process, however
// that ends; Stop ends it earlier.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	program, err := buildCLI(ctx)
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "localcluster-"); err != nil {
			return nil, err
		}
	}
	args := []string{"up", "--ephemeral", "--dir=" + o.Dir}
	if o.NodeMonitorGracePeriod > 0 {
		args = append(args, "--node-monitor-grace-period="+o.NodeMonitorGracePeriod.String())
	}
	if len(o.Components) > 0 {
		args = append(args, "--components="+strings.Join(o.Components, ","))
	}
	for _, a := range o.Args {
		args = append(args, "--arg="+a)
	}
	// The cluster lives as long as the other end of this pipe: it closes with this process.
	cmd := exec.Command(program, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = o.Progress
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	exited := make(chan error, 1)
	up := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stdout)
		if lines.Scan() { // it prints how to use the cluster once that works
			close(up)
		}
		_, _ = io.Copy(io.Discard, stdout)
		exited <- cmd.Wait()
	}()
	stop := func() error {
		_ = stdin.Close() // it may have closed already
		select {
		case err := <-exited:
			return err
		case <-time.After(stopTimeout):
			return errors.Join(fmt.Errorf("the cluster in %s does not end", o.Dir), cmd.Process.Kill())
		}
	}
	select {
	case <-up:
	case err := <-exited:
		return nil, fmt.Errorf("booting a cluster: %w", err)
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("booting a cluster: %w", ctx.Err()), stop())
	}
	c, err := Attach(o.Dir)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	c.stop = stop
	return c, nil
}

// Stop ends the cluster if this process started it.
func (c *Cluster) Stop() error { return c.stop() }

// Kubectl runs the cluster's own kubectl as administrator, and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// buildCLI builds hack/localcluster into bin/test, and returns the program.
func buildCLI(ctx context.Context) (string, error) {
	program := filepath.Join(envtest.Root(), "bin", "test", "localcluster")
	return program, goBuild(ctx, filepath.Join(envtest.Root(), "hack", "localcluster"), program, ".")
}

// BuildOperator builds the manager into bin/test, and returns the program.
func BuildOperator(ctx context.Context) (string, error) {
	program := filepath.Join(envtest.Root(), "bin", "test", "manager")
	return program, goBuild(ctx, envtest.Root(), program, "./cmd")
}

func goBuild(ctx context.Context, dir, program, pkg string) error {
	// A version from git would link the program anew after each commit.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", program, err, out)
	}
	return nil
}
