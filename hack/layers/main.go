// Command layers runs the layers of the test suite one after the other and
// closes with a table of what they found:
//
//	go run ./hack/layers NAME='COMMAND' ...
//
// A layer is a shell command. All of them run, whatever the earlier ones
// found. Those that end in `go test -json` are counted by test, and only
// their failures and closing lines are shown; -v shows all. The exit code is 0
// when every layer passed and at least one test ran.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	verbose := flag.Bool("v", false, "show the output of tests that pass, too")
	flag.Parse()
	layers, err := parse(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "layers:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	results := make([]result, 0, len(layers))
	for _, l := range layers {
		if ctx.Err() != nil {
			break
		}
		fmt.Printf("=== %s\n", l.name)
		results = append(results, l.run(ctx, os.Stdout, *verbose))
	}
	if !report(os.Stdout, results) || len(results) < len(layers) {
		os.Exit(1)
	}
}

// layer is one command.
type layer struct{ name, command string }

// result is what a layer found.
type result struct {
	name string
	counts
	took time.Duration
	err  error
}

func parse(args []string) ([]layer, error) {
	if len(args) == 0 {
		return nil, errors.New("no layers; say NAME='COMMAND'")
	}
	layers := make([]layer, 0, len(args))
	for _, arg := range args {
		name, command, ok := strings.Cut(arg, "=")
		if !ok || name == "" || command == "" {
			return nil, fmt.Errorf("%q is not NAME='COMMAND'", arg)
		}
		layers = append(layers, layer{name, command})
	}
	return layers, nil
}

// run runs the layer's command, and shows and counts what it prints.
func (l layer) run(ctx context.Context, out io.Writer, verbose bool) result {
	r := result{name: l.name}
	start := time.Now()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", l.command)
	// An interrupt goes to the command first, so that it can clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.err = fmt.Errorf("starting: %w", err)
		return r
	}
	c := counter{out: out, verbose: verbose}
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			c.line(line)
		}
		if err != nil {
			break
		}
	}
	r.err = cmd.Wait()
	r.counts, r.took = c.counts, time.Since(start)
	return r
}

// report prints the closing table and says whether everything passed.
func report(out io.Writer, results []result) bool {
	fmt.Fprintln(out, "\n=== summary")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LAYER\tRESULT\tPASSED\tFAILED\tSKIPPED\tTIME")
	var sum counts
	ok := true
	for _, r := range results {
		verdict := "ok"
		if r.err != nil || r.failed > 0 {
			verdict, ok = "FAILED", false
			r.failed = max(r.failed, 1) // what did not even build is a failure, too
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", r.name, verdict, r.passed, r.failed, r.skipped, r.took.Round(time.Second))
		sum.add(r.counts)
	}
	_ = w.Flush()
	for _, r := range results {
		if r.err != nil {
			fmt.Fprintf(out, "%s: %v\n", r.name, r.err)
		}
	}
	if sum.passed == 0 {
		fmt.Fprintln(out, "no test ran")
		ok = false
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	return ok
}
