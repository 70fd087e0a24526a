// Command standin plays all parts of a Pathways workload in the tests with
// real containers. It is not Google's Pathways: it takes the same flags,
// ports and environment, and behaves as the public documents say.
//
// Each image of the tests starts it with another role. What differs from one
// build of an image to another stands before the role:
//
//	standin [-elastic-flag=instances|slices] [-exit-on-sigterm=143] ROLE FLAGS...
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"pathways.domain/pathways-job/test/standin/internal/flags"
	"pathways.domain/pathways-job/test/standin/internal/manager"
	"pathways.domain/pathways-job/test/standin/internal/program"
	"pathways.domain/pathways-job/test/standin/internal/proxy"
	"pathways.domain/pathways-job/test/standin/internal/sidecar"
	"pathways.domain/pathways-job/test/standin/internal/store"
	"pathways.domain/pathways-job/test/standin/internal/worker"
)

// build is what differs from one build of an image to another.
type build struct {
	elasticFlag   string
	exitOnSigterm int
}

func main() {
	var b build
	elastic := flag.String("elastic-flag", "instances", "the elastic flag that the proxy knows: instances or slices")
	flag.IntVar(&b.exitOnSigterm, "exit-on-sigterm", 143, "exit code of a worker that was suspended")
	flag.Parse()
	b.elasticFlag = "num_elastic_" + *elastic
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if flag.NArg() == 0 {
		log.Fatal("no role: server, proxy_server, colocated_python_sidecar, main, object_store or pause")
	}
	code, err := b.run(flag.Arg(0), flag.Args()[1:])
	if err != nil {
		log.Printf("%s: %v", flag.Arg(0), err)
	}
	os.Exit(code)
}

// run plays a role and returns the exit code.
func (b build) run(role string, args []string) (int, error) {
	terminate, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	env := flags.NewEnv(os.LookupEnv)
	id := strings.ToLower(rand.Text()[:8])
	var err error
	switch role {
	case "server":
		return b.server(terminate, args, env, id)
	case "proxy_server":
		var config proxy.Config
		if config, err = proxy.Parse(args, env, b.elasticFlag); err == nil {
			err = proxy.New(config, id).Serve(terminate)
		}
	case "colocated_python_sidecar":
		var address string
		if address, err = sidecar.Parse(args, env); err == nil {
			err = sidecar.Serve(terminate, address)
		}
	case "main":
		return train(terminate, args, env, id)
	case "object_store":
		err = serveObjects(terminate, args)
	case "pause":
		<-terminate.Done()
	default:
		err = errors.New("unknown role")
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// server is the image of both the resource manager and the worker.
func (b build) server(terminate context.Context, args []string, env *flags.Env, id string) (int, error) {
	isManager := false
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--node_type="); ok {
			isManager = value == "resource_manager"
		}
	}
	if isManager {
		config, err := manager.Parse(args, env)
		if err == nil {
			err = manager.New(config, id).Serve(terminate)
		}
		if err != nil {
			return 1, err
		}
		return 0, nil
	}
	config, err := worker.Parse(args, env)
	if err != nil {
		return 1, err
	}
	err = worker.New(config, id).Run(context.Background(), terminate)
	if errors.Is(err, worker.ErrSuspended) {
		return b.exitOnSigterm, nil
	}
	return 1, err
}

func train(terminate context.Context, args []string, env *flags.Env, id string) (int, error) {
	config, err := program.Parse(args, env)
	if err != nil {
		return 2, err
	}
	log.Printf("process %s", id)
	result, err := program.Run(context.Background(), terminate, config, id)
	fmt.Println(result.Line())
	switch {
	case err == nil:
		return 0, nil
	case terminate.Err() != nil:
		return 143, err
	case len(result.Wrong) > 0:
		return 3, err
	}
	return 1, err
}

func serveObjects(terminate context.Context, args []string) error {
	set := flags.Known("listen")
	if err := set.Parse(args); err != nil {
		return err
	}
	l, err := net.Listen("tcp", set.String("listen", ":4443"))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log.Printf("object store on %s", l.Addr())
	server := &http.Server{Handler: store.NewServer().Handler(), ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(terminate, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
