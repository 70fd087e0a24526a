package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Namespace and release of the operator.
const (
	OperatorNamespace = "pathways-job-system"
	operatorRelease   = "pathways-job"
)

// InstallOperator installs the operator by its chart, from the image that is
// served here, and waits until it is ready. The stand-in's images take the
// place of Google's.
func InstallOperator(ctx context.Context, progress io.Writer, values ...string) error {
	repo, err := repository()
	if err != nil {
		return err
	}
	began := time.Now()
	args := []string{
		"upgrade", "--install", operatorRelease, "charts/pathways-job",
		"--namespace", OperatorNamespace, "--create-namespace", "--wait", "--timeout", "2m",
		"--set", "image.repository=" + ImageOperator, "--set", "image.tag=" + TagLatest, "--set", "image.pullPolicy=Always",
		"--set", "manager.serverImage=" + ImageServer, "--set", "manager.proxyImage=" + ImageProxy,
	}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	cmd := exec.CommandContext(ctx, program("helm"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = repo, progress, progress
	cmd.Env = append(os.Environ(), "KUBECONFIG="+Kubeconfig())
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install the operator by its chart: %w", err)
	}
	fmt.Fprintf(progress, "the operator is ready after %s\n", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// ReinstallOperator builds the operator anew and puts it in the place of the
// one that runs.
func ReinstallOperator(ctx context.Context, progress io.Writer) error {
	if err := Build(ctx, progress); err != nil {
		return err
	}
	if err := kill("images"); err != nil {
		return err
	}
	if err := start("images", nil, program("realcluster"), "serve-images"); err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s:%d/v2/", Address, imagePort)
	if err := waitFor(ctx, "the images", func() bool { return answers(ctx, url) }); err != nil {
		return err
	}
	return InstallOperator(ctx, progress, fmt.Sprintf("podAnnotations.built=t%d", time.Now().Unix()))
}
