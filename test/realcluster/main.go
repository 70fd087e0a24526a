// Command realcluster boots a Kubernetes cluster with real kubelets and
// containers on this machine, installs the operator in it as a Deployment by
// its chart, and ends it again. It needs root and Linux; nothing else runs as
// a container, and no registry is asked.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"pathways.domain/pathways-job/test/realcluster/cluster"
)

const usage = `usage: realcluster COMMAND

  check            say whether this machine can run it, and if not, why; installs
                   Debian's packages that it lacks
  build            compile all programs; the first time takes long
  up [--bare]      boot it and install the operator (--bare: without the operator)
  operator         build the operator anew and install it, or upgrade it
  down             end it and leave nothing behind but the caches of what was built
  env              print the shell commands that make kubectl use it
  kill HOST        end a host as a loss of power does
  start HOST       boot a host that was killed, as a new one, or a spare one
  hosts            list the hosts
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "realcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("no command")
	}
	argument := ""
	if len(args) > 1 {
		argument = args[1]
	}
	switch args[0] {
	case "check":
		return cluster.Check(ctx, os.Stderr)
	case "build":
		return cluster.Build(ctx, os.Stderr)
	case "up":
		if err := cluster.Up(ctx, os.Stderr); err != nil {
			return err
		}
		if argument != "--bare" {
			if err := cluster.InstallOperator(ctx, os.Stderr); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "it takes %d MB of memory\n", cluster.Memory()>>20)
		return env(ctx)
	case "operator":
		return cluster.ReinstallOperator(ctx, os.Stderr)
	case "down":
		return cluster.Down(ctx, os.Stderr)
	case "env":
		return env(ctx)
	case "kill", "start":
		host, err := cluster.Find(argument)
		if err != nil {
			return err
		}
		if args[0] == "kill" {
			return host.Kill(ctx)
		}
		return host.Start(ctx)
	case "hosts":
		for _, h := range cluster.Hosts {
			spare := ""
			if h.Spare {
				spare = ", spare"
			}
			fmt.Printf("%-10s pool %-6s %d chips%s\n", h.Name, h.Pool, h.Chips, spare)
		}
		return nil
	case "serve-images":
		return cluster.ServeImages()
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("no command is called %q", args[0])
}

func env(ctx context.Context) error {
	bin, err := cluster.Programs(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("export PATH=%s:$PATH\nexport KUBECONFIG=%s\n", bin, cluster.Kubeconfig())
	return nil
}
