package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

// mostInterruptions are shown unless --all-interruptions asks for all.
const mostInterruptions = 5

func newStatusCommand(streams genericiooptions.IOStreams, clk clock.PassiveClock, connect connector) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show how a PathwaysJob is doing",
		Long: "Show how a PathwaysJob is doing: its state and why, the head, each slice with its pool and the restarts " +
			"that it has left, what interrupted it, and how a client connects.",
		Example: "  kubectl pathways status train -n team-a",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want the name of one PathwaysJob, not %d: kubectl pathways status NAME", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			reader, namespace, err := connect()
			if err != nil {
				return err
			}
			job, err := readJob(cmd.Context(), reader, namespace, args[0])
			if err != nil {
				return err
			}
			r := report{job: job, now: clk.Now(), all: all}
			r.headSince, r.headGone = headSince(cmd.Context(), reader, job)
			_, err = fmt.Fprint(streams.Out, r.String())
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all-interruptions", false, fmt.Sprintf("show all interruptions that are kept, not only the last %d", mostInterruptions))
	return cmd
}

// readJob reads a job; its errors say what to do about them.
func readJob(ctx context.Context, reader client.Reader, namespace, name string) (*v1.PathwaysJob, error) {
	job := &v1.PathwaysJob{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job)
	switch {
	case err == nil:
		return job, nil
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("this cluster has no PathwaysJobs: the operator's CRD pathwaysjobs.%s is not installed", v1.GroupVersion.Group)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no PathwaysJob %s in namespace %s%s", name, namespace, elsewhere(ctx, reader, namespace, name))
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read PathwaysJobs in namespace %s; the ClusterRole pathways-job-viewer allows it: %w", namespace, err)
	}
	return nil, fmt.Errorf("reading PathwaysJob %s in namespace %s: %w", name, namespace, err)
}

// elsewhere says in which other namespaces there is a job of the name, or else
// how to find out; a caller who may not look everywhere is told nothing more.
func elsewhere(ctx context.Context, reader client.Reader, namespace, name string) string {
	var list v1.PathwaysJobList
	if err := reader.List(ctx, &list, client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
		return "; -n names another namespace"
	}
	var found []string
	for i := range list.Items {
		if list.Items[i].Namespace != namespace {
			found = append(found, list.Items[i].Namespace)
		}
	}
	if len(found) == 0 {
		return ", nor in any other; kubectl get pathwaysjobs -A lists all"
	}
	slices.Sort(found)
	return fmt.Sprintf(", but in %s: kubectl pathways status %s -n %s", strings.Join(found, ", "), name, found[0])
}

// headSince is since when the head's pod is ready, or not ready; zero where
// nobody can tell, because the pod is gone or may not be read.
func headSince(ctx context.Context, reader client.Reader, job *v1.PathwaysJob) (since metav1.Time, gone bool) {
	head := job.Status.Head
	if head == nil || head.PodName == "" {
		return since, false
	}
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: head.PodName}, pod); err != nil {
		return since, apierrors.IsNotFound(err)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime, false
		}
	}
	return pod.CreationTimestamp, false
}
