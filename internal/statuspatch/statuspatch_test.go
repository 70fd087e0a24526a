package statuspatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/statuspatch"
	"pathways.domain/pathways-job/internal/testing/envtest"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

// TestWriter takes one job through the lives of both writers on a real API
// server; only that knows what server-side apply does.
func TestWriter(t *testing.T) {
	ctx := t.Context()
	api, err := envtest.Start(ctx, envtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(api.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(time.Now())
	journal := statuspatch.NewJournal()
	jobs := statuspatch.New(c, journal, v1.FieldManagerController, statuspatch.ControllerPart, clk)
	slices := statuspatch.New(c, journal, v1.FieldManagerElastic, statuspatch.ElasticPart, clk)

	job := wrappers.MakePathwaysJob("train", "default").Obj()
	if err := c.Create(ctx, job); err != nil {
		t.Fatal(err)
	}
	// The peer has written a status, false Failed and all.
	job.Status = v1.PathwaysJobStatus{TerminalState: "Failed", Conditions: []metav1.Condition{condition("Failed", metav1.ConditionTrue)}}
	if err := c.Status().Update(ctx, job); err != nil {
		t.Fatal(err)
	}

	apply := func(w *statuspatch.Writer, on *v1.PathwaysJob, next v1.PathwaysJobStatus, opts ...statuspatch.Option) statuspatch.Result {
		t.Helper()
		result, err := w.Apply(ctx, on, next, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	later := func(d time.Duration) { clk.SetTime(clk.Now().Add(d)) }
	read := func() *v1.PathwaysJob {
		t.Helper()
		got := &v1.PathwaysJob{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(job), got); err != nil {
			t.Fatal(err)
		}
		return got
	}

	mine := v1.PathwaysJobStatus{State: v1.JobRunning, Restarts: ptr.To[int32](0), Conditions: []metav1.Condition{
		condition("Running", metav1.ConditionTrue), condition("Failed", metav1.ConditionFalse),
	}}
	if got := apply(jobs, job, mine); !got.Written {
		t.Error("a first status was not written")
	}
	theirs := v1.PathwaysJobStatus{SliceSummary: "1/2", Slices: []v1.SliceStatus{{Index: ptr.To[int32](0), State: v1.SliceReady}}, Conditions: []metav1.Condition{
		condition("SlicesReady", metav1.ConditionFalse),
	}}
	if got := apply(slices, read(), theirs); !got.Written {
		t.Error("the other writer's status was not written")
	}
	got := read()
	if got.Status.TerminalState != "" || got.Status.State != v1.JobRunning || got.Status.SliceSummary != "1/2" || len(got.Status.Conditions) != 3 {
		t.Errorf("the status is not the sum of both parts: %+v", got.Status)
	}
	if meta.IsStatusConditionTrue(got.Status.Conditions, "Failed") {
		t.Error("the peer's condition stayed")
	}

	t.Run("no write without a change, nor by a stale read", func(t *testing.T) {
		later(time.Minute)
		for name, on := range map[string]*v1.PathwaysJob{"fresh": read(), "stale": job} {
			if got := apply(jobs, on, mine); got.Written || got.Deferred() {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if diff := cmp.Diff(mine.State, jobs.Previous(job).State); diff != "" {
			t.Error("a stale read hid the last write:", diff)
		}
	})
	t.Run("at most one write a second", func(t *testing.T) {
		next := *mine.DeepCopy()
		next.State = v1.JobPending
		apply(jobs, read(), next)
		next.State = v1.JobSuspended
		later(300 * time.Millisecond)
		if diff := cmp.Diff(statuspatch.Result{RetryAfter: 700 * time.Millisecond}, apply(jobs, read(), next)); diff != "" {
			t.Error(diff)
		}
		later(700 * time.Millisecond)
		if diff := cmp.Diff(statuspatch.Result{RetryAfter: 4 * time.Second}, apply(jobs, read(), next, statuspatch.Every(5*time.Second))); diff != "" {
			t.Error(diff)
		}
		if got := apply(jobs, read(), next); !got.Written {
			t.Error("not written after a second")
		}
	})
	t.Run("what is absent goes, what is another's stays", func(t *testing.T) {
		later(time.Minute)
		apply(jobs, read(), v1.PathwaysJobStatus{State: v1.JobPending, Conditions: mine.Conditions})
		got := read()
		if got.Status.Restarts != nil || len(got.Status.Conditions) != 3 || got.Status.SliceSummary != "1/2" {
			t.Errorf("%+v", got.Status)
		}
	})
	t.Run("a pinned write on a read that misses the other writer's patch is not sent", func(t *testing.T) {
		later(time.Minute)
		stale := read()
		apply(jobs, stale, v1.PathwaysJobStatus{State: v1.JobSuspended, Conditions: mine.Conditions})
		next := v1.PathwaysJobStatus{SliceSummary: "1/3"}
		if got := apply(slices, stale, next, statuspatch.Pinned()); got.Written || !got.Deferred() {
			t.Errorf("got %+v, want it deferred", got)
		}
		if got := apply(slices, read(), next, statuspatch.Pinned()); !got.Written {
			t.Errorf("got %+v, want it written once the patch was read", got)
		}
	})
	t.Run("a pinned write on a stale read conflicts", func(t *testing.T) {
		later(time.Minute)
		job := read()
		change(ctx, t, c, read())
		if _, err := slices.Apply(ctx, job, v1.PathwaysJobStatus{SliceSummary: "2/2"}, statuspatch.Pinned()); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
		later(100 * time.Millisecond)
		if got := apply(slices, read(), v1.PathwaysJobStatus{SliceSummary: "2/2"}, statuspatch.Pinned()); !got.Written {
			t.Errorf("the refused write counted for the rate: %+v", got)
		}
	})
	t.Run("a job of the same name that came since is not touched", func(t *testing.T) {
		later(time.Minute)
		old := read()
		replace(ctx, t, c, old)
		if _, err := jobs.Apply(ctx, old, v1.PathwaysJobStatus{State: v1.JobFailed}, statuspatch.Pinned()); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
		if diff := cmp.Diff(v1.PathwaysJobStatus{}, read().Status); diff != "" {
			t.Error(diff)
		}
	})
}

// change is a user's change, which the journal does not know of.
func change(ctx context.Context, t *testing.T, c client.Client, job *v1.PathwaysJob) {
	t.Helper()
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	job.Annotations["example.com/change"] += "x"
	if err := c.Update(ctx, job); err != nil {
		t.Fatal(err)
	}
}

func replace(ctx context.Context, t *testing.T, c client.Client, old *v1.PathwaysJob) {
	t.Helper()
	if err := c.Delete(ctx, old.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, wrappers.MakePathwaysJob(old.Name, old.Namespace).Obj()); err != nil {
		t.Fatal(err)
	}
}

func condition(t string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: t, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0))}
}
