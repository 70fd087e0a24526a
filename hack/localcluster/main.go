// Command localcluster builds and runs a Kubernetes cluster on loopback, without images, containers or root:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and the JobSet manager are the real programs,
// built from their Go modules; the kubelets are simulated by KWOK (internal/kwok says what its pods do).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

const usage = `usage: localcluster COMMAND [flags]

  build [NAME...]  build the programs into the cache; what is there is skipped
  bin              print the cache's folder of programs (KUBEBUILDER_ASSETS of envtest)
  up               boot a cluster, building what is missing, and tell how to use it
  down             end it and remove its folder
  run PROGRAM ...  start a program beside the cluster, which ends with it; an argument must name a file in its folder
  status           list its programs
  dir              print its folder
  env              print the shell commands that make kubectl use it

localcluster COMMAND -h lists a command's flags.

K8S_VERSION            the version of Kubernetes
PATHWAYS_CACHE         the cache, else ${XDG_CACHE_HOME:-~/.cache}/pathways-job
PATHWAYS_CLUSTER_DIR   the cluster's folder, else cluster in the cache; --dir goes before it
`

func init() {
	// Children are started from the main thread, so that they can be made to die with it (PR_SET_PDEATHSIG).
	runtime.LockOSThread()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{
		"build": build, "bin": bin, "up": up, "down": down, "run": guest, "status": status, "dir": folder, "env": env,
	}
	if len(args) > 0 {
		switch args[0] {
		case "help", "-h", "--help":
			fmt.Print(usage)
			return nil
		}
		if command, ok := commands[args[0]]; ok {
			return command(ctx, args[1:])
		}
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("no command is called %q", args[0])
	}
	fmt.Fprint(os.Stderr, usage)
	return errors.New("no command")
}

// parse parses a command's flags, and refuses arguments after them.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes flags only, not %q", flags.Name(), flags.Arg(0))
	}
	return nil
}
