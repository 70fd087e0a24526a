// Package worker is a worker of the stand-in: it holds state in memory, saves
// it when it is told to go, and reads back what its predecessor saved.
package worker

import (
	"fmt"
	"net"
	"strings"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/flags"
)

// Flags are those that the server image knows as a worker.
var Flags = []string{
	"server_port", "resource_manager_address", "gcs_scratch_location", "node_type",
	"enable_metrics_collection", "v", "vmodule", "minloglevel", "stderrthreshold", "megascale_*",
}

// Config is what a worker is started with.
type Config struct {
	// Port serves the proxy; OtherPorts are only held: the second server port
	// and the TPU runtime's.
	Port       int
	OtherPorts []int
	// Manager is host:port of the resource manager.
	Manager string
	// Scratch is the gs:// location for suspended state; empty: none.
	Scratch string
	// Emulator is STORAGE_EMULATOR_HOST.
	Emulator string
	// Slice of NumSlices, and the worker's index in it.
	Slice, NumSlices, Worker int
	// Megascale is the coordinator's address.
	Megascale string
	// Sidecar is host:port of the colocated Python sidecar.
	Sidecar string
	// Beat is the time between two heartbeats; Patience, how long the
	// resource manager may be silent before the worker gives up.
	Beat, Patience time.Duration
}

// Parse reads command line and environment.
func Parse(args []string, env *flags.Env) (Config, error) {
	set := flags.Known(Flags...)
	if err := set.Parse(args); err != nil {
		return Config{}, err
	}
	c := Config{
		Port:      set.Int("server_port", 29005),
		Manager:   set.Required("resource_manager_address"),
		Scratch:   strings.TrimSuffix(set.String("gcs_scratch_location", ""), "/"),
		Emulator:  env.Get("STORAGE_EMULATOR_HOST"),
		Sidecar:   "localhost:50051",
		Slice:     env.Index("MEGASCALE_SLICE_ID"),
		NumSlices: env.Index("MEGASCALE_NUM_SLICES"),
		Worker:    env.Index("JOB_COMPLETION_INDEX"),
		Megascale: env.Required("MEGASCALE_COORDINATOR_ADDRESS"),
		Beat:      time.Second,
		Patience:  10 * time.Second,
	}
	c.OtherPorts = []int{c.Port + 1, 8471, 8080}
	set.Bool("enable_metrics_collection")
	if err := set.Err(); err != nil {
		return Config{}, err
	}
	env.Required("JOBSET_NAME")
	env.Is("REPLICATED_JOB_NAME", "worker")
	env.Is("XCLOUD_ENVIRONMENT", "GCP")
	env.Is("TPU_MIN_LOG_LEVEL", "0")
	env.Is("TF_CPP_MIN_LOG_LEVEL", "0")
	env.Is("MEGASCALE_GRPC_ENABLE_XOR_TRACER", "false")
	head := env.Required("PATHWAYS_HEAD")
	if err := env.Err(); err != nil {
		return Config{}, err
	}
	host, _, err := net.SplitHostPort(c.Manager)
	switch {
	case err != nil:
		return Config{}, fmt.Errorf("flag --resource_manager_address: %w", err)
	case host != head:
		return Config{}, fmt.Errorf("flag --resource_manager_address names the host %q, but PATHWAYS_HEAD is %q", host, head)
	case c.Megascale != head:
		return Config{}, fmt.Errorf("environment variable MEGASCALE_COORDINATOR_ADDRESS is %q, but PATHWAYS_HEAD is %q", c.Megascale, head)
	}
	return c, nil
}
