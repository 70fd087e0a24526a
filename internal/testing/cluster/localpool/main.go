// Command localpool makes node pools in the local cluster, and breaks their hosts, for people who try things by hand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"pathways.domain/pathways-job/internal/testing/cluster"
)

const usage = `usage: localpool COMMAND, in the cluster whose folder PATHWAYS_CLUSTER_DIR names

  create -name=NAME [-machine-type=ct5p-hightpu-4t -topology=2x2x2] [-hosts=N] [-zone=ZONE] [-spot]
         a TPU slice pool, or CPU machines where there is no machine type
  delete POOL    delete all nodes of a pool
  kill NODE      the host falls silent
  revive NODE    and comes back
  notice NODE    the host announces its termination
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "localpool:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("no command")
	}
	c, err := cluster.Attach(os.Getenv(cluster.DirEnv))
	if err != nil {
		return err
	}
	if args[0] == "create" {
		return create(ctx, c, args[1:])
	}
	commands := map[string]func(context.Context, string) error{
		"delete": c.DeletePool, "kill": c.KillHost, "revive": c.ReviveHost, "notice": c.Notice,
	}
	command, ok := commands[args[0]]
	if !ok || len(args) != 2 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("want a command and one name")
	}
	return command(ctx, args[1])
}

func create(ctx context.Context, c *cluster.Cluster, args []string) error {
	var p cluster.Pool
	flags := flag.NewFlagSet("create", flag.ExitOnError)
	flags.StringVar(&p.Name, "name", "", "the pool's name")
	flags.StringVar(&p.MachineType, "machine-type", "", "a GKE TPU machine type; none makes CPU machines")
	flags.StringVar(&p.Topology, "topology", "", "the slice's shape in chips")
	flags.IntVar(&p.Hosts, "hosts", 0, "number of nodes; as many as the topology demands")
	flags.StringVar(&p.Zone, "zone", cluster.DefaultZone, "where the pool is")
	flags.BoolVar(&p.Spot, "spot", false, "spot machines")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.Name == "" {
		return errors.New("create: -name is missing")
	}
	names, err := c.CreatePool(ctx, p)
	if err != nil {
		return err
	}
	for _, n := range names {
		fmt.Println(n)
	}
	return nil
}
