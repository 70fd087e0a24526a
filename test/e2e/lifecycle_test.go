//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
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

		head, err := w.head(ctx, "train")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.ExitContainer(ctx, clientKey(head), cluster.Exit{Container: "main"})).To(Succeed())
		Eventually(w.job("train")).WithContext(ctx).Should(And(
			haveCondition(v1.ConditionCompleted, metav1.ConditionTrue, ""),
			haveCondition(v1.ConditionRunning, metav1.ConditionFalse, "")))
	})
})
