// Package sidecar is the colocated Python sidecar of the stand-in.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/flags"
	"pathways.domain/pathways-job/test/standin/internal/wire"
)

// Parse reads the address to listen on from the environment. The real one
// takes no flags that we know of; only --sidecar_* pass here.
func Parse(args []string, env *flags.Env) (string, error) {
	if err := flags.Known("sidecar_*").Parse(args); err != nil {
		return "", err
	}
	address := env.Required("GRPC_SERVER_ADDRESS")
	if err := env.Err(); err != nil {
		return "", err
	}
	if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
		return "", fmt.Errorf("environment variable GRPC_SERVER_ADDRESS: %w", err)
	}
	return address, nil
}

// Serve runs Python operations until the context ends.
func Serve(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log.Printf("colocated Python sidecar on %s", l.Addr())
	mux := http.NewServeMux()
	wire.Handle(mux, "POST /v1/run", func(_ context.Context, _ string, op wire.Op) (wire.Buffer, error) {
		return wire.Buffer{Step: op.Step, Value: fmt.Sprintf("python-%d", op.Step)}, nil
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
