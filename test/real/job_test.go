//go:build real

package real

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/test/realcluster/cluster"
	"pathways.domain/pathways-job/test/standin/report"
)

// training is a PathwaysJob that trains until it is told that it is enough.
type training struct {
	job    *v1.PathwaysJob
	bucket string
}

// newTraining describes a job with a name and a bucket of its own; start
// creates it.
func newTraining(slices int32, args ...string) *training {
	small := func(component v1.ComponentType) v1.CustomComponent {
		return v1.CustomComponent{ComponentType: component, Resources: &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
		}}
	}
	store := []corev1.EnvVar{{Name: "STORAGE_EMULATOR_HOST", Value: cluster.ObjectStore}}
	name := "train-" + strings.ToLower(rand.Text()[:6]) // nobody has used
	bucket := name
	args = append([]string{
		"--steps=1000000", "--step_time=50ms", "--until=gs://" + bucket + "/enough", "--checkpoint=gs://" + bucket + "/checkpoint",
	}, args...)
	return &training{bucket: bucket, job: &v1.PathwaysJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PathwaysJobSpec{
			PathwaysDir: "gs://" + bucket + "-scratch/pathways",
			Workers: []v1.WorkerSpec{{
				Type: cluster.MachineType, Topology: cluster.Topology, NumSlices: slices,
				TerminationGracePeriodSeconds: ptr.To[int64](30),
			}},
			Controller: v1.ControllerSpec{Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				NodeSelector: map[string]string{cluster.LabelNodePool: "cpu"},
				Containers: []corev1.Container{{
					Name: "main", Image: cluster.ImageMain, Env: store, Args: args,
				}},
			}}},
			CustomComponents: []v1.CustomComponent{
				small(v1.ComponentPathwaysServer), small(v1.ComponentProxyServer),
				{ComponentType: v1.ComponentWorker, CustomEnv: store},
			},
		},
	}}
}

// start creates the job and waits until it trains.
func (t *training) start(ctx context.Context) {
	GinkgoHelper()
	t.create(ctx)
	t.reaches(ctx, 5)
}

// create creates the job, and deletes it after the spec.
func (t *training) create(ctx context.Context) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, t.job)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			t.dump(ctx)
		}
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, t.job, client.PropagationPolicy(metav1.DeletePropagationForeground)))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(t.pods(ctx)).To(BeEmpty())
		}).Should(Succeed(), "all pods of the job are gone")
	}, NodeTimeout(3*time.Minute))
}

// component returns a component's customisation, made if need be.
func (t *training) component(name v1.ComponentType) *v1.CustomComponent {
	all := &t.job.Spec.CustomComponents
	for i := range *all {
		if (*all)[i].ComponentType == name {
			return &(*all)[i]
		}
	}
	*all = append(*all, v1.CustomComponent{ComponentType: name})
	return &(*all)[len(*all)-1]
}

func (t *training) get(ctx context.Context) *v1.PathwaysJob {
	GinkgoHelper()
	job := &v1.PathwaysJob{}
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(t.job), job)).To(Succeed())
	return job
}

func (t *training) pods(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	var list corev1.PodList
	Expect(k8s.List(ctx, &list, client.InNamespace(t.job.Namespace),
		client.MatchingLabels{"jobset.sigs.k8s.io/jobset-name": t.job.Name})).To(Succeed())
	return list.Items
}

// head returns the head's pod that is not being deleted, or nil.
func (t *training) head(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	for _, p := range t.pods(ctx) {
		if p.Labels["jobset.sigs.k8s.io/replicatedjob-name"] == v1.HeadReplicatedJob && p.DeletionTimestamp == nil {
			return &p
		}
	}
	return nil
}

// workers returns the pods of a slice.
func (t *training) workers(ctx context.Context, slice int) []corev1.Pod {
	GinkgoHelper()
	var out []corev1.Pod
	for _, p := range t.pods(ctx) {
		if p.Labels["jobset.sigs.k8s.io/replicatedjob-name"] == v1.WorkerReplicatedJob &&
			p.Labels["jobset.sigs.k8s.io/job-index"] == strconv.Itoa(slice) {
			out = append(out, p)
		}
	}
	return out
}

// pool returns the node pool that a slice is Ready on; empty where it is not.
func (t *training) pool(ctx context.Context, slice int) string {
	GinkgoHelper()
	for _, s := range t.get(ctx).Status.Slices {
		if ptr.Deref(s.Index, -1) == int32(slice) && s.State == v1.SliceReady {
			return s.NodePool
		}
	}
	return ""
}

func (t *training) log(ctx context.Context, pod, container string) string {
	stream, err := kube.CoreV1().Pods(t.job.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).Stream(ctx)
	if err != nil {
		return ""
	}
	defer stream.Close()
	data, err := io.ReadAll(stream)
	if err != nil {
		return ""
	}
	return string(data)
}

var (
	stepLine    = regexp.MustCompile(`(?m) step (\d+) on slices \[([\d ]*)\]`)
	processLine = regexp.MustCompile(`(?m) process (\S+)$`)
)

// progress is where the program is: its process, the last step it did, and
// the slices it did it on.
type progress struct {
	process string
	step    int
	slices  string
}

func (t *training) progress(ctx context.Context) progress {
	GinkgoHelper()
	head := t.head(ctx)
	if head == nil {
		return progress{step: -1}
	}
	log := t.log(ctx, head.Name, "main")
	p := progress{step: -1}
	if m := processLine.FindStringSubmatch(log); m != nil {
		p.process = m[1]
	}
	if all := stepLine.FindAllStringSubmatch(log, -1); len(all) > 0 {
		last := all[len(all)-1]
		step, err := strconv.Atoi(last[1])
		Expect(err).NotTo(HaveOccurred())
		p.step, p.slices = step, last[2]
	}
	return p
}

// reaches waits until the program has done a step.
func (t *training) reaches(ctx context.Context, step int) progress {
	GinkgoHelper()
	var p progress
	Eventually(func() int {
		p = t.progress(ctx)
		return p.step
	}).WithContext(ctx).Should(BeNumerically(">=", step), "the program trains")
	return p
}

// goesOn waits until it has done ten steps more than it has now.
func (t *training) goesOn(ctx context.Context) progress {
	GinkgoHelper()
	return t.reaches(ctx, t.progress(ctx).step+10)
}

// finish tells the program that it is enough, waits until the job is
// Completed, and returns the program's report, whose results must be right.
func (t *training) finish(ctx context.Context) report.Report {
	GinkgoHelper()
	putObject(ctx, t.bucket, "enough", true)
	t.becomes(ctx, v1.ConditionCompleted)
	var result report.Report
	Eventually(func(g Gomega) {
		head := t.head(ctx)
		g.Expect(head).NotTo(BeNil())
		var err error
		result, err = report.FromLog(t.log(ctx, head.Name, "main"))
		g.Expect(err).NotTo(HaveOccurred())
	}).Should(Succeed())
	GinkgoWriter.Println(result.Line())
	Expect(result.Done).To(BeTrue())
	Expect(result.Wrong).To(BeEmpty())
	return result
}

func (t *training) becomes(ctx context.Context, condition string) {
	GinkgoHelper()
	Eventually(func() bool {
		return meta.IsStatusConditionTrue(t.get(ctx).Status.Conditions, condition)
	}).WithContext(ctx).Should(BeTrue(), "the job is "+condition)
}

// events of the job, as "reason: message".
func (t *training) events(ctx context.Context) []string {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(k8s.List(ctx, &list, client.InNamespace(t.job.Namespace))).To(Succeed())
	var out []string
	for _, e := range list.Items {
		if e.Regarding.UID == t.job.UID {
			out = append(out, e.Reason+": "+e.Note)
		}
	}
	return out
}

// dump shows what is there, for a spec that failed.
func (t *training) dump(ctx context.Context) {
	job := t.get(ctx)
	status, err := json.MarshalIndent(job.Status, "", " ")
	GinkgoWriter.Printf("status of %s: %s %v\n", job.Name, status, err)
	for _, p := range t.pods(ctx) {
		GinkgoWriter.Printf("--- pod %s on %s: %s deleted %v\n", p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp)
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			lines := strings.Split(strings.TrimSpace(t.log(ctx, p.Name, c.Name)), "\n")
			GinkgoWriter.Printf("%s:\n  %s\n", c.Name, strings.Join(lines[max(0, len(lines)-12):], "\n  "))
		}
	}
	var events corev1.EventList
	if err := k8s.List(ctx, &events, client.InNamespace(job.Namespace)); err == nil {
		for _, e := range events.Items {
			if strings.HasPrefix(e.InvolvedObject.Name, job.Name) {
				GinkgoWriter.Printf("%s %s %s: %s\n", e.LastTimestamp.Format(time.TimeOnly), e.InvolvedObject.Name, e.Reason, e.Message)
			}
		}
	}
}

// putObject writes an object to the object store.
func putObject(ctx context.Context, bucket, name string, value any) {
	GinkgoHelper()
	data, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	url := fmt.Sprintf("%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s", cluster.ObjectStore, bucket, name)
	call(ctx, http.MethodPost, url, data)
}

// slowSaves makes each write of a worker's state take that long.
func (t *training) slowSaves(ctx context.Context, d time.Duration) {
	GinkgoHelper()
	call(ctx, http.MethodPut, fmt.Sprintf("%s/standin/delay/%s-scratch?for=%s", cluster.ObjectStore, t.bucket, d), nil)
}

func call(ctx context.Context, method, url string, body []byte) {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Body.Close()).To(Succeed())
	Expect(resp.StatusCode).To(Equal(http.StatusOK))
}
