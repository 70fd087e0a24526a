// Package plugin is the kubectl plugin: what it reads, and the text that it
// makes of it. Streams and clock are given to it.
package plugin

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

// NewCommand is `kubectl pathways`, with all its commands.
func NewCommand(streams genericiooptions.IOStreams, clk clock.PassiveClock, version string) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-pathways",
		Short:         "Look after PathwaysJobs",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl pathways"},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.CompletionOptions.DisableDefaultCmd = true

	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	flags := root.PersistentFlags()
	flags.StringVar(&rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "path of the kubeconfig file")
	clientcmd.BindOverrideFlags(overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))

	root.AddCommand(newStatusCommand(streams, clk, func() (client.Reader, string, error) {
		return connect(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides))
	}))
	return root
}

// connector gives a client, and the namespace that commands look in.
type connector func() (reader client.Reader, namespace string, err error)

func connect(config clientcmd.ClientConfig) (client.Reader, string, error) {
	namespace, _, err := config.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	rest, err := config.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("there is no kubeconfig: KUBECONFIG or --kubeconfig names the file")
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, "", err
	}
	c, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", fmt.Errorf("connecting to the cluster: %w", err)
	}
	return c, namespace, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering the API: %w", err)
		}
	}
	return scheme, nil
}
