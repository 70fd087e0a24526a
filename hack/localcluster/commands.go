package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pathways.domain/pathways-job/hack/localcluster/internal/boot"
	"pathways.domain/pathways-job/hack/localcluster/internal/builder"
)

// build builds the programs of those names, or all, and prints their folder.
func build(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("build", flag.ExitOnError)
	if err := flags.Parse(args); err != nil {
		return err
	}
	cache, err := cacheFromEnv()
	if err != nil {
		return err
	}
	known := builder.Tools(cache.Kubernetes)
	if flags.NArg() > 0 { // those for real hosts are built only by name
		known = append(known, builder.HostTools(cache.Kubernetes)...)
	}
	tools, err := builder.Select(known, flags.Args())
	if err != nil {
		return err
	}
	if err := cache.Build(ctx, tools, os.Stderr); err != nil {
		return err
	}
	fmt.Println(cache.Bin())
	return nil
}

// bin prints the folder of the programs.
func bin(_ context.Context, args []string) error {
	if err := parse(flag.NewFlagSet("bin", flag.ExitOnError), args); err != nil {
		return err
	}
	cache, err := cacheFromEnv()
	if err != nil {
		return err
	}
	fmt.Println(cache.Bin())
	return nil
}

// up boots a cluster. Without --ephemeral it returns and the cluster lives on; with it the cluster lives until
// standard input ends or this process does: a parent that holds a pipe to it cannot leave a cluster behind.
func up(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	dir := dirFlag(flags)
	components := flags.String("components", strings.Join(boot.AllComponents, ","), "what to run; etcd and kube-apiserver at least")
	grace := flags.Duration("node-monitor-grace-period", boot.DefaultNodeMonitorGracePeriod, "how long a node may be silent until it is not Ready")
	address := flags.String("address", "", "an address of this machine on which pods reach the API server")
	ephemeral := flags.Bool("ephemeral", false, "stay, and end the cluster when standard input ends")
	extra := extraArgs{}
	flags.Var(extra, "arg", "one more argument of a component, as NAME=ARGUMENT; may be repeated")
	if err := parse(flags, args); err != nil {
		return err
	}
	cache, err := cacheFromEnv()
	if err != nil {
		return err
	}
	folder, err := clusterDir(*dir)
	if err != nil {
		return err
	}
	o := boot.Options{
		Dir:                    folder,
		Components:             strings.Split(*components, ","),
		NodeMonitorGracePeriod: *grace,
		Address:                *address,
		Bound:                  *ephemeral,
		Extra:                  extra,
	}
	if state, err := boot.ReadState(folder); err == nil && state != nil && state.Ready && state.Whole(folder) {
		if *ephemeral {
			return fmt.Errorf("a cluster runs in %s already", folder)
		}
		fmt.Fprintf(os.Stderr, "the cluster in %s runs already\n", folder)
		fmt.Print(instructions(folder, state))
		return nil
	}

	tools, err := builder.Select(builder.Tools(cache.Kubernetes), append(slices.Clone(o.Components), "kubectl"))
	if err != nil {
		return err
	}
	if err := cache.Build(ctx, tools, os.Stderr); err != nil {
		return err
	}
	start := time.Now()
	cluster, err := boot.Up(ctx, o, cache, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the cluster is up after %s\n", time.Since(start).Round(100*time.Millisecond))
	fmt.Print(instructions(folder, &cluster.State))
	if !*ephemeral {
		return nil
	}
	return supervise(ctx, cluster, folder)
}

// supervise ends the cluster when standard input ends, a signal comes, or one of its programs ends.
func supervise(ctx context.Context, cluster *boot.Cluster, dir string) error {
	inputEnded := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
		close(inputEnded)
	}()
	select {
	case <-ctx.Done():
	case <-inputEnded:
	case name := <-cluster.Ended():
		return fmt.Errorf("%s ended by itself; its log is in %s", name, filepath.Join(dir, "logs"))
	}
	return boot.Down(dir)
}

// down ends the cluster.
func down(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("down", flag.ExitOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	folder, err := clusterDir(*dir)
	if err != nil {
		return err
	}
	return boot.Down(folder)
}

// guest starts a program beside the cluster, which ends it with itself.
func guest(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	dir := dirFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("run wants a program, and its arguments")
	}
	folder, err := clusterDir(*dir)
	if err != nil {
		return err
	}
	p, err := boot.Run(folder, flags.Arg(0), flags.Args()[1:])
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s runs as process %d; its log is %s\n", p.Name, p.PID, filepath.Join(folder, "logs", p.Name+".log"))
	return nil
}

// folder prints the cluster's folder.
func folder(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("dir", flag.ExitOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	path, err := clusterDir(*dir)
	if err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}

// status lists the programs of the cluster; it fails unless all of its own run.
func status(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("status", flag.ExitOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	folder, state, err := existing(*dir)
	if err != nil {
		return err
	}
	running := state.Running(folder)
	fmt.Printf("Kubernetes %s at %s, in %s\n", state.Kubernetes, state.Server, folder)
	for _, p := range state.Processes {
		word := "running"
		if !running[p.Name] {
			word = "ended"
		}
		fmt.Printf("%-24s %8d  %s\n", p.Name, p.PID, word)
	}
	switch {
	case !state.Whole(folder):
		return fmt.Errorf("not all programs run; their logs are in %s", filepath.Join(folder, "logs"))
	case !state.Ready:
		return errors.New("the cluster is still booting")
	}
	return nil
}

// env prints how to use the cluster, for eval.
func env(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("env", flag.ExitOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	_, state, err := existing(*dir)
	if err != nil {
		return err
	}
	fmt.Print(exports(state))
	return nil
}

func exports(s *boot.State) string {
	return fmt.Sprintf("export PATH=%s:$PATH\nexport KUBECONFIG=%s\n", s.Bin, s.Kubeconfig)
}

func instructions(dir string, s *boot.State) string {
	return fmt.Sprintf("\nKubernetes %s runs at %s; its files and logs are in %s\nTo use it:\n\n%s\n  kubectl get nodes,pods -A\n",
		s.Kubernetes, s.Server, dir, indent(exports(s)))
}

func indent(s string) string { return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

func dirFlag(flags *flag.FlagSet) *string {
	return flags.String("dir", os.Getenv("PATHWAYS_CLUSTER_DIR"), "the cluster's folder; several clusters need several")
}

// clusterDir is the absolute path of a cluster's folder.
func clusterDir(dir string) (string, error) {
	if dir == "" {
		root, err := builder.Root()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "cluster")
	}
	return filepath.Abs(dir)
}

func existing(dir string) (string, *boot.State, error) {
	folder, err := clusterDir(dir)
	if err != nil {
		return "", nil, err
	}
	state, err := boot.ReadState(folder)
	if err != nil {
		return "", nil, err
	}
	if state == nil {
		return "", nil, fmt.Errorf("there is no cluster in %s", folder)
	}
	return folder, state, nil
}

func cacheFromEnv() (builder.Cache, error) {
	version := os.Getenv("K8S_VERSION")
	if version == "" {
		version = builder.DefaultKubernetes
	}
	return builder.NewCache(version)
}

// extraArgs collects --arg NAME=ARGUMENT.
type extraArgs map[string][]string

func (e extraArgs) String() string { return "" }

func (e extraArgs) Set(s string) error {
	name, arg, ok := strings.Cut(s, "=")
	if !ok {
		return errors.New("want NAME=ARGUMENT, such as kube-apiserver=--v=2")
	}
	e[name] = append(e[name], arg)
	return nil
}
