package elastic

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
)

// unlessEnding does what restarts the whole job, unless a live read of the
// head says that the job is ending by itself: a worker's Job failed in that
// moment would turn success into failure.
func (a *actor) unlessEnding(ctx context.Context, job *v1.PathwaysJob, do func() error) error {
	ending, err := a.ending(ctx, job)
	if err != nil {
		return err
	}
	if ending != "" {
		log.FromContext(ctx).Info("No whole restart: the job is ending", "because", ending)
		return nil
	}
	return do()
}

// ending says why the job is ending, by live reads of the head's Job and
// pods; "" if it is not.
func (a *actor) ending(ctx context.Context, job *v1.PathwaysJob) (string, error) {
	jobs, err := a.headJobs(ctx, job)
	if err != nil {
		return "", err
	}
	present := map[types.UID]bool{}
	for i := range jobs {
		if headJobEnded(&jobs[i]) {
			return "the head's Job has ended", nil
		}
		present[jobs[i].UID] = true
	}
	var pods corev1.PodList
	if err := a.live.List(ctx, &pods, ofHead(job)...); err != nil {
		return "", fmt.Errorf("reading the head's pod: %w", err)
	}
	main, _ := render.MainContainer(job)
	for i := range pods.Items {
		p := &pods.Items[i]
		if of := metav1.GetControllerOf(p); of == nil || !present[of.UID] {
			continue // someone deleted its Job
		}
		if !p.DeletionTimestamp.IsZero() {
			return "the head's pod is terminating", nil
		}
		if phase(p).Terminal() {
			return "the head's pod has ended", nil
		}
		if c := containerStatus(p, main); main != "" && c != nil && mainEnded(p, c) {
			return "the main container has ended", nil
		}
	}
	return "", nil
}

// headJobs reads the head's Job live; of a restart there may be two.
func (a *actor) headJobs(ctx context.Context, job *v1.PathwaysJob) ([]batchv1.Job, error) {
	var jobs batchv1.JobList
	if err := a.live.List(ctx, &jobs, ofHead(job)...); err != nil {
		return nil, fmt.Errorf("reading the head's Job: %w", err)
	}
	return jobs.Items, nil
}

// ofHead selects the head's Job and pods.
func ofHead(job *v1.PathwaysJob) []client.ListOption {
	return []client.ListOption{client.InNamespace(job.Namespace), client.MatchingLabels{
		jobsetNameLabel: job.Name, replicatedJobLabel: v1.HeadReplicatedJob,
	}}
}

// jsonPointer escapes a key for a JSON pointer.
func jsonPointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
