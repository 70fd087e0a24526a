package render_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"pathways.domain/pathways-job/internal/render"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

func makeJob() *wrappers.PathwaysJobWrapper { return wrappers.MakePathwaysJob("job", "default") }

func rendered(t *testing.T, w *wrappers.PathwaysJobWrapper) *jobsetv1alpha2.JobSet {
	t.Helper()
	return renderedWith(t, w, render.Options{})
}

func renderedWith(t *testing.T, w *wrappers.PathwaysJobWrapper, o render.Options) *jobsetv1alpha2.JobSet {
	t.Helper()
	js := must(render.JobSet(w.Obj(), o))(t)
	admitted := js.DeepCopy()
	if err := admitJobSet(admitted); err != nil {
		t.Fatalf("JobSet refuses it: %v", err)
	}
	return js
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func headContainer(t *testing.T, js *jobsetv1alpha2.JobSet, name string) corev1.Container {
	t.Helper()
	return *found(t, container(podOf(headOf(js)), name), name)
}

func workerContainer(t *testing.T, js *jobsetv1alpha2.JobSet, name string) corev1.Container {
	t.Helper()
	return *found(t, container(podOf(workerOf(js)), name), name)
}

func found(t *testing.T, c *corev1.Container, name string) *corev1.Container {
	t.Helper()
	if c == nil {
		t.Fatalf("there is no container %s", name)
	}
	return c
}

// env returns the value of a variable, and how often it is set.
func env(c corev1.Container, name string) (value string, times int) {
	for _, e := range c.Env {
		if e.Name == name {
			value = e.Value
			times++
		}
	}
	return value, times
}

func refusedAs(t *testing.T, err error, reason, message string) {
	t.Helper()
	var refused *render.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got error %v, want a RefusedError", err)
	}
	equal(t, "reason", reason, refused.Reason)
	equal(t, "message", message, refused.Message)
}
