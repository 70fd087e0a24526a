package elastic

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pathways.domain/pathways-job/internal/elastic/plan"
	"pathways.domain/pathways-job/internal/tpu"
)

// rebuildShare bounds the time spent on snapshots: a snapshot is used for at
// least this many times as long as it took to make.
const rebuildShare = 10

// snapshot is the TPU nodes of the cluster at one time, as the planner sees
// them. It is shared between observations: nobody changes it.
type snapshot struct {
	pools []slicePool
	// nodes by name.
	nodes map[string]*plan.Node
}

// slicePool is a pool with what decides whether a job's slices fit.
type slicePool struct {
	plan.Pool
	labels map[string]string
	taints []corev1.Taint
}

// poolView keeps the latest snapshot.
type poolView struct {
	cache client.Reader
	clock clock.PassiveClock

	mu      sync.Mutex
	dirty   bool
	built   time.Time
	cost    time.Duration
	current *snapshot
}

func newPoolView(cache client.Reader, c clock.PassiveClock) *poolView {
	return &poolView{cache: cache, clock: c, dirty: true}
}

// invalidate notes that a node, or what holds its TPUs, has changed.
func (v *poolView) invalidate() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dirty = true
}

// get returns the latest snapshot. If it is known to be out of date, because
// making it anew at once would cost too much, stale is when to look again.
func (v *poolView) get(ctx context.Context) (s *snapshot, stale time.Duration, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	start := v.clock.Now()
	if v.current != nil {
		if !v.dirty {
			return v.current, 0, nil
		}
		if wait := rebuildShare*v.cost - start.Sub(v.built); wait > 0 {
			return v.current, wait, nil
		}
	}
	v.dirty = false
	next, err := buildSnapshot(ctx, v.cache)
	if err != nil {
		v.dirty = true
		return nil, 0, err
	}
	v.current, v.built = next, v.clock.Now()
	v.cost = v.built.Sub(start)
	return next, 0, nil
}

func buildSnapshot(ctx context.Context, cache client.Reader) (*snapshot, error) {
	var nodes corev1.NodeList
	if err := cache.List(ctx, &nodes, client.HasLabels{tpu.LabelAccelerator}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the TPU nodes: %w", err)
	}
	var pods corev1.PodList
	if err := cache.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	s := &snapshot{nodes: make(map[string]*plan.Node, len(nodes.Items))}
	byName := map[string]int{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		facts := nodeFacts(n)
		s.nodes[n.Name] = facts
		want := poolSize(n)
		name := n.Labels[tpu.LabelNodePool]
		if at, ok := byName[name]; ok && want != 1 && name != "" {
			s.pools[at].Nodes = append(s.pools[at].Nodes, facts)
			s.pools[at].Want = max(s.pools[at].Want, int32(want))
			continue
		}
		if name == "" {
			name = n.Name
		} else if want != 1 {
			byName[name] = len(s.pools)
		}
		s.pools = append(s.pools, slicePool{
			Pool:   plan.Pool{Name: name, Want: int32(want), Nodes: []*plan.Node{facts}},
			labels: n.Labels, taints: n.Spec.Taints,
		})
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if node := s.nodes[p.Spec.NodeName]; node != nil {
			countPod(node, p)
		}
	}
	return s, nil
}

// countPod adds a pod that is bound to the node to what the node's TPUs hold.
func countPod(n *plan.Node, p *corev1.Pod) {
	if !holdsTPU(p) {
		return
	}
	n.TPUPods++
	if priority := podPriority(p); n.TPUPods == 1 || priority > n.TopPriority {
		n.TopPriority = priority
	}
}

func podPriority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// nodeFacts is a Node as the planner sees it, its pods aside.
func nodeFacts(n *corev1.Node) *plan.Node {
	ready := readyCondition(n)
	facts := &plan.Node{
		Name:               n.Name,
		Pool:               n.Labels[tpu.LabelNodePool],
		Zone:               n.Labels[corev1.LabelTopologyZone],
		Deleting:           !n.DeletionTimestamp.IsZero(),
		ReadySince:         ready.LastTransitionTime.Time,
		ShuttingDown:       shuttingDown(ready),
		OutOfService:       hasTaint(n, taintOutOfService),
		Shutdown:           hasTaint(n, taintShutdown),
		Terminating:        hasTaint(n, taintTerminating),
		Unschedulable:      !schedulable(n),
		MaintenanceOngoing: n.Labels[labelMaintenanceNow] == maintenanceOngoing,
		MaintenanceAt:      maintenanceAt(n),
	}
	switch ready.Status {
	case corev1.ConditionTrue:
		facts.Ready = plan.NodeReadyTrue
	case corev1.ConditionFalse:
		facts.Ready = plan.NodeReadyFalse
	default:
		facts.Ready = plan.NodeReadyUnknown
	}
	if t := fenceOf(n); t != nil {
		facts.Fence = types.UID(t.Value)
		if t.TimeAdded != nil {
			facts.FencedSince = t.TimeAdded.Time
		}
	}
	return facts
}

// placement is where the worker pods of a job may go.
type placement struct {
	accelerator, topology string
	selector              map[string]string
	tolerations           []corev1.Toleration
	vms                   int32
}

// poolsFor returns all slice pools, marking those that a slice with this
// placement fits.
func (s *snapshot) poolsFor(p placement) []plan.Pool {
	pools := make([]plan.Pool, len(s.pools))
	for i := range s.pools {
		pools[i] = s.pools[i].Pool
		if pools[i].Fits = p.accepts(&s.pools[i]); pools[i].Fits && pools[i].Want == 0 {
			pools[i].Want = p.vms
		}
	}
	return pools
}

func (p placement) accepts(pool *slicePool) bool {
	if pool.labels[tpu.LabelAccelerator] != p.accelerator || pool.labels[tpu.LabelTopology] != p.topology {
		return false
	}
	for k, want := range p.selector {
		if pool.labels[k] != want {
			return false
		}
	}
	for i := range pool.taints {
		if !passing(&pool.taints[i]) && !p.tolerates(&pool.taints[i]) {
			return false
		}
	}
	return true
}

// tolerates says whether a slice may go where the taint is. What requests
// TPUs always tolerates the taint of TPU nodes.
func (p placement) tolerates(t *corev1.Taint) bool {
	if t.Key == tpu.Resource || t.Effect == corev1.TaintEffectPreferNoSchedule {
		return true
	}
	for i := range p.tolerations {
		if tolerates(&p.tolerations[i], t) {
			return true
		}
	}
	return false
}

func tolerates(toleration *corev1.Toleration, t *corev1.Taint) bool {
	if toleration.Effect != "" && toleration.Effect != t.Effect {
		return false
	}
	if toleration.Key != "" && toleration.Key != t.Key {
		return false
	}
	return toleration.Operator == corev1.TolerationOpExists || toleration.Value == t.Value
}
