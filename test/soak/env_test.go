//go:build soak

// Package soak runs faults at random on a local cluster for a long time: the
// operator is killed in the middle of them, and the API server falls silent.
// SOAK_FAULTS is how many faults (50), SOAK_SEED where their dice begin.
package soak

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"pathways.domain/pathways-job/internal/testing/cluster"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// env is a cluster with the operator in it, which runs as its ServiceAccount.
type env struct {
	*cluster.Cluster
	program, kubeconfig, log string
}

// newEnv boots a cluster that ends with the test, and installs all but the
// running operator.
func newEnv(t *testing.T) *env {
	t.Helper()
	ctx := t.Context()
	e := &env{}
	var err error
	if e.program, err = cluster.BuildOperator(ctx); err != nil {
		t.Fatal(err)
	}
	// Kubernetes' own patience with silent hosts: with less, others than those
	// that are to fall silent do on a busy machine.
	if e.Cluster, err = cluster.Start(ctx, cluster.Options{Progress: io.Discard}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Install(ctx); err != nil {
		t.Fatal(err)
	}
	e.kubeconfig, e.log = filepath.Join(e.Dir, "operator.kubeconfig"), filepath.Join(e.Dir, "operator.log")
	if err := e.ServiceAccountKubeconfig(ctx, cluster.SystemNamespace, cluster.OperatorAccount, e.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return e
}

// operator is one life of the operator after the other.
type operator struct {
	env *env
	// steady is closed when no more kills may follow.
	steady chan struct{}
	done   sync.WaitGroup

	mu    sync.Mutex
	now   *cluster.Operator
	err   error
	kills int
}

// start runs the operator until the end of the test. If a random source is
// given, it is killed every 1 to 3 s, until calm.
func (e *env) start(t *testing.T, killed *rand.Rand) *operator {
	t.Helper()
	o := &operator{env: e, steady: make(chan struct{})}
	o.again()
	o.done.Go(func() {
		for killed != nil && o.failed() == nil {
			select {
			case <-o.steady:
				return
			case <-time.After(time.Second + time.Duration(killed.Int64N(int64(2*time.Second)))):
				o.kill()
			}
		}
	})
	t.Cleanup(func() {
		o.calm()
		if err := o.now.Stop(); err != nil {
			t.Error(err)
		}
		if err := o.failed(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(o.now.Tail(60))
		}
	})
	return o
}

// calm ends the kills; the last operator runs on.
func (o *operator) calm() {
	select {
	case <-o.steady:
	default:
		close(o.steady)
	}
	o.done.Wait()
}

func (o *operator) kill() {
	select {
	case <-o.now.Exited():
		o.fail(errors.New("the operator ended by itself: " + o.now.Tail(20)))
		return
	default:
	}
	if err := o.now.Kill(); err != nil {
		o.fail(err)
		return
	}
	o.kills++
	o.again()
}

func (o *operator) again() {
	log, err := os.OpenFile(o.env.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		o.fail(err)
		return
	}
	next, err := cluster.StartOperator(cluster.OperatorOptions{
		Program: o.env.program, Kubeconfig: o.env.kubeconfig, Log: log,
		Args: []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"},
	})
	if err != nil {
		o.fail(err)
		return
	}
	o.now = next
}

func (o *operator) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = errors.Join(o.err, err)
}

func (o *operator) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// eventually waits until nothing is missing.
func eventually(t *testing.T, timeout time.Duration, missing func(context.Context) string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		last = missing(ctx)
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("after %s: %s", timeout, last)
	}
}

// setting is a number of the environment.
func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
