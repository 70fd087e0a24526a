package plugin

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/golden"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

// now of all tests.
var now = time.Date(2026, 11, 2, 15, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// world is a cluster that answers reads.
type world struct {
	jobs []*v1.PathwaysJob
	pods []*corev1.Pod
	// getErr, listErr are answers to reads of PathwaysJobs, podErr of pods.
	getErr, listErr, podErr error
}

var jobResource = schema.GroupResource{Group: v1.GroupVersion.Group, Resource: "pathwaysjobs"}

func (w *world) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch obj := obj.(type) {
	case *v1.PathwaysJob:
		if w.getErr != nil {
			return w.getErr
		}
		for _, job := range w.jobs {
			if client.ObjectKeyFromObject(job) == key {
				job.DeepCopyInto(obj)
				return nil
			}
		}
		return apierrors.NewNotFound(jobResource, key.Name)
	case *corev1.Pod:
		if w.podErr != nil {
			return w.podErr
		}
		for _, pod := range w.pods {
			if client.ObjectKeyFromObject(pod) == key {
				pod.DeepCopyInto(obj)
				return nil
			}
		}
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return errors.New("the plugin reads something new")
}

func (w *world) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	jobs, ok := list.(*v1.PathwaysJobList)
	if !ok {
		return errors.New("the plugin lists something new")
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	for _, job := range w.jobs {
		if o.FieldSelector.String() == "metadata.name="+job.Name {
			jobs.Items = append(jobs.Items, *job)
		}
	}
	return w.listErr
}

// run is `kubectl pathways status` with these arguments in namespace default.
func run(t *testing.T, w *world, args ...string) (string, error) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := newStatusCommand(streams, clocktesting.NewFakePassiveClock(now), func() (client.Reader, string, error) {
		return w, "default", nil
	})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetErr(errOut)
	cmd.SetArgs(append([]string{}, args...)) // nil would be the test's own
	err := cmd.ExecuteContext(t.Context())
	if errOut.Len() > 0 {
		t.Errorf("wrote to the error stream: %s", errOut)
	}
	return out.String(), err
}

func TestStatus(t *testing.T) {
	for name, tc := range cases() {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, &world{jobs: []*v1.PathwaysJob{tc.job}, pods: tc.pods}, append([]string{tc.job.Name}, tc.args...)...)
			if err != nil {
				t.Fatalf("status: %v", err)
			}
			for line := range strings.Lines(got) {
				if line != strings.TrimRight(line, " \t\n")+"\n" {
					t.Errorf("line ends with blanks: %q", line)
				}
			}
			golden.Check(t, filepath.Join("testdata", name+".txt"), got)
		})
	}
}

func TestStatusErrors(t *testing.T) {
	job := wrappers.MakePathwaysJob("train", "team-b").Obj()
	forbidden := apierrors.NewForbidden(jobResource, "train", errors.New("user joe may not"))
	tests := map[string]struct {
		world *world
		args  []string
		want  string
	}{
		"no such job": {
			world: &world{},
			args:  []string{"train"},
			want:  "there is no PathwaysJob train in namespace default, nor in any other; kubectl get pathwaysjobs -A lists all",
		},
		"in another namespace": {
			world: &world{jobs: []*v1.PathwaysJob{job, wrappers.MakePathwaysJob("train", "team-a").Obj(), wrappers.MakePathwaysJob("other", "team-c").Obj()}},
			args:  []string{"train"},
			want:  "there is no PathwaysJob train in namespace default, but in team-a, team-b: kubectl pathways status train -n team-a",
		},
		"may look only here": {
			world: &world{listErr: forbidden},
			args:  []string{"train"},
			want:  "there is no PathwaysJob train in namespace default; -n names another namespace",
		},
		"no CRD": {
			world: &world{getErr: &meta.NoKindMatchError{GroupKind: v1.GroupVersion.WithKind("PathwaysJob").GroupKind()}},
			args:  []string{"train"},
			want:  "this cluster has no PathwaysJobs: the operator's CRD pathwaysjobs.pathways-job.pathways.domain is not installed",
		},
		"forbidden": {
			world: &world{getErr: forbidden},
			args:  []string{"train"},
			want: "you may not read PathwaysJobs in namespace default; the ClusterRole pathways-job-viewer allows it: " +
				`pathwaysjobs.pathways-job.pathways.domain "train" is forbidden: user joe may not`,
		},
		"anything else": {
			world: &world{getErr: errors.New("connection refused")},
			args:  []string{"train"},
			want:  "reading PathwaysJob train in namespace default: connection refused",
		},
		"no name": {
			world: &world{},
			want:  "want the name of one PathwaysJob, not 0: kubectl pathways status NAME",
		},
		"two names": {
			world: &world{},
			args:  []string{"a", "b"},
			want:  "want the name of one PathwaysJob, not 2: kubectl pathways status NAME",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, tc.world, tc.args...)
			if err == nil {
				t.Fatalf("no error, but:\n%s", out)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if out != "" {
				t.Errorf("wrote beside the error: %s", out)
			}
		})
	}
}

// A head whose pod may not be read is shown without its age.
func TestStatusWithoutPods(t *testing.T) {
	tc := cases()["running"]
	out, err := run(t, &world{jobs: []*v1.PathwaysJob{tc.job}, podErr: apierrors.NewForbidden(corev1.Resource("pods"), "x", nil)}, tc.job.Name)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	if want := "train-pathways-head-0-0-x7k2p   cpu-1   us-central2-b   yes     -\n"; !strings.Contains(out, want) {
		t.Errorf("want a line of the head without its age, got:\n%s", out)
	}
}

func TestRanges(t *testing.T) {
	tests := map[string]struct {
		numbers []int32
		want    string
	}{
		"one":         {[]int32{7}, "7"},
		"apart":       {[]int32{0, 2, 4}, "0, 2, 4"},
		"all":         {[]int32{0, 1, 2, 3}, "0-3"},
		"some":        {[]int32{0, 1, 3, 5, 6, 7}, "0-1, 3, 5-7"},
		"none at all": {nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ranges(tc.numbers)); diff != "" {
				t.Errorf("ranges(%v) (-want +got):\n%s", tc.numbers, diff)
			}
		})
	}
}

// The command line finds the cluster and namespace as kubectl does.
func TestCommandLine(t *testing.T) {
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}
	cmd := NewCommand(streams, clocktesting.NewFakePassiveClock(now), "v1.2.3")
	cmd.SetArgs([]string{"--version"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("--version: %v", err)
	}
	if diff := cmp.Diff("kubectl pathways version v1.2.3\n", out.String()); diff != "" {
		t.Errorf("--version (-want +got):\n%s", diff)
	}
	for _, flag := range []string{"kubeconfig", "context", "namespace", "as", "server", "token"} {
		if cmd.PersistentFlags().Lookup(flag) == nil {
			t.Errorf("flag --%s of kubectl is missing", flag)
		}
	}
	if f := cmd.PersistentFlags().ShorthandLookup("n"); f == nil || f.Name != "namespace" {
		t.Error("-n is not --namespace")
	}
	t.Setenv("HOME", t.TempDir())
	cmd = NewCommand(streams, clocktesting.NewFakePassiveClock(now), "v1.2.3")
	cmd.SetArgs([]string{"status", "train", "--kubeconfig", filepath.Join(t.TempDir(), "none")})
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "reading the kubeconfig: ") {
		t.Errorf("a kubeconfig that does not exist: want an error that says so, got %v", err)
	}
}

// statusCase is a job as the operator left it, and what is said of it.
type statusCase struct {
	job  *v1.PathwaysJob
	pods []*corev1.Pod
	args []string
}

func condition(t string, ok bool, reason, message string, since time.Duration) metav1.Condition {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(since)}
}

func slice(index int32, state v1.SliceState, reason, pool, message string, since time.Duration) v1.SliceStatus {
	return v1.SliceStatus{
		Index: ptr.To(index), State: state, Reason: reason, NodePool: pool, Zone: "us-central2-b", Message: message,
		Restarts: ptr.To[int32](0), LastTransitionTime: ptr.To(ago(since)),
	}
}

// headPod is the pod of runningJob's head, Ready for two hours.
func headPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "train-pathways-head-0-0-x7k2p", Namespace: "default"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(3 * time.Hour)},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(2 * time.Hour)},
		}},
	}
}
