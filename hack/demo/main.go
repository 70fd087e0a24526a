// Command demo shows on the local cluster what a PathwaysJob is: it makes node
// pools, starts the operator, runs config/samples, and takes a host away from
// a running job. `make demo` builds all that it needs.
//
// It leaves the cluster running, and can be run again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

// Deadlines, generous for slow machines.
const (
	jobsDeadline   = 4 * time.Minute
	faultDeadline  = 4 * time.Minute
	repairDeadline = 2 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrllog.SetLogger(logr.Discard()) // what the client would log comes back as an error
	err := run(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted; `make cluster-down` ends the cluster")
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := newPrinter(os.Stdout)
	out.step("A Kubernetes control plane on this machine")
	c, err := cluster.Up(ctx, out.indented())
	if err != nil {
		return err
	}
	d := &demo{
		Cluster: c, out: out, samples: filepath.Join(envtest.Root(), "config", "samples"), shown: map[string]string{},
	}

	out.step("Node pools: CPU machines for the heads, TPU slices for the workers")
	if err := d.makePools(ctx); err != nil {
		return err
	}
	out.step("The operator, as the ServiceAccount that an installation makes")
	if err := d.install(ctx); err != nil {
		return err
	}
	if err := d.live(ctx); err != nil {
		return errors.Join(err, d.explain())
	}
	return d.goodbye(ctx)
}

// live is the part of the demo in which jobs run.
func (d *demo) live(ctx context.Context) error {
	d.out.step("The samples: kubectl apply -k config/samples")
	if err := d.applySamples(ctx); err != nil {
		return err
	}
	d.out.step("The program of job training ends with exit code 0")
	if err := d.finishTraining(ctx); err != nil {
		return err
	}
	d.out.step("A host of job elastic loses power")
	return d.loseHost(ctx)
}

// demo is what its steps share.
type demo struct {
	*cluster.Cluster
	out *printer
	// samples is the folder of the samples.
	samples string
	// operatorLog is the file that the operator writes to.
	operatorLog string
	// shown is what was last printed of each job.
	shown map[string]string
}
