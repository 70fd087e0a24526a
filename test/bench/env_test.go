//go:build bench

// Package bench measures the operator on a local cluster with Kubernetes' own
// settings, against budgets.yaml, and writes docs/benchmarks.md.
package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

const (
	systemNamespace = "pathways-job-system"
	operatorAccount = "pathways-job-controller-manager"
	operatorUser    = "system:serviceaccount:" + systemNamespace + ":" + operatorAccount
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// env is a cluster that the operator is installed in, but not running.
type env struct {
	*cluster.Cluster
	program, kubeconfig, audit string
	// revision of the source.
	revision string
}

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [` + operatorUser + `]
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// newEnv boots a cluster that ends with the test, and installs the CRD, roles
// and policies of config/. The API server notes the operator's writes.
func newEnv(t *testing.T) *env {
	t.Helper()
	ctx := t.Context()
	folder := t.TempDir()
	policy, audit := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Args: []string{"kube-apiserver=--audit-policy-file=" + policy, "kube-apiserver=--audit-log-path=" + audit},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := filepath.Join(envtest.Root(), "config")
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(config, "manager", "namespace.yaml")},
		{"apply", "-k", filepath.Join(config, "crd")},
		{"apply", "-k", filepath.Join(config, "rbac")},
		{"apply", "-k", filepath.Join(config, "admission")},
	} {
		if _, err := c.Kubectl(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	e := &env{Cluster: c, kubeconfig: filepath.Join(folder, "operator.kubeconfig"), audit: audit}
	eventually(t, time.Minute, "PathwaysJobs are served", func() bool {
		return c.Client.List(ctx, &v1.PathwaysJobList{}) == nil
	})
	if err := c.ServiceAccountKubeconfig(ctx, systemNamespace, operatorAccount, e.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if e.program, err = cluster.BuildOperator(ctx); err != nil {
		t.Fatal(err)
	}
	describe := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD")
	describe.Dir = envtest.Root()
	if out, err := describe.Output(); err == nil {
		e.revision = strings.TrimSpace(string(out))
	} else {
		e.revision = "unknown" // no clone
	}
	return e
}

// operator runs the operator with its default settings until stop or the end
// of the test.
func (e *env) operator(t *testing.T, args ...string) (o *cluster.Operator, stop func()) {
	t.Helper()
	o, err := cluster.StartOperator(cluster.OperatorOptions{
		Program: e.program, Kubeconfig: e.kubeconfig,
		Args: append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, args...),
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := o.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(o.Tail(30))
		}
		stop()
	})
	return o, stop
}

// namespace makes a namespace; remove deletes it and waits until it is gone.
func (e *env) namespace(t *testing.T, name string) (remove func()) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := e.Client.Delete(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		eventually(t, 5*time.Minute, "namespace "+name+" is gone", func() bool {
			return apierrors.IsNotFound(e.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), &corev1.Namespace{}))
		})
	}
}

// until waits until ok, looking often enough to measure by it.
func until(ctx context.Context, timeout time.Duration, what string, ok func() bool) error {
	err := wait.PollUntilContextTimeout(ctx, sampling, timeout, true, func(context.Context) (bool, error) {
		return ok(), nil
	})
	if err != nil {
		return fmt.Errorf("not so after %s: %s: %w", timeout, what, err)
	}
	return nil
}

// eventually is until in a test that ends if it is not so.
func eventually(t *testing.T, timeout time.Duration, what string, ok func() bool) {
	t.Helper()
	if err := until(t.Context(), timeout, what, ok); err != nil {
		t.Fatal(err)
	}
}

// median of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

func round(v float64) float64 { return float64(int64(v*100+0.5)) / 100 }
