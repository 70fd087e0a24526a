// Package manager is the resource manager of the stand-in: workers register
// with it, and it says which slices are healthy.
package manager

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/flags"
)

// Flags are those that the server image knows as a resource manager.
var Flags = []string{
	"server_port", "gcs_scratch_location", "node_type", "instance_count", "instance_type",
	"enable_metrics_collection", "v", "vmodule", "minloglevel", "stderrthreshold",
}

// Config is what a resource manager is started with.
type Config struct {
	// Port of its server; the second one is the next.
	Port, SecondPort int
	// NumSlices and WorkersPerSlice of the job.
	NumSlices, WorkersPerSlice int
	// HostAddress is the DNS name under which others find this host.
	HostAddress string
	// Timeout after which a worker that says nothing counts as gone.
	Timeout time.Duration
}

// Parse reads command line and environment.
func Parse(args []string, env *flags.Env) (Config, error) {
	set := flags.Known(Flags...)
	if err := set.Parse(args); err != nil {
		return Config{}, err
	}
	c := Config{Port: set.Int("server_port", 29001), NumSlices: set.Int("instance_count", 0), Timeout: 5 * time.Second}
	c.SecondPort = c.Port + 1
	set.Bool("enable_metrics_collection")
	instance := set.Required("instance_type")
	if err := set.Err(); err != nil {
		return Config{}, err
	}
	if c.NumSlices == 0 {
		return Config{}, errors.New("flag --instance_count must be above 0")
	}
	var err error
	if c.WorkersPerSlice, err = workersPerSlice(instance); err != nil {
		return Config{}, fmt.Errorf("flag --instance_type: %w", err)
	}
	c.HostAddress = env.Required("HOST_ADDRESS")
	env.Required("JOBSET_NAME")
	env.Is("REPLICATED_JOB_NAME", "pathways-head")
	env.Is("TPU_SKIP_MDS_QUERY", "true")
	return c, env.Err()
}

// workersPerSlice reads an instance type such as tpuv5e:4x4: a worker has
// four chips, or, where a slice has fewer or the name says 1t, all of them.
func workersPerSlice(instance string) (int, error) {
	kind, topology, ok := strings.Cut(instance, ":")
	if !ok {
		return 0, fmt.Errorf("%q is not like tpuv5e:4x4", instance)
	}
	dims := 3
	switch kind {
	case "tpuv5e", "tpuv6e", "tpuv5e1t", "tpuv6e1t":
		dims = 2
	case "tpuv4", "tpuv5", "tpu7x":
	default:
		return 0, fmt.Errorf("%q is no instance type", kind)
	}
	sides := strings.Split(topology, "x")
	if len(sides) != dims {
		return 0, fmt.Errorf("%s has topologies of %d sides, not %q", kind, dims, topology)
	}
	chips := 1
	for _, side := range sides {
		n, err := strconv.Atoi(side)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%q is no topology", topology)
		}
		chips *= n
	}
	if strings.HasSuffix(kind, "1t") {
		return 1, nil
	}
	return max(1, chips/4), nil
}
