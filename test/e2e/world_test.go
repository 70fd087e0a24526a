//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

// world is what one spec has for itself: a namespace, and TPU pools that only
// its jobs select.
type world struct {
	*cluster.Cluster
	namespace string
	pools     map[string]bool
}

// newWorld makes a world in a cluster; it goes with the spec, and leaves no
// fence behind.
func newWorld(ctx context.Context, c *cluster.Cluster) *world {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "w-"}}
	Expect(c.Client.Create(ctx, ns)).To(Succeed())
	w := &world{Cluster: c, namespace: ns.Name, pools: map[string]bool{}}
	DeferCleanup(func(ctx context.Context) {
		if CurrentSpecReport().Failed() {
			w.describe(ctx)
		}
		Expect(c.Client.DeleteAllOf(ctx, &v1.PathwaysJob{}, client.InNamespace(w.namespace))).To(Succeed())
		Expect(c.Client.Delete(ctx, ns)).To(Succeed())
		// Pods whose node is gone would be terminating for a minute.
		Expect(c.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(w.namespace), client.GracePeriodSeconds(0))).To(Succeed())
		for name := range w.pools {
			Expect(c.DeletePool(ctx, name)).To(Succeed())
		}
	})
	return w
}

// describe prints what a person would look at to see why a spec failed.
func (w *world) describe(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "pathwaysjobs", "-o", "yaml"},
		{"get", "jobsets,jobs,pods", "-o", "wide"},
		{"get", "events", "--sort-by=.metadata.creationTimestamp"},
	} {
		out, err := w.Kubectl(ctx, append(args, "--namespace", w.namespace)...)
		GinkgoWriter.Printf("$ kubectl %s\n%s%v\n", strings.Join(args, " "), out, err)
	}
	out, err := w.Kubectl(ctx, "get", "nodes", "-l", reservation+"="+w.namespace, "-o",
		"custom-columns=NAME:.metadata.name,READY:.status.conditions[?(@.type==\"Ready\")].status,TAINTS:.spec.taints[*].key")
	GinkgoWriter.Printf("nodes of this spec\n%s%v\n", out, err)
	GinkgoWriter.Printf("the operator's last words about it\n%s\n", w.operatorWords(40))
}

// operatorWords are the last lines of the operator's log that name this
// spec's namespace.
func (w *world) operatorWords(most int) string {
	log, err := os.ReadFile(filepath.Join(w.Dir, operatorLog))
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(log), "\n"), func(line string) bool {
		return !strings.Contains(line, w.namespace)
	})
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// pool makes a TPU pool for this spec and returns its name.
func (w *world) pool(ctx context.Context, name, machineType, topology string) string {
	GinkgoHelper()
	p := cluster.TPUPool(w.namespace+"-"+name, machineType, topology)
	w.addPool(ctx, p)
	return p.Name
}

// addPool makes a pool of any kind that only jobs of this spec select.
func (w *world) addPool(ctx context.Context, p cluster.Pool) []string {
	GinkgoHelper()
	p.Labels = maps.Clone(p.Labels)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[reservation] = w.namespace
	w.pools[p.Name] = true
	return createPool(ctx, w.Cluster, p)
}

// node is the i-th node of a pool.
func node(pool string, i int) string { return pool + "-" + strconv.Itoa(i) }

// make starts a job whose workers run on this spec's pools.
func (w *world) makeJob(name string) *wrappers.PathwaysJobWrapper {
	return wrappers.MakePathwaysJob(name, w.namespace).Worker(func(s *v1.WorkerSpec) {
		s.NodeSelector = map[string]string{reservation: w.namespace}
	})
}

// create creates a job from its wrapper; Workers() of the wrapper drops the
// selector of this spec's pools, so it is set again.
func (w *world) create(ctx context.Context, j *wrappers.PathwaysJobWrapper) *v1.PathwaysJob {
	GinkgoHelper()
	job := j.Worker(func(s *v1.WorkerSpec) {
		if s.NodeSelector == nil {
			s.NodeSelector = map[string]string{}
		}
		s.NodeSelector[reservation] = w.namespace
	}).Obj()
	Expect(w.Client.Create(ctx, job)).To(Succeed())
	return job
}

// apply runs kubectl apply with a manifest.
func (w *world) apply(ctx context.Context, manifest string, args ...string) (string, error) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "manifest.yaml")
	Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
	return w.Kubectl(ctx, append([]string{"apply", "--namespace", w.namespace, "-f", file}, args...)...)
}

// get reads a job.
func (w *world) get(ctx context.Context, name string) (*v1.PathwaysJob, error) {
	job := &v1.PathwaysJob{}
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, job)
	return job, err
}

// job reads a job for Eventually and Consistently.
func (w *world) job(name string) func(context.Context) (*v1.PathwaysJob, error) {
	return func(ctx context.Context) (*v1.PathwaysJob, error) { return w.get(ctx, name) }
}

// jobSet reads the JobSet of a job.
func (w *world) jobSet(ctx context.Context, name string) (*jobsetv1alpha2.JobSet, error) {
	js := &jobsetv1alpha2.JobSet{}
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, js)
	return js, err
}

// childJob reads the child Job of a slice.
func (w *world) childJob(ctx context.Context, job string, slice int) (*batchv1.Job, error) {
	j := &batchv1.Job{}
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: fmt.Sprintf("%s-worker-%d", job, slice)}, j)
	return j, err
}

// head reads the head pod, or nil if there is none.
func (w *world) head(ctx context.Context, job string) (*corev1.Pod, error) {
	pods, err := w.pods(ctx, job, v1.HeadReplicatedJob, 0)
	if err != nil || len(pods) == 0 {
		return nil, err
	}
	return &pods[0], nil
}

// workers reads the pods of a slice, in the order of their index.
func (w *world) workers(ctx context.Context, job string, slice int) ([]corev1.Pod, error) {
	return w.pods(ctx, job, v1.WorkerReplicatedJob, slice)
}

func (w *world) pods(ctx context.Context, job, replicatedJob string, index int) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := w.Client.List(ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{
		jobsetv1alpha2.JobSetNameKey:        job,
		jobsetv1alpha2.ReplicatedJobNameKey: replicatedJob,
		jobsetv1alpha2.JobIndexKey:          strconv.Itoa(index),
	})
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return strings.Compare(a.Name, b.Name)
	})
	return list.Items, err
}

// events are the notes of the events about a job, oldest first, each as
// "Reason: note".
func (w *world) events(job string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list := &eventsv1.EventList{}
		if err := w.Client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return nil, err
		}
		slices.SortFunc(list.Items, func(a, b eventsv1.Event) int {
			return a.EventTime.Compare(b.EventTime.Time)
		})
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.Kind == "PathwaysJob" && e.Regarding.Name == job {
				notes = append(notes, e.Reason+": "+e.Note)
			}
		}
		return notes, nil
	}
}

// running waits until a job runs with all its slices.
func (w *world) running(ctx context.Context, name string) *v1.PathwaysJob {
	GinkgoHelper()
	var job *v1.PathwaysJob
	Eventually(func(ctx context.Context) (*v1.PathwaysJob, error) {
		var err error
		job, err = w.get(ctx, name)
		return job, err
	}).WithContext(ctx).Should(And(
		haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""),
		haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, "")))
	return job
}

// haveCondition matches a PathwaysJob by one of its conditions; an empty
// reason matches any.
func haveCondition(kind string, status metav1.ConditionStatus, reason string) types.GomegaMatcher {
	return WithTransform(func(job *v1.PathwaysJob) string {
		c := meta.FindStatusCondition(job.Status.Conditions, kind)
		switch {
		case c == nil:
			return kind + " is not set"
		case c.Status == status && (reason == "" || c.Reason == reason):
			return "as wanted"
		default:
			return fmt.Sprintf("%s is %s (%s: %s)", kind, c.Status, c.Reason, c.Message)
		}
	}, Equal("as wanted"))
}

// haveMessage matches a PathwaysJob by the message of one of its conditions.
func haveMessage(kind string, matcher types.GomegaMatcher) types.GomegaMatcher {
	return WithTransform(func(job *v1.PathwaysJob) string {
		if c := meta.FindStatusCondition(job.Status.Conditions, kind); c != nil {
			return c.Message
		}
		return ""
	}, matcher)
}

// haveSlice matches a PathwaysJob by the state of one slice, and its reason
// unless that is empty.
func haveSlice(index int, state v1.SliceState, reason string) types.GomegaMatcher {
	return WithTransform(func(job *v1.PathwaysJob) string {
		for _, s := range job.Status.Slices {
			if ptr.Deref(s.Index, -1) == int32(index) {
				if s.State == state && (reason == "" || s.Reason == reason) {
					return "as wanted"
				}
				return fmt.Sprintf("slice %d is %s (%s: %s)", index, s.State, s.Reason, s.Message)
			}
		}
		return fmt.Sprintf("there is no slice %d", index)
	}, Equal("as wanted"))
}

// snapshot is what a fault of one slice must not touch.
type snapshot struct {
	// Head is the UID of the head pod.
	Head apitypes.UID
	// Slices are the UIDs of the other slices' pods.
	Slices map[int][]apitypes.UID
	// Restarts of the whole job, and of that what was charged to the JobSet.
	Restarts, Charged int32
	// SliceRestarts are the charged restarts of each slice.
	SliceRestarts map[int32]int32
}

// snapshot of everything of a job but the slices that are named.
func (w *world) snapshot(ctx context.Context, name string, but ...int) snapshot {
	GinkgoHelper()
	job, err := w.get(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	head, err := w.head(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	Expect(head).NotTo(BeNil())
	js, err := w.jobSet(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	s := snapshot{
		Head: head.UID, Slices: map[int][]apitypes.UID{}, SliceRestarts: map[int32]int32{},
		Restarts: ptr.Deref(job.Status.Restarts, 0), Charged: js.Status.RestartsCountTowardsMax,
	}
	for _, slice := range job.Status.Slices {
		s.SliceRestarts[*slice.Index] = ptr.Deref(slice.Restarts, 0)
	}
	for i := range int(job.Spec.Workers[0].NumSlices) {
		if slices.Contains(but, i) {
			continue
		}
		pods, err := w.workers(ctx, name, i)
		Expect(err).NotTo(HaveOccurred())
		for _, p := range pods {
			s.Slices[i] = append(s.Slices[i], p.UID)
		}
	}
	return s
}

// fences are the nodes of this spec that carry our taint.
func (w *world) fences(ctx context.Context) ([]string, error) {
	list := &corev1.NodeList{}
	if err := w.Client.List(ctx, list, client.MatchingLabels{reservation: w.namespace}); err != nil {
		return nil, err
	}
	var names []string
	for _, n := range list.Items {
		for _, t := range n.Spec.Taints {
			if t.Key == v1.TaintSliceDegraded {
				names = append(names, n.Name)
			}
		}
	}
	return names, nil
}

// leftovers are the terminating pods and held Jobs of this spec.
func (w *world) leftovers(ctx context.Context) ([]string, error) {
	var names []string
	pods := &corev1.PodList{}
	if err := w.Client.List(ctx, pods, client.InNamespace(w.namespace)); err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			names = append(names, "terminating pod "+p.Name)
		}
	}
	jobs := &batchv1.JobList{}
	if err := w.Client.List(ctx, jobs, client.InNamespace(w.namespace)); err != nil {
		return nil, err
	}
	for _, j := range jobs.Items {
		if slices.Contains(j.Finalizers, v1.FinalizerHold) {
			names = append(names, "held Job "+j.Name)
		}
	}
	return names, nil
}

// clientKey is the name of an object.
func clientKey(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// gone waits until an object is gone.
func (w *world) gone(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(w.Client.Get(ctx, client.ObjectKeyFromObject(o), o))
	}).WithContext(ctx).Should(BeTrue())
}

// exitHead lets the program in the head's main container end.
func (w *world) exitHead(ctx context.Context, job string, code int, message string) {
	GinkgoHelper()
	head, err := w.head(ctx, job)
	Expect(err).NotTo(HaveOccurred())
	Expect(head).NotTo(BeNil(), "%s has no head", job)
	exit := cluster.Exit{Container: head.Spec.Containers[0].Name, Code: code, Message: message}
	Expect(w.ExitContainer(ctx, clientKey(head), exit)).To(Succeed())
}

// completed waits until a job is Completed and nothing of it runs.
func (w *world) completed(ctx context.Context, name string) *v1.PathwaysJob {
	GinkgoHelper()
	job := w.until(ctx, name, haveCondition(v1.ConditionCompleted, metav1.ConditionTrue, v1.ReasonSucceeded))
	Expect(job).To(And(
		haveCondition(v1.ConditionRunning, metav1.ConditionFalse, ""),
		haveCondition(v1.ConditionFailed, metav1.ConditionFalse, "")))
	Expect(job.Status.TerminalState).To(Equal(string(v1.JobCompleted)))
	Expect(job.Status.CompletionTime).NotTo(BeNil())
	Eventually(w.activePods(name)).WithContext(ctx).Should(BeEmpty())
	return job
}

// until waits until a job is as wanted, and returns it.
func (w *world) until(ctx context.Context, name string, wanted ...types.GomegaMatcher) *v1.PathwaysJob {
	GinkgoHelper()
	var job *v1.PathwaysJob
	Eventually(func(ctx context.Context) (*v1.PathwaysJob, error) {
		var err error
		job, err = w.get(ctx, name)
		return job, err
	}).WithContext(ctx).Should(And(wanted...))
	return job
}

// activePods are the pods of a job that run or may yet.
func (w *world) activePods(job string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list := &corev1.PodList{}
		err := w.Client.List(ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{jobsetv1alpha2.JobSetNameKey: job})
		var names []string
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				names = append(names, p.Name)
			}
		}
		return names, err
	}
}

// reasons are the reasons of the events about a job, each once.
func (w *world) reasons(job string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		notes, err := w.events(job)(ctx)
		for i, note := range notes {
			notes[i], _, _ = strings.Cut(note, ":")
		}
		slices.Sort(notes)
		return slices.Compact(notes), err
	}
}
