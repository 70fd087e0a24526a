package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// victim is the slice that loses a host.
const victim = 1

// fault is the loss of a host, and what was seen since.
type fault struct {
	d *demo
	// node that fails, of pool.
	node, pool string
	begun      time.Time
	// notReady is when Kubernetes noticed; zero before.
	notReady time.Time
	// head is the job's head before the fault, others its other slices' pods.
	head   types.UID
	others []types.UID
	// state of the slice and events that were told.
	state v1.SliceState
	told  map[types.UID]bool
}

// loseHost takes a host from the elastic job, prints what follows until the
// job has all its slices again, and brings the host back.
func (d *demo) loseHost(ctx context.Context) error {
	f, err := d.newFault(ctx)
	if err != nil {
		return err
	}
	d.out.say("%s is one of the hosts of slice %d, in pool %s. Kubernetes finds out after 40 to 50 s of silence.", f.node, victim, f.pool)
	if err := d.KillHost(ctx, f.node); err != nil {
		return err
	}
	f.begun = time.Now()
	d.out.at(0, "host ", "%s is silent", f.node)
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, faultDeadline, true, f.look)
	if err != nil {
		job, _ := d.job(ctx, elastic) // what it has not reached, if it can be read
		return deadlineError(err, faultDeadline, []string{elastic + " has not got all its slices back: " + summary(job)})
	}
	if err := f.judge(ctx); err != nil {
		return err
	}
	return f.repair(ctx)
}

func (d *demo) newFault(ctx context.Context) (*fault, error) {
	f := &fault{d: d, told: map[types.UID]bool{}}
	workers, err := d.pods(ctx, elastic, v1.WorkerReplicatedJob)
	if err != nil {
		return nil, err
	}
	for _, p := range workers {
		if !ofVictim(p) {
			f.others = append(f.others, p.UID)
		} else if f.node == "" || p.Spec.NodeName > f.node {
			f.node = p.Spec.NodeName
		}
	}
	slices.Sort(f.others)
	job, err := d.job(ctx, elastic)
	if err != nil {
		return nil, err
	}
	if f.pool = slice(job, victim).NodePool; f.node == "" || f.pool == "" || job.Status.Head == nil {
		return nil, fmt.Errorf("the status of job %s does not say where its head and slice %d run", elastic, victim)
	}
	f.head = job.Status.Head.PodUID
	events, err := d.events(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		f.told[e.UID] = true
	}
	return f, nil
}

// look prints what is new; it ends when the job has all its slices again.
func (f *fault) look(ctx context.Context) (bool, error) {
	if f.notReady.IsZero() {
		status, _, err := f.d.NodeReady(ctx, f.node)
		if err != nil || status == corev1.ConditionTrue {
			return false, err
		}
		f.notReady = time.Now()
		f.tell(f.notReady, "node ", "Kubernetes calls %s NotReady", f.node)
	}
	job, err := f.d.job(ctx, elastic)
	if err != nil {
		return false, err
	}
	s := slice(job, victim)
	if s.State != v1.SliceReady && s.State != f.state {
		f.state = s.State
		f.tell(time.Now(), "slice", "%d is %s, slices ready: %s", victim, s.State, job.Status.SliceSummary)
	}
	events, err := f.d.events(ctx)
	if err != nil {
		return false, err
	}
	for _, e := range events {
		if !f.told[e.UID] {
			f.told[e.UID] = true
			f.tell(e.EventTime.Time, "event", "%s: %s", e.Reason, e.Note)
		}
	}
	return s.NodePool != f.pool && s.State == v1.SliceReady &&
		meta.IsStatusConditionTrue(job.Status.Conditions, v1.ConditionSlicesReady), nil
}

func (f *fault) tell(at time.Time, what, format string, args ...any) {
	f.d.out.at(at.Sub(f.begun), what, format, args...)
}

// judge says what the fault has cost, and fails if that is more than it may.
func (f *fault) judge(ctx context.Context) error {
	recovered := time.Since(f.notReady)
	job, err := f.d.job(ctx, elastic)
	if err != nil {
		return err
	}
	s := slice(job, victim)
	f.tell(time.Now(), "slice", "%d is Ready: pool %s → %s, %.1f s after Kubernetes noticed", victim, f.pool, s.NodePool, recovered.Seconds())
	var others []types.UID
	workers, err := f.d.pods(ctx, elastic, v1.WorkerReplicatedJob)
	if err != nil {
		return err
	}
	for _, p := range workers {
		if !ofVictim(p) {
			others = append(others, p.UID)
		}
	}
	slices.Sort(others)
	if job.Status.Head == nil || job.Status.Head.PodUID != f.head || ptr.Deref(job.Status.Restarts, 0) != 0 {
		return fmt.Errorf("the head of job %s did not survive the loss of a host of slice %d", elastic, victim)
	}
	if !slices.Equal(others, f.others) {
		return fmt.Errorf("the other slices of job %s did not survive the loss of a host of slice %d", elastic, victim)
	}
	f.tell(time.Now(), "else ", "untouched: the head and the other slices have the same pods as before; charged to slice %d: %d restarts",
		victim, ptr.Deref(s.Restarts, 0))
	return nil
}

// repair brings the host back, and waits until its pool can be used again.
func (f *fault) repair(ctx context.Context) error {
	if err := f.d.ReviveHost(ctx, f.node); err != nil {
		return err
	}
	f.tell(time.Now(), "host ", "%s is repaired", f.node)
	var fenced []string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, repairDeadline, true, func(ctx context.Context) (bool, error) {
		var nodes corev1.NodeList
		if err := f.d.Client.List(ctx, &nodes, client.MatchingLabels{tpu.LabelNodePool: f.pool}); err != nil {
			return false, err
		}
		fenced = nil
		for _, n := range nodes.Items {
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.TaintSliceDegraded }) {
				fenced = append(fenced, n.Name)
			}
		}
		return len(fenced) == 0, nil
	})
	if err != nil {
		return deadlineError(err, repairDeadline, []string{"still fenced: " + strings.Join(fenced, ", ")})
	}
	f.tell(time.Now(), "pool ", "%s is whole; its fence is lifted: the next slice may use it", f.pool)
	return nil
}

// events about the elastic job, oldest first.
func (d *demo) events(ctx context.Context) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := d.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	events := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind != "PathwaysJob" || e.Regarding.Name != elastic
	})
	slices.SortFunc(events, func(a, b eventsv1.Event) int {
		return cmp.Or(a.EventTime.Compare(b.EventTime.Time), strings.Compare(a.Name, b.Name))
	})
	return events, nil
}

// slice is what the job's status says of a slice.
func slice(job *v1.PathwaysJob, index int32) v1.SliceStatus {
	for _, s := range job.Status.Slices {
		if ptr.Deref(s.Index, -1) == index {
			return s
		}
	}
	return v1.SliceStatus{}
}

// ofVictim says whether a worker is of the slice that loses a host.
func ofVictim(p corev1.Pod) bool {
	return p.Labels[jobsetv1alpha2.JobIndexKey] == strconv.Itoa(victim)
}
