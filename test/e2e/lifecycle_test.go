//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

var _ = Describe("The life of a job", func() {
	It("runs, and completes when its program ends with 0", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "4x4")
		w.pool(ctx, "b", "ct6e-standard-4t", "4x4")
		w.create(ctx, w.makeJob("train"))
		job := w.running(ctx, "train")
		Expect(job.Status.SliceSummary).To(Equal("2/2"))
		Expect(job.Status.State).To(Equal(v1.JobRunning))
		Expect(w.Kubectl(ctx, "wait", "pwj/train", "--namespace", w.namespace, "--for=condition=SlicesReady")).To(ContainSubstring("condition met"))
		Expect(w.Kubectl(ctx, "get", "pwj", "train", "--namespace", w.namespace)).To(And(
			ContainSubstring("Running"), ContainSubstring("2/2")))

		w.exitHead(ctx, "train", 0, "")
		job = w.completed(ctx, "train")
		Expect(job.Status.Restarts).To(HaveValue(BeZero()))
		Eventually(w.reasons("train")).WithContext(ctx).Should(ConsistOf(
			v1.EventJobSetCreated, v1.EventJobRunning, "SlicesStarted", v1.EventJobCompleted))
	})

	It("stops and starts again by spec.suspend", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		uid := w.running(ctx, "train").Status.JobSet.UID

		w.mergePatch(ctx, "train", `{"spec":{"suspend":true}}`)
		w.until(ctx, "train",
			haveCondition(v1.ConditionSuspended, metav1.ConditionTrue, v1.ReasonSuspendedByUser),
			haveCondition(v1.ConditionRunning, metav1.ConditionFalse, ""))
		Eventually(w.activePods("train")).WithContext(ctx).Should(BeEmpty())
		Consistently(w.activePods("train")).WithContext(ctx).Should(BeEmpty())

		w.mergePatch(ctx, "train", `{"spec":{"suspend":false}}`)
		job := w.running(ctx, "train")
		Expect(job.Status.JobSet.UID).To(Equal(uid), "the JobSet should be the same")
		Expect(job.Status.Restarts).To(HaveValue(BeZero()))
		Eventually(w.reasons("train")).WithContext(ctx).Should(ContainElements(v1.EventJobSuspended, v1.EventJobResumed))
		Expect(job.Status.History).To(BeEmpty(), "a suspension is no interruption")
	})

	It("is deleted ttlSecondsAfterFinished after its end, not before", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		job := w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).TTLSecondsAfterFinished(4))
		w.running(ctx, "train")
		w.exitHead(ctx, "train", 0, "")
		end := w.until(ctx, "train", haveCondition(v1.ConditionCompleted, metav1.ConditionTrue, "")).Status.CompletionTime
		deletion := time.Now()
		Eventually(func(ctx context.Context) (bool, error) {
			err := w.Client.Get(ctx, clientKey(job), job)
			deletion = time.Now()
			if err == nil && job.DeletionTimestamp != nil {
				deletion = job.DeletionTimestamp.Time
			}
			return apierrors.IsNotFound(err) || job.DeletionTimestamp != nil, client.IgnoreNotFound(err)
		}).WithContext(ctx).Should(BeTrue())
		Expect(deletion.Sub(end.Time)).To(BeNumerically(">=", 4*time.Second))
		w.gone(ctx, job)
		w.nothingLeft(ctx, "train")
	})

	It("is left alone where another controller manages it", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.create(ctx, w.makeJob("train").ManagedBy("example.com/other"))
		Consistently(func(ctx context.Context) error {
			_, err := w.jobSet(ctx, "train")
			return err
		}).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "not found"))
		job, err := w.get(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Status).To(Equal(v1.PathwaysJobStatus{}))
	})

	It("leaves nothing behind when it is deleted", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "4x4")
		w.pool(ctx, "b", "ct6e-standard-4t", "4x4")
		job := w.create(ctx, w.makeJob("train"))
		w.running(ctx, "train")
		_, err := w.Kubectl(ctx, "delete", "pathwaysjob", "train", "--namespace", w.namespace)
		Expect(err).NotTo(HaveOccurred())
		w.gone(ctx, job)
		w.nothingLeft(ctx, "train")
		Expect(w.fences(ctx)).To(BeEmpty())
	})

	It("does not start again when it has finished and its JobSet is deleted", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1))
		w.running(ctx, "train")
		w.exitHead(ctx, "train", 0, "")
		end := w.completed(ctx, "train").Status.CompletionTime

		w.deleteJobSet(ctx, "train")
		// Whatever makes the operator look at the job again.
		w.mergePatch(ctx, "train", `{"metadata":{"annotations":{"pathways-job.pathways.domain/restart":"now"}}}`)
		Consistently(func(ctx context.Context) error {
			_, err := w.jobSet(ctx, "train")
			return err
		}).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "not found"))
		job := w.until(ctx, "train", haveCondition(v1.ConditionCompleted, metav1.ConditionTrue, v1.ReasonSucceeded))
		Expect(job.Status.CompletionTime).To(Equal(end))
	})

	It("starts again as a whole when its JobSet is deleted while it runs", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		w.pool(ctx, "a", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).MaxRestarts(2))
		before := w.running(ctx, "train").Status.JobSet.UID
		w.deleteJobSet(ctx, "train")
		job := w.until(ctx, "train",
			haveCondition(v1.ConditionRunning, metav1.ConditionTrue, ""),
			haveWholeRestarts(1))
		Expect(job.Status.JobSet.UID).NotTo(Equal(before))
		Expect(job.Status.JobSet.ChargedRestarts).To(HaveValue(BeZero()), "nobody's fault is charged")
		js, err := w.jobSet(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(js.Spec.FailurePolicy.MaxRestarts).To(BeEquivalentTo(2))
		Eventually(w.reasons("train")).WithContext(ctx).Should(ContainElement(v1.EventJobRestarted))
	})

	It("follows a queue's suspend of its JobSet, and never fights it", func(ctx context.Context) {
		w := newWorld(ctx, shared)
		a, b := w.pool(ctx, "a", "ct6e-standard-4t", "2x4"), w.pool(ctx, "b", "ct6e-standard-4t", "2x4")
		w.create(ctx, w.makeJob("train").Workers("ct6e-standard-4t", "2x4", 1).Label("kueue.x-k8s.io/queue-name", "tpus"))
		w.running(ctx, "train")
		for _, pool := range []string{b, a} {
			// Preempted …
			w.patchJobSet(ctx, "train", `{"spec":{"suspend":true}}`)
			w.until(ctx, "train",
				haveCondition(v1.ConditionSuspended, metav1.ConditionTrue, v1.ReasonQueued),
				haveMessage(v1.ConditionSuspended, ContainSubstring("queue tpus")))
			Eventually(w.activePods("train")).WithContext(ctx).Should(BeEmpty())
			Eventually(w.headJobStopped("train")).WithContext(ctx).Should(BeTrue())
			// … and admitted again, elsewhere.
			w.admit(ctx, "train", pool)
			w.running(ctx, "train")
			workers, err := w.workers(ctx, "train", 0)
			Expect(err).NotTo(HaveOccurred())
			for _, p := range workers {
				Expect(p.Spec.NodeName).To(HavePrefix(pool + "-"))
			}
		}
		js, err := w.jobSet(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		for _, f := range js.ManagedFields {
			if f.Manager == v1.FieldManagerController {
				Expect(f.Time.Time).To(BeTemporally("~", js.CreationTimestamp.Time, time.Second), "the operator wrote the JobSet after it had created it")
			}
		}
		job, err := w.get(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Status.Restarts).To(HaveValue(BeZero()))
	})
})

// mergePatch merges a patch into a job.
func (w *world) mergePatch(ctx context.Context, name, patch string) {
	GinkgoHelper()
	job := &v1.PathwaysJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Expect(w.Client.Patch(ctx, job, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// patchJobSet merges a patch into the JobSet of a job, as somebody else.
func (w *world) patchJobSet(ctx context.Context, name, patch string) {
	GinkgoHelper()
	js := &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Expect(w.Client.Patch(ctx, js, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kueue"))).To(Succeed())
}

// admit lets a JobSet run with its workers on one pool, as Kueue does it.
func (w *world) admit(ctx context.Context, name, pool string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		js, err := w.jobSet(ctx, name)
		if err != nil {
			return err
		}
		for i := range js.Spec.ReplicatedJobs {
			if rj := &js.Spec.ReplicatedJobs[i]; rj.Name == v1.WorkerReplicatedJob {
				rj.Template.Spec.Template.Spec.NodeSelector["cloud.google.com/gke-nodepool"] = pool
			}
		}
		js.Spec.Suspend = ptr.To(false)
		return w.Client.Update(ctx, js, client.FieldOwner("kueue"))
	}).WithContext(ctx).Should(Succeed())
}

// headJobStopped says whether the head's child Job is suspended and its pod gone.
func (w *world) headJobStopped(name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		j := &batchv1.Job{}
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name + "-pathways-head-0"}, j)
		return err == nil && ptr.Deref(j.Spec.Suspend, false) && j.Status.Active == 0, client.IgnoreNotFound(err)
	}
}

// deleteJobSet deletes the JobSet of a job, and waits until it is gone.
func (w *world) deleteJobSet(ctx context.Context, name string) {
	GinkgoHelper()
	js, err := w.jobSet(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.Client.Delete(ctx, js)).To(Succeed())
	Eventually(func(ctx context.Context) bool {
		now, err := w.jobSet(ctx, name)
		return apierrors.IsNotFound(err) || (err == nil && now.UID != js.UID)
	}).WithContext(ctx).Should(BeTrue())
}

// nothingLeft waits until nothing is left of what a job had.
func (w *world) nothingLeft(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) ([]string, error) {
		var left []string
		for _, list := range []client.ObjectList{
			&jobsetv1alpha2.JobSetList{}, &batchv1.JobList{}, &corev1.PodList{}, &corev1.ServiceList{},
		} {
			if err := w.Client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
				return nil, err
			}
			switch l := list.(type) {
			case *jobsetv1alpha2.JobSetList:
				for _, o := range l.Items {
					left = append(left, "JobSet "+o.Name)
				}
			case *batchv1.JobList:
				for _, o := range l.Items {
					left = append(left, "Job "+o.Name)
				}
			case *corev1.PodList:
				for _, o := range l.Items {
					left = append(left, "Pod "+o.Name)
				}
			case *corev1.ServiceList:
				for _, o := range l.Items {
					left = append(left, "Service "+o.Name)
				}
			}
		}
		return left, nil
	}).WithContext(ctx).Should(BeEmpty(), fmt.Sprintf("what %s has left behind", name))
}
