//go:build bench

package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

// creators is how many clients create objects at the same time.
const creators = 32

// TestCreation compares how long many PathwaysJobs take to have their JobSets
// with creating those JobSets directly.
func TestCreation(t *testing.T) {
	b := readBudgets(t).Scale
	e := newEnv(t)
	out := e.newTable("creation", fmt.Sprintf("%d jobs created at once", b.Jobs))
	var direct, ours, ratios, cpu, memory []float64
	for r := range b.Rounds {
		d, remove := e.createAll(t, "direct-"+strconv.Itoa(r), b.Jobs, func(job *v1.PathwaysJob) client.Object {
			js, err := render.JobSet(job, render.Options{
				ServerImage: render.DefaultServerImage, ProxyImage: render.DefaultProxyImage,
				DefaultVersion: render.DefaultVersion, ElasticFlag: render.ElasticFlagAuto,
			})
			if err != nil {
				t.Fatal(err)
			}
			js.OwnerReferences = nil
			return js
		})
		remove()
		operator, stop := e.operator(t)
		itself := func(job *v1.PathwaysJob) client.Object { return job }
		_, remove = e.createAll(t, "first-"+strconv.Itoa(r), 1, itself) // it works now
		remove()
		o, remove := e.createAll(t, "jobs-"+strconv.Itoa(r), b.Jobs, itself)
		usage, err := operator.Usage()
		if err != nil {
			t.Fatal(err)
		}
		stop()
		remove()
		t.Logf("round %d: %.1f s directly, %.1f s as PathwaysJobs", r, d.Seconds(), o.Seconds())
		direct, ours, ratios = append(direct, d.Seconds()), append(ours, o.Seconds()), append(ratios, o.Seconds()/d.Seconds())
		cpu, memory = append(cpu, usage.CPU.Seconds()), append(memory, float64(usage.PeakRSS)/(1<<20))
	}
	out.add(row{What: "the JobSets, created directly", Value: round(median(direct)), Unit: "s"})
	out.add(row{What: "PathwaysJobs, until the last JobSet exists", Value: round(median(ours)), Unit: "s"})
	within(t, out, "ratio", median(ratios), b.CreationRatio, "×")
	within(t, out, "CPU time of the operator, its own start included", median(cpu), b.CPUSeconds, "s")
	within(t, out, "memory of the operator at its peak", median(memory), b.MemoryMiB, "MiB")
	out.save(t)
}

// createAll creates objects in a namespace of their own, and returns the time
// until as many JobSets exist. remove deletes all.
func (e *env) createAll(t *testing.T, namespace string, n int, object func(*v1.PathwaysJob) client.Object) (took time.Duration, remove func()) {
	t.Helper()
	remove = e.namespace(t, namespace)
	c, err := client.NewWithWatch(e.Config, client.Options{Scheme: e.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var before jobsetv1alpha2.JobSetList
	if err := c.List(ctx, &before, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	// The API server may end a watch at any time, and does where it has much to do.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, before.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &jobsetv1alpha2.JobSetList{}, &client.ListOptions{Namespace: namespace, Raw: &o})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var objects []client.Object
	for i := range n {
		objects = append(objects, object(wrappers.MakePathwaysJob("job-"+strconv.Itoa(i), namespace).Obj()))
	}
	begun := time.Now()
	created := make(chan error, 1)
	go func() { created <- e.createEach(ctx, objects) }()
	names := map[string]bool{}
	for len(names) < n {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				t.Fatalf("the watch ended with %d of %d JobSets", len(names), n)
			}
			if js, ok := event.Object.(*jobsetv1alpha2.JobSet); ok && event.Type == watch.Added {
				names[js.Name] = true
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d JobSets exist after %s", len(names), n, time.Since(begun))
		}
	}
	took = time.Since(begun)
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	return took, remove
}

// createEach creates objects, many at a time.
func (e *env) createEach(ctx context.Context, objects []client.Object) error {
	errs := make([]error, len(objects))
	workqueue.ParallelizeUntil(ctx, creators, len(objects), func(i int) { errs[i] = e.Client.Create(ctx, objects[i]) })
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return fmt.Errorf("creating %s: %w", objects[i].GetName(), errs[i])
	}
	return ctx.Err()
}

// TestRunning measures what the operator needs to bring many jobs to Running:
// elastic ones and others, with one slice of one VM each.
func TestRunning(t *testing.T) {
	b := readBudgets(t).Scale
	e := newEnv(t)
	ctx := t.Context()
	for _, p := range []cluster.Pool{
		cluster.CPUPool("heads", b.Jobs), // a head has a machine for itself
		{Name: "tpus", MachineType: "ct5lp-hightpu-1t", Topology: "1x1", Hosts: b.Jobs},
	} {
		if _, err := e.CreatePool(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	const namespace = "running"
	e.namespace(t, namespace)
	var objects []client.Object
	for i := range b.Jobs {
		objects = append(objects, wrappers.MakePathwaysJob("job-"+strconv.Itoa(i), namespace).
			Workers("ct5lp-hightpu-1t", "1x1", 1).ElasticSlices(int32(i%2)).Obj())
	}
	operator, _ := e.operator(t)
	begun := time.Now()
	if err := e.createEach(ctx, objects); err != nil {
		t.Fatal(err)
	}
	var last string
	seen := time.Time{}
	eventually(t, 10*time.Minute, "all jobs run", func() bool {
		if time.Since(seen) < time.Second { // reading them all is work
			return false
		}
		seen = time.Now()
		var list v1.PathwaysJobList
		if err := e.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false
		}
		running := 0
		for i := range list.Items {
			conditions := list.Items[i].Status.Conditions
			if meta.IsStatusConditionTrue(conditions, v1.ConditionRunning) && meta.IsStatusConditionTrue(conditions, v1.ConditionSlicesReady) {
				running++
			}
		}
		if now := fmt.Sprintf("%d of %d run", running, b.Jobs); now != last {
			last = now
			t.Logf("%.1f s: %s", time.Since(begun).Seconds(), now)
		}
		return running == b.Jobs
	})
	took := time.Since(begun)
	usage, err := operator.Usage()
	if err != nil {
		t.Fatal(err)
	}
	w := e.readWrites(t, namespace)
	for _, kind := range slices.SortedFunc(maps.Keys(w.byKind), func(a, b string) int { return w.byKind[b] - w.byKind[a] }) {
		t.Logf("%5d  %s", w.byKind[kind], kind)
	}
	out := e.newTable("running", fmt.Sprintf("%d jobs, half of them elastic, from creation to Running", b.Jobs))
	out.add(row{What: "until the last one runs", Value: round(took.Seconds()), Unit: "s"})
	out.add(row{What: "CPU time of the operator, its own start included", Value: round(usage.CPU.Seconds()), Unit: "s"})
	out.add(row{What: "memory of the operator at its peak", Value: round(float64(usage.PeakRSS) / (1 << 20)), Unit: "MiB"})
	within(t, out, "writes for each job, events included", float64(w.total)/float64(b.Jobs), b.WritesPerJob, "")
	within(t, out, "patches of a job's status by one writer in a second, at most", float64(w.burst), float64(b.StatusPatchesPerSecond), "")
	out.Note = "Writes by kind: " + kinds(w, b.Jobs) + "."
	if w.refused > 0 {
		out.Note += fmt.Sprintf(" %d of them were refused and tried again.", w.refused)
	}
	out.save(t)
}

// kinds lists how many writes of each kind a job costs.
func kinds(w writes, jobs int) string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(w.byKind)) {
		list = append(list, fmt.Sprintf("%s %.2f", kind, float64(w.byKind[kind])/float64(jobs)))
	}
	return strings.Join(list, ", ")
}
