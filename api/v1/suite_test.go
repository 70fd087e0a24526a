package v1_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"pathways.domain/pathways-job/internal/testing/envtest"
)

// config is an administrator's of the API server that all tests share. Each
// test uses objects of its own.
var config *rest.Config

// kubeconfig says the same to kubectl.
var kubeconfig []byte

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	log.SetLogger(logr.Discard())
	env, err := envtest.Start(context.Background(), envtest.Options{Policies: true})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := env.Stop(); err == nil {
			err = stopErr
		}
	}()
	config, kubeconfig = env.Config, env.Kubeconfig()
	return m.Run(), nil
}

// newClient is an administrator's client that hands warnings to the handler.
func newClient(t *testing.T, warnings rest.WarningHandler) client.Client {
	t.Helper()
	cfg := rest.CopyConfig(config)
	cfg.WarningHandler = warnings
	cfg.QPS, cfg.Burst = 1000, 1000
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// recorder keeps the warnings of the API server.
type recorder struct{ got []string }

func (r *recorder) HandleWarningHeader(code int, _ string, text string) {
	if code == 299 {
		r.got = append(r.got, text)
	}
}

// merge applies a JSON merge patch to an object in place.
func merge(t *testing.T, object map[string]any, patch string) {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal([]byte(patch), &p); err != nil {
		t.Fatalf("parsing %s: %v", patch, err)
	}
	mergeMap(object, p)
}

func mergeMap(object, patch map[string]any) {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(object, k)
		case map[string]any:
			child, ok := object[k].(map[string]any)
			if !ok {
				child = map[string]any{}
				object[k] = child
			}
			mergeMap(child, v)
		default:
			object[k] = v
		}
	}
}
