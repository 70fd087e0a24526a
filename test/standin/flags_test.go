package main

import (
	"maps"
	"strings"
	"testing"

	"pathways.domain/pathways-job/test/standin/internal/flags"
	"pathways.domain/pathways-job/test/standin/internal/manager"
	"pathways.domain/pathways-job/test/standin/internal/program"
	"pathways.domain/pathways-job/test/standin/internal/proxy"
	"pathways.domain/pathways-job/test/standin/internal/sidecar"
	"pathways.domain/pathways-job/test/standin/internal/worker"
)

// Each role takes what the JobSet gives it, and nothing else.
func TestCommandLines(t *testing.T) {
	const head = "job-pathways-head-0-0.job"
	parse := map[string]func([]string, *flags.Env) error{
		"manager": func(a []string, e *flags.Env) error { _, err := manager.Parse(a, e); return err },
		"proxy":   func(a []string, e *flags.Env) error { _, err := proxy.Parse(a, e, proxy.ElasticInstances); return err },
		"pinned":  func(a []string, e *flags.Env) error { _, err := proxy.Parse(a, e, proxy.ElasticSlices); return err },
		"worker":  func(a []string, e *flags.Env) error { _, err := worker.Parse(a, e); return err },
		"sidecar": func(a []string, e *flags.Env) error { _, err := sidecar.Parse(a, e); return err },
		"main":    func(a []string, e *flags.Env) error { _, err := program.Parse(a, e); return err },
	}
	args := map[string]string{
		"manager": "--server_port=29001 --gcs_scratch_location=gs://b/s --node_type=resource_manager --instance_count=2 --instance_type=tpuv5e:4x4",
		"proxy":   "--server_port=29000 --resource_manager_address=" + head + ":29001 --gcs_scratch_location=gs://b/s --num_elastic_instances=2",
		"pinned":  "--server_port=29000 --resource_manager_address=" + head + ":29001 --gcs_scratch_location=gs://b/s --num_elastic_slices=1",
		"worker":  "--server_port=29005 --resource_manager_address=" + head + ":29001 --gcs_scratch_location=gs://b/s",
		"sidecar": "",
		"main":    "--steps=10",
	}
	env := map[string]string{
		"JOBSET_NAME": "job", "HOST_ADDRESS": head, "TPU_SKIP_MDS_QUERY": "true", "PATHWAYS_HEAD": head,
		"XCLOUD_ENVIRONMENT": "GCP", "TPU_MIN_LOG_LEVEL": "0", "TF_CPP_MIN_LOG_LEVEL": "0",
		"MEGASCALE_GRPC_ENABLE_XOR_TRACER": "false", "MEGASCALE_NUM_SLICES": "2", "MEGASCALE_SLICE_ID": "1",
		"MEGASCALE_COORDINATOR_ADDRESS": head, "JOB_COMPLETION_INDEX": "3", "GRPC_SERVER_ADDRESS": "0.0.0.0:50051",
		"JAX_PLATFORMS": "proxy", "JAX_BACKEND_TARGET": "grpc://" + head + ":29000",
	}
	for name, tt := range map[string]struct {
		role, args string
		env        map[string]string
		want       string // in the error; empty: none
	}{
		"manager":                  {role: "manager"},
		"proxy":                    {role: "proxy"},
		"pinned proxy":             {role: "pinned"},
		"worker":                   {role: "worker"},
		"sidecar":                  {role: "sidecar"},
		"main":                     {role: "main"},
		"XLA flags on the proxy":   {role: "proxy", args: "--xla_x=1"},
		"XLA flags on the worker":  {role: "worker", args: "--xla_x=1", want: "unknown command line flag 'xla_x'"},
		"metrics":                  {role: "worker", args: "--enable_metrics_collection=true"},
		"sidecar of the proxy":     {role: "proxy", args: "--sidecar_name=external"},
		"unknown flag":             {role: "manager", args: "--nonsense=1", want: "unknown command line flag 'nonsense'"},
		"the other elastic flag":   {role: "proxy", args: "--num_elastic_slices=1", want: "unknown command line flag 'num_elastic_slices'"},
		"the newer elastic flag":   {role: "pinned", args: "--num_elastic_instances=1", want: "unknown command line flag 'num_elastic_instances'"},
		"last one wins":            {role: "manager", args: "--instance_type=tpuv5e:4x4x4 --instance_type=tpuv5:4x4x4"},
		"last one is bad":          {role: "manager", args: "--instance_type=tpuv5e:4x4x4", want: "tpuv5e has topologies of 2 sides"},
		"value apart":              {role: "manager", args: "--instance_count 3"},
		"no number":                {role: "manager", args: "--instance_count=two", want: `"two" is not a number`},
		"nobody replaced it":       {role: "worker", args: "--resource_manager_address=$(PATHWAYS_HEAD):29001", want: "a variable that nobody replaced"},
		"another head":             {role: "worker", args: "--resource_manager_address=other:29001", want: `names the host "other"`},
		"another coordinator":      {role: "worker", env: map[string]string{"MEGASCALE_COORDINATOR_ADDRESS": "other"}, want: "MEGASCALE_COORDINATOR_ADDRESS"},
		"no slice id":              {role: "worker", env: map[string]string{"MEGASCALE_SLICE_ID": ""}, want: "MEGASCALE_SLICE_ID is required"},
		"no completion index":      {role: "worker", env: map[string]string{"JOB_COMPLETION_INDEX": ""}, want: "JOB_COMPLETION_INDEX is required"},
		"no GCP":                   {role: "worker", env: map[string]string{"XCLOUD_ENVIRONMENT": "AWS"}, want: "XCLOUD_ENVIRONMENT"},
		"quotes in the address":    {role: "sidecar", env: map[string]string{"GRPC_SERVER_ADDRESS": "'0.0.0.0:50051'"}, want: "GRPC_SERVER_ADDRESS"},
		"JAX on CPU":               {role: "main", env: map[string]string{"JAX_PLATFORMS": "cpu"}, want: "JAX_PLATFORMS"},
		"main knows no other flag": {role: "main", args: "--stpes=1", want: "unknown command line flag 'stpes'"},
	} {
		t.Run(name, func(t *testing.T) {
			vars := maps.Clone(env)
			vars["REPLICATED_JOB_NAME"] = "pathways-head"
			if tt.role == "worker" {
				vars["REPLICATED_JOB_NAME"] = "worker"
			}
			maps.Copy(vars, tt.env)
			lookup := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
			err := parse[tt.role](strings.Fields(args[tt.role]+" "+tt.args), flags.NewEnv(lookup))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got the error %v, want one with %q", err, tt.want)
			}
		})
	}
}
