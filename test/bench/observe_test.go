//go:build bench

package bench

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/tpu"
)

// sampling is how often slices are looked at.
const sampling = 50 * time.Millisecond

// observer sees pods and nodes by watching.
type observer struct{ client.Reader }

func newObserver(t *testing.T, e *env) *observer {
	t.Helper()
	c, err := ctrlcache.New(e.Config, ctrlcache.Options{
		Scheme: e.Client.Scheme(), DefaultTransform: ctrlcache.TransformStripManagedFields(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{&corev1.Pod{}, &corev1.Node{}} {
		if _, err := c.GetInformer(t.Context(), o, ctrlcache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not get in sync")
	}
	return &observer{c}
}

// workers are the pods of a side's slices, by slice.
func (o *observer) workers(ctx context.Context, s *side) map[int][]*corev1.Pod {
	var list corev1.PodList
	err := o.List(ctx, &list, client.InNamespace(s.name), client.UnsafeDisableDeepCopy, client.MatchingLabels{
		jobsetv1alpha2.JobSetNameKey: s.name, jobsetv1alpha2.ReplicatedJobNameKey: v1.WorkerReplicatedJob,
	})
	if err != nil {
		return nil // the cache is ending
	}
	all := map[int][]*corev1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		if index, err := strconv.Atoi(pod.Labels[jobsetv1alpha2.JobIndexKey]); err == nil {
			all[index] = append(all[index], pod)
		}
	}
	return all
}

// ready says whether all VMs of a slice have a worker that is Ready on a host
// that is, too.
func (o *observer) ready(ctx context.Context, s *side, pods []*corev1.Pod) bool {
	indexes := map[string]bool{}
	for _, pod := range pods {
		if pod.DeletionTimestamp.IsZero() && isTrue(pod) && o.alive(ctx, pod.Spec.NodeName) {
			indexes[pod.Labels["batch.kubernetes.io/job-completion-index"]] = true
		}
	}
	return len(indexes) == s.vms
}

func isTrue(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// alive says whether a node exists and is Ready.
func (o *observer) alive(ctx context.Context, name string) bool {
	var node corev1.Node
	if err := o.Get(ctx, client.ObjectKey{Name: name}, &node, &client.GetOptions{}); err != nil {
		return false
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// readySlices counts the slices of a side that are ready.
func (o *observer) readySlices(ctx context.Context, s *side) int {
	n := 0
	for _, pods := range o.workers(ctx, s) {
		if o.ready(ctx, s, pods) {
			n++
		}
	}
	return n
}

// incarnation is the set of a slice's pods.
func incarnation(pods []*corev1.Pod) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, pod := range pods {
		uids[pod.UID] = true
	}
	return uids
}

// recovered says whether a slice is ready with other pods than before.
func (o *observer) recovered(ctx context.Context, s *side, slice int, before map[types.UID]bool) bool {
	pods := o.workers(ctx, s)[slice]
	return o.ready(ctx, s, pods) && !maps.Equal(before, incarnation(pods))
}

// poolOf is the node pool that a slice runs on.
func (o *observer) poolOf(ctx context.Context, s *side, slice int) string {
	for _, pod := range o.workers(ctx, s)[slice] {
		var node corev1.Node
		if err := o.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); err == nil {
			return node.Labels[tpu.LabelNodePool]
		}
	}
	return ""
}

// point is the number of ready slices from a time on.
type point struct {
	at    time.Time
	ready int
}

// recorder notes each change of a side's number of ready slices.
type recorder struct {
	mu     sync.Mutex
	points []point
	cancel context.CancelFunc
	ended  chan struct{}
}

func (o *observer) record(ctx context.Context, s *side) *recorder {
	ctx, cancel := context.WithCancel(ctx)
	r := &recorder{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		tick := time.NewTicker(sampling)
		defer tick.Stop()
		for last := false; ; {
			n := o.readySlices(context.WithoutCancel(ctx), s)
			r.mu.Lock()
			if len(r.points) == 0 || r.points[len(r.points)-1].ready != n {
				r.points = append(r.points, point{time.Now(), n})
			}
			r.mu.Unlock()
			if last {
				return
			}
			select {
			case <-ctx.Done():
				last = true // what has just been waited for is to be seen
			case <-tick.C:
			}
		}
	}()
	return r
}

// stop ends the recording and returns it.
func (r *recorder) stop() []point {
	r.cancel()
	<-r.ended
	return r.points
}
