package cluster

import (
	"context"
	"path/filepath"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

// The names of what Install installs.
const (
	// SystemNamespace is the operator's namespace.
	SystemNamespace = "pathways-job-system"
	// OperatorAccount is the operator's ServiceAccount.
	OperatorAccount = "pathways-job-controller-manager"
)

// Install applies the CRD, roles and policies of config/, all but the running operator, and returns when
// PathwaysJobs are served.
func (c *Cluster) Install(ctx context.Context) error {
	config := filepath.Join(envtest.Root(), "config")
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(config, "manager", "namespace.yaml")},
		{"apply", "-k", filepath.Join(config, "crd")},
		{"apply", "-k", filepath.Join(config, "rbac")},
		{"apply", "-k", filepath.Join(config, "admission")},
		{"wait", "--for=condition=Established", "--timeout=1m", "crd/pathwaysjobs.pathways-job.pathways.domain"},
	} {
		if _, err := c.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
