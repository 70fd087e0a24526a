//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/wrappers"
)

const (
	// machine and shape of most slices here: two VMs.
	machine = "ct5p-hightpu-4t"
	shape   = "2x2x2"
	// recovery is the deadline of all that must not wait for Kubernetes' own
	// garbage collection of pods (40 to 60 s), evictions (300 s) or the
	// back-off of Jobs (80 s).
	recovery = 35 * time.Second
	// chargeable bounds the 90 s after which a restart is charged for good.
	chargeable = 3 * time.Minute
)

// elasticJob starts an elastic job of so many slices of two VMs, one of which
// may be missing.
func (w *world) elasticJob(slices int32) *wrappers.PathwaysJobWrapper {
	return w.makeJob("train").Workers(machine, shape, slices).ElasticSlices(1)
}

// pools2 makes pools of two VMs.
func (w *world) pools2(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		w.pool(ctx, name, machine, shape)
	}
}

// workerAnnotations are given to the workers' pods: how they behave.
func workerAnnotations(annotations map[string]string) func(*v1.WorkerSpec) {
	return func(s *v1.WorkerSpec) {
		s.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
}

// patient is a running job, one slice of which is going to suffer.
type patient struct {
	*world
	name  string
	slice int
	// pool that the slice is in, hosts those of its workers, and incarnation
	// the UID of its Job.
	pool        string
	hosts       []string
	incarnation apitypes.UID
	before      snapshot
	seen        *recorder
}

// treat creates a job, and waits until it runs.
func (w *world) treat(ctx context.Context, j *wrappers.PathwaysJobWrapper, slice int) *patient {
	GinkgoHelper()
	w.create(ctx, j)
	return w.attend(ctx, j.Name, slice)
}

// attend waits until a job runs, and looks at it from then on.
func (w *world) attend(ctx context.Context, name string, slice int) *patient {
	GinkgoHelper()
	job := w.running(ctx, name)
	s := sliceStatus(job, slice)
	pods, err := w.workers(ctx, name, slice)
	Expect(err).NotTo(HaveOccurred())
	p := &patient{
		world: w, name: name, slice: slice, pool: s.NodePool, incarnation: s.JobUID,
		before: w.snapshot(ctx, name, slice), seen: w.record(name),
	}
	for _, pod := range pods {
		p.hosts = append(p.hosts, pod.Spec.NodeName)
	}
	return p
}

// node is the host of the slice's i-th worker.
func (p *patient) node(i int) string { return p.hosts[i] }

// current reads the job.
func (p *patient) current(ctx context.Context) *v1.PathwaysJob {
	GinkgoHelper()
	job, err := p.get(ctx, p.name)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// worker is a pod of the slice.
func (p *patient) worker(ctx context.Context, i int) *corev1.Pod {
	GinkgoHelper()
	pods, err := p.workers(ctx, p.name, p.slice)
	Expect(err).NotTo(HaveOccurred())
	Expect(len(pods)).To(BeNumerically(">", i))
	return &pods[i]
}

// crash makes a worker of the slice exit once with 1.
func (p *patient) crash(ctx context.Context, i int, message string) {
	GinkgoHelper()
	Expect(p.ExitContainer(ctx, clientKey(p.worker(ctx, i)), cluster.Exit{Code: 1, Message: message})).To(Succeed())
}

// annotate changes an annotation of the job; an empty value takes it away.
func (p *patient) annotate(ctx context.Context, key, value string) {
	GinkgoHelper()
	change := key + "=" + value
	if value == "" {
		change = key + "-"
	}
	_, err := p.Kubectl(ctx, "annotate", "--overwrite", "--namespace", p.namespace, "pathwaysjob", p.name, change)
	Expect(err).NotTo(HaveOccurred())
}

// resumes waits until the slice runs again as another incarnation, and
// returns the pool in which.
func (p *patient) resumes(ctx context.Context, reason string) string {
	GinkgoHelper()
	Eventually(p.job(p.name)).WithContext(ctx).WithTimeout(recovery).Should(And(
		haveSlice(p.slice, v1.SliceReady, ""), haveOtherIncarnation(p.slice, p.incarnation),
		haveCondition(v1.ConditionSlicesReady, metav1.ConditionTrue, ""),
		haveCondition(v1.ConditionHealthy, metav1.ConditionTrue, "")))
	to := sliceStatus(p.current(ctx), p.slice).NodePool
	Expect(p.current(ctx)).To(haveInterruption(p.slice, reason, p.pool, to))
	Expect(sliceStatus(p.current(ctx), p.slice).Replacements).NotTo(HaveValue(BeZero()))
	return to
}

// moves is resumes in another pool.
func (p *patient) moves(ctx context.Context, reason string) string {
	GinkgoHelper()
	to := p.resumes(ctx, reason)
	Expect(to).NotTo(Equal(p.pool))
	Eventually(p.events(p.name)).WithContext(ctx).Should(ContainElement(And(
		HavePrefix("SliceHotSwapped: "), ContainSubstring(fmt.Sprintf("Slice %d: ", p.slice)),
		ContainSubstring("moved from pool "+p.pool+" to pool "+to), ContainSubstring(reason))))
	return to
}

// unharmed: nothing but the slice was touched, nothing was charged, and
// nothing is left behind.
func (p *patient) unharmed(ctx context.Context) {
	GinkgoHelper()
	Expect(p.snapshot(ctx, p.name, p.slice)).To(Equal(p.before), "more was touched than slice %d", p.slice)
	for i := range p.current(ctx).Spec.Workers[0].NumSlices {
		if int(i) != p.slice {
			Expect(p.seen.states(int(i))).To(BeEmpty(), "slice %d was not always Ready", i)
		}
	}
	p.clean(ctx)
}

// clean: no fence, hold or terminating pod is left.
func (w *world) clean(ctx context.Context) {
	GinkgoHelper()
	Eventually(w.fences).WithContext(ctx).Should(BeEmpty(), "fences")
	Eventually(w.leftovers).WithContext(ctx).Should(BeEmpty())
}

// untouched: no slice was given up, none moved, nothing was charged.
func (p *patient) untouched(ctx context.Context) {
	GinkgoHelper()
	now, before := p.snapshot(ctx, p.name), p.before
	Expect(now.Slices[p.slice]).NotTo(BeEmpty())
	delete(now.Slices, p.slice)
	Expect(now).To(Equal(before))
	s := sliceStatus(p.current(ctx), p.slice)
	Expect(s.Replacements).To(HaveValue(BeZero()))
	Expect(s.JobUID).To(Equal(p.incarnation))
	p.clean(ctx)
}

// sliceStatus is what a job's status tells of a slice.
func sliceStatus(job *v1.PathwaysJob, index int) v1.SliceStatus {
	for _, s := range job.Status.Slices {
		if ptr.Deref(s.Index, -1) == int32(index) {
			return s
		}
	}
	return v1.SliceStatus{}
}

// haveOtherIncarnation matches a job whose slice is another incarnation.
func haveOtherIncarnation(slice int, than apitypes.UID) types.GomegaMatcher {
	return WithTransform(func(job *v1.PathwaysJob) apitypes.UID { return sliceStatus(job, slice).JobUID }, Not(Equal(than)))
}

// haveInterruption matches a job whose history tells, as the last entry about
// the slice (-1 is the head), of an interruption that is over.
func haveInterruption(slice int, reason, from, to string) types.GomegaMatcher {
	return WithTransform(func(job *v1.PathwaysJob) string {
		for _, e := range slices.Backward(job.Status.History) {
			if ptr.Deref(e.Slice, -1) != int32(slice) {
				continue
			}
			if e.DownSeconds == nil {
				return e.Reason + ": not over"
			}
			return e.Reason + ": " + e.FromPool + " -> " + e.ToPool
		}
		return "nothing"
	}, Equal(reason+": "+from+" -> "+to))
}

// recorder sees all states of a job's slices, however short, and with which
// grace periods their pods are stopped.
type recorder struct {
	mu      sync.Mutex
	bySlice map[int][]string
	graces  map[int][]int64
}

// record watches a job of this spec.
func (w *world) record(name string) *recorder {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	c, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	r := &recorder{bySlice: map[int][]string{}, graces: map[int][]int64{}}
	follow := func(list client.ObjectList, see func(watch.Event)) {
		events, err := c.Watch(ctx, list, client.InNamespace(w.namespace))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(events.Stop)
		go func() {
			for e := range events.ResultChan() {
				r.mu.Lock()
				see(e)
				r.mu.Unlock()
			}
		}()
	}
	follow(&v1.PathwaysJobList{}, func(e watch.Event) {
		if job, ok := e.Object.(*v1.PathwaysJob); ok && job.Name == name {
			r.seeJob(job)
		}
	})
	follow(&corev1.PodList{}, func(e watch.Event) {
		pod, ok := e.Object.(*corev1.Pod)
		if ok && e.Type == watch.Modified && pod.Labels[jobsetv1alpha2.JobSetNameKey] == name {
			r.seePod(pod)
		}
	})
	return r
}

func (r *recorder) seeJob(job *v1.PathwaysJob) {
	for _, s := range job.Status.Slices {
		i, state := int(*s.Index), strings.TrimSpace(string(s.State)+" "+s.Reason)
		if known := r.bySlice[i]; state != string(v1.SliceReady) && (len(known) == 0 || known[len(known)-1] != state) {
			r.bySlice[i] = append(known, state)
		}
	}
}

func (r *recorder) seePod(pod *corev1.Pod) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if pod.Labels[jobsetv1alpha2.ReplicatedJobNameKey] != v1.WorkerReplicatedJob || pod.DeletionGracePeriodSeconds == nil || ended {
		return
	}
	var i int
	if _, err := fmt.Sscan(pod.Labels[jobsetv1alpha2.JobIndexKey], &i); err == nil && !slices.Contains(r.graces[i], *pod.DeletionGracePeriodSeconds) {
		r.graces[i] = append(r.graces[i], *pod.DeletionGracePeriodSeconds)
	}
}

// states are those other than Ready that a slice went through, each as "State
// Reason".
func (r *recorder) states(slice int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bySlice[slice])
}

// gracePeriods are those that pods of the slice were stopped with, in seconds.
func (r *recorder) gracePeriods(slice int) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.graces[slice])
}

// reserved gives a pool the label by which only jobs of this spec select it.
func (w *world) reserved(p cluster.Pool) cluster.Pool {
	p.Labels = map[string]string{reservation: w.namespace}
	w.pools[p.Name] = true
	return p
}

// register makes a node of a pool of two VMs (anew).
func (w *world) register(ctx context.Context, pool, name string) {
	GinkgoHelper()
	nodes, err := w.reserved(cluster.TPUPool(pool, machine, shape)).Nodes()
	Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == name })
	Expect(w.Client.Create(ctx, nodes[i])).To(Succeed())
	Expect(w.WaitNodeReady(ctx, name, corev1.ConditionTrue, time.Minute)).To(Succeed())
}
