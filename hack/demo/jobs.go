package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

// namespace of the samples.
const namespace = "default"

// The two samples that more than a start is shown of.
const (
	training = "training"
	elastic  = "elastic"
)

// sampleNames are the PathwaysJobs of config/samples.
var sampleNames = []string{training, "headless", elastic, "colocated-head", "colocated-python", "batch-inference"}

// jobs are PathwaysJobs by name.
type jobs map[string]*v1.PathwaysJob

// missing says what a set of jobs has not reached yet, nothing if it has.
type missing func(jobs) []string

// allRunning wants every sample to run with all its slices.
func allRunning(all jobs) []string {
	var list []string
	for _, name := range sampleNames {
		job := all[name]
		if job == nil || !meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionRunning) ||
			!meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionSlicesReady) {
			list = append(list, fmt.Sprintf("%s does not run: %s", name, summary(job)))
		}
	}
	return list
}

// completed wants one job to have completed.
func completed(name string) missing {
	return func(all jobs) []string {
		if job := all[name]; job == nil || !meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionCompleted) {
			return []string{fmt.Sprintf("%s has not completed: %s", name, summary(job))}
		}
		return nil
	}
}

// summary is a job in a line: state, slices, and the message that tells most.
func summary(job *v1.PathwaysJob) string {
	if job == nil {
		return "it does not exist"
	}
	return fmt.Sprintf("%s, %s slices: %s", job.Status.State, job.Status.SliceSummary, message(job))
}

// message is that of the condition which says why the job is in its state, or
// of its slices where it runs without some.
func message(job *v1.PathwaysJob) string {
	conditions := job.Status.Conditions
	slices := meta.FindStatusCondition(conditions, v1.ConditionSlicesReady)
	if meta.IsStatusConditionTrue(conditions, v1.ConditionRunning) && slices != nil {
		return slices.Message
	}
	for _, t := range []string{v1.ConditionFailed, v1.ConditionCompleted, v1.ConditionSuspended, v1.ConditionPending, v1.ConditionRunning} {
		if c := meta.FindStatusCondition(conditions, t); c != nil && c.Status == "True" {
			return c.Message
		}
	}
	return "not looked at yet"
}

// follow prints each job's changes until nothing is missing.
func (d *demo) follow(ctx context.Context, deadline time.Duration, left missing) error {
	begun := time.Now()
	var lacking []string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, deadline, true, func(ctx context.Context) (bool, error) {
		all, err := d.jobs(ctx)
		if err != nil {
			return false, err
		}
		for _, name := range sampleNames {
			job := all[name]
			if job == nil || job.Status.State == "" {
				continue
			}
			// How slices come up one by one is not worth a line each.
			state := string(job.Status.State)
			starting := job.Status.State == v1.JobRunning && !meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionSlicesReady)
			if d.shown[name] != state && !starting {
				d.shown[name] = state
				d.out.at(time.Since(begun), fmt.Sprintf("%-16s  %-9s %3s", name, job.Status.State, job.Status.SliceSummary), "%s", message(job))
			}
		}
		lacking = left(all)
		return len(lacking) == 0, nil
	})
	return deadlineError(err, deadline, lacking)
}

// deadlineError words the end of a wait that did not reach what it waited for.
func deadlineError(err error, deadline time.Duration, lacking []string) error {
	if err == nil || !wait.Interrupted(err) {
		return err
	}
	return fmt.Errorf("after %s:\n  %s", deadline, strings.Join(lacking, "\n  "))
}

func (d *demo) jobs(ctx context.Context) (jobs, error) {
	var list v1.PathwaysJobList
	if err := d.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing PathwaysJobs: %w", err)
	}
	all := jobs{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all, nil
}

func (d *demo) job(ctx context.Context, name string) (*v1.PathwaysJob, error) {
	job := &v1.PathwaysJob{}
	if err := d.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); err != nil {
		return nil, fmt.Errorf("reading job %s: %w", name, err)
	}
	return job, nil
}

// pods are those of one replicated job of a job.
func (d *demo) pods(ctx context.Context, job, replicatedJob string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := d.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{
		jobsetv1alpha2.JobSetNameKey:        job,
		jobsetv1alpha2.ReplicatedJobNameKey: replicatedJob,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", job, err)
	}
	return list.Items, nil
}

// finishTraining lets the training program end with success.
func (d *demo) finishTraining(ctx context.Context) error {
	heads, err := d.pods(ctx, training, v1.HeadReplicatedJob)
	if err != nil {
		return err
	}
	if len(heads) != 1 {
		return fmt.Errorf("job %s has %d head pods, not 1", training, len(heads))
	}
	if err := d.ExitContainer(ctx, client.ObjectKeyFromObject(&heads[0]), cluster.Exit{Container: "main"}); err != nil {
		return err
	}
	return d.follow(ctx, jobsDeadline, completed(training))
}

// explain prints what helps to find out why a job did not get there.
func (d *demo) explain() error {
	d.out.say("the last lines of the operator's log, %s:", d.operatorLog)
	data, err := os.ReadFile(d.operatorLog)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	d.out.block(strings.Join(lines[max(0, len(lines)-15):], "\n"))
	return nil
}

// goodbye shows where the jobs are, and how to go on.
func (d *demo) goodbye(ctx context.Context) error {
	d.out.step("kubectl get pathwaysjobs")
	out, err := d.Kubectl(ctx, "get", "pathwaysjobs")
	if err != nil {
		return err
	}
	d.out.block(out)
	job, err := d.job(ctx, elastic)
	if err != nil {
		return err
	}
	d.out.step("Go on yourself: the cluster and the operator keep running")
	d.out.block(fmt.Sprintf(`
export PATH=%s:%s:$PATH
export KUBECONFIG=%s

kubectl pathways status elastic         # head, slices, interruptions, how to connect
kubectl describe pathwaysjob elastic    # conditions and events too
kubectl explain pathwaysjob.spec        # every field
kubectl delete nodes -l cloud.google.com/gke-nodepool=%s    # slice 0 of elastic loses its pool
kubectl get pathwaysjobs --watch

make demo            # once more, on the same cluster
make cluster-down    # ends the cluster and the operator`, filepath.Join(envtest.Root(), "bin"), d.Bin, d.Kubeconfig, slice(job, 0).NodePool))
	return nil
}
