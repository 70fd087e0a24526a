package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// The simulated world: node pools, a scheduler, kubelets, the Job and JobSet
// controllers, and the operator around Next, all as small fakes in discrete
// time. What the fakes do is what design/jobset-and-kubernetes.md says that
// the real ones do.

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// simPod is a worker pod and its life on the kubelet.
type simPod struct {
	Pod
	slice   int32
	created time.Time
	stage   time.Time // when the kubelet takes the next step
	stopAt  time.Time
	counted bool
	gcAt    time.Time
	byHand  bool // someone deleted its Job under it
}

type simHead struct {
	Head
	stage, stopAt time.Time
	exitZero      bool // its program exits 0 when it is stopped
	counted       bool
}

type simPool struct {
	name   string
	want   int32
	nodes  []*Node
	rival  *rival // who holds or wants it
	repair time.Time
	grow   time.Time
}

// rival is a slice of a higher priority that takes a pool for a while.
type rival struct {
	until time.Time
}

// machine is what the Node object does not show.
type machine struct {
	dead     time.Time // no kubelet since
	stopped  bool      // the pods' processes are gone, too
	returns  time.Time
	finishes time.Time // the node is deleted then
}

type simChild struct {
	ChildJob
	slice   int32
	backoff time.Time
	failAt  time.Time
	fails   int
	done    map[int32]bool // completed indexes
}

type world struct {
	rng    *rand.Rand
	now    time.Time
	due    time.Time
	policy Policy
	job    Job
	jobSet JobSet
	head   *simHead
	heads  []*Node // CPU nodes
	child  []*simChild
	pods   [][]*simPod
	pools  []*simPool
	hidden map[*Node]*machine
	rungs  []rung

	uid      int
	dirty    bool
	look     time.Time // when Next wants to look again
	opDown   time.Time
	crashOps int // the operator dies with 1 in crashOps before an action; 0 never
	stopFor  time.Duration
	exitZero bool // workers exit 0 on SIGTERM
	faults   []fault
	grow     time.Duration // a new pool's nodes register one each

	truth truth
	log   *strings.Builder
	fail  func(format string, args ...any)
}

// truth is what really happened, for the invariants.
type truth struct {
	ownFalls     []int32 // since the last whole restart
	cause        bool    // something happened that may restart the whole job
	headRestarts int
	busy         bool // the job has run
}

type fault struct {
	at time.Time
	do func(w *world)
}

func (w *world) id(prefix string) types.UID {
	w.uid++
	return types.UID(fmt.Sprintf("%s-%d", prefix, w.uid))
}

func (w *world) wait(t time.Time) {
	if w.due.IsZero() || t.Before(w.due) {
		w.due = t
	}
}

// reached says whether t has come, and makes sure the world stops there.
func (w *world) reached(t time.Time) bool {
	if w.now.Before(t) {
		w.wait(t)
		return false
	}
	return true
}

func (w *world) note(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "%8s  %s\n", w.now.Sub(epoch), fmt.Sprintf(format, args...))
	}
}

// newWorld has a job of slices × vms, and pools of its shape.
func newWorld(slices, vms int32, pools int) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(1, 2)), now: epoch, policy: DefaultPolicy(),
		hidden: map[*Node]*machine{}, rungs: ladder, stopFor: time.Second, grow: time.Second,
		child: make([]*simChild, slices), pods: make([][]*simPod, slices),
		truth: truth{ownFalls: make([]int32, slices)},
		fail:  func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) },
	}
	w.job = Job{
		UID: "job", Slices: slices, VMs: vms, ElasticSlices: 1, MaxSliceRestarts: 1, Shape: "tpu-v5p-slice 2x2x4",
		Resumable: true, Priority: 100,
	}
	w.jobSet = JobSet{UID: "jobset-0"}
	for i := range 2 {
		n := &Node{Name: fmt.Sprintf("cpu-%d", i), Ready: NodeReadyTrue}
		w.heads = append(w.heads, n)
		w.hidden[n] = &machine{}
	}
	for i := range pools {
		pool := &simPool{name: fmt.Sprintf("pool-%c", 'a'+i), want: vms}
		w.pools = append(w.pools, pool)
		for range vms {
			w.addNode(pool)
		}
	}
	return w
}

func (w *world) addNode(pool *simPool) {
	w.uid++
	n := &Node{Name: fmt.Sprintf("%s-n%d", pool.name, len(pool.nodes)), Pool: pool.name, Zone: "zone-1", ReadySince: w.now}
	if w.now.After(epoch) {
		n.Name = fmt.Sprintf("%s-n%d", pool.name, w.uid)
	}
	pool.nodes = append(pool.nodes, n)
	w.hidden[n] = &machine{}
	w.dirty = true
}

// observe is what the operator's caches hold.
func (w *world) observe() Observation {
	o := Observation{Policy: w.policy, Job: w.job, JobSet: w.jobSet}
	if w.head != nil {
		o.Head = w.head.Head
	}
	o.Slices = make([]Slice, len(w.child))
	for i := range o.Slices {
		s := &o.Slices[i]
		s.Index = int32(i)
		if c := w.child[i]; c != nil {
			copied := c.ChildJob
			s.Child = &copied
		}
		s.Pods = make([]Pod, len(w.pods[i]))
		for k, pod := range w.pods[i] {
			s.Pods[k] = pod.Pod
			s.Pods[k].Ready = pod.Ready && pod.Node != nil && pod.Node.Ready == NodeReadyTrue
		}
	}
	for _, pool := range w.pools {
		for _, n := range pool.nodes {
			n.TPUPods, n.TopPriority = 0, 0
			if pool.rival != nil && !w.ours(pool) && n.Ready == NodeReadyTrue {
				n.TPUPods, n.TopPriority = 1, 1000
			}
		}
	}
	for _, pods := range w.pods {
		for _, pod := range pods {
			if pod.Node != nil && !pod.Phase.Terminal() {
				pod.Node.TPUPods++
				pod.Node.TopPriority = w.job.Priority
			}
		}
	}
	for _, pool := range w.pools {
		if w.job.VMs > 1 {
			o.Pools = append(o.Pools, Pool{Name: pool.name, Want: pool.want, Fits: true, Nodes: pool.nodes})
			continue
		}
		for _, n := range pool.nodes {
			o.Pools = append(o.Pools, Pool{Name: pool.name, Want: 1, Fits: true, Nodes: []*Node{n}})
		}
	}
	return o
}

// ours says that pods of our job are on the pool.
func (w *world) ours(pool *simPool) bool {
	for _, pods := range w.pods {
		for _, pod := range pods {
			if pod.Node != nil && pod.Node.Pool == pool.name && !pod.Phase.Terminal() {
				return true
			}
		}
	}
	return false
}

// operate is one reconcile of the operator.
func (w *world) operate() bool {
	if w.job.Deleting || !w.reached(w.opDown) {
		return false
	}
	if !w.dirty && (w.look.IsZero() || !w.reached(w.look)) {
		return false
	}
	w.dirty = false
	o := w.observe()
	d := next(&o, w.now, w.rungs)
	w.look = d.Wake
	if !d.Wake.IsZero() {
		if !d.Wake.After(w.now) {
			w.fail("wake %s is not ahead of %s", d.Wake, w.now)
		}
		w.wait(d.Wake)
	}
	w.tell(&d)
	changed := !equality.Semantic.DeepEqual(w.job.Status.Slices, d.Slices)
	w.write(&d)
	for _, a := range d.Actions {
		if w.crashOps > 0 && w.rng.IntN(w.crashOps) == 0 {
			w.opDown = w.now.Add(time.Duration(1+w.rng.IntN(5)) * time.Second)
			w.note("operator dies before %s", a.Kind)
			w.dirty = true
			break
		}
		w.do(a)
	}
	return changed || len(d.Actions) > 0
}

func (w *world) write(d *Decision) {
	s := &w.job.Status
	s.Slices, s.Repair, s.History, s.Conditions = d.Slices, d.Repair, d.History, d.Conditions
	s.ReadySlices, s.TotalSlices, s.SliceSummary = ptr.To(d.ReadySlices), ptr.To(d.TotalSlices), d.SliceSummary
	for i := range s.Slices {
		if ptr.Deref(s.Slices[i].Restarts, 0) > w.truth.ownFalls[i] {
			w.fail("slice %d is charged %d restarts, but its workers fell %d times by themselves",
				i, *s.Slices[i].Restarts, w.truth.ownFalls[i])
		}
	}
	if w.job.EverRunning = w.job.EverRunning || w.head != nil && w.head.Ready && int(d.ReadySlices) == len(d.Slices); w.job.EverRunning {
		w.truth.busy = true
	}
}

// tell writes what a person wants to read of a decision.
func (w *world) tell(d *Decision) {
	if w.log == nil {
		return
	}
	for i, st := range d.Slices {
		var was v1.SliceStatus
		if i < len(w.job.Status.Slices) {
			was = w.job.Status.Slices[i]
		}
		if was.State == st.State && was.Reason == st.Reason && ptr.Deref(was.Restarts, 0) == ptr.Deref(st.Restarts, 0) {
			continue
		}
		reason := ""
		if st.Reason != "" {
			reason = " (" + st.Reason + ")"
		}
		charged := ""
		if n := ptr.Deref(st.Restarts, 0); n != ptr.Deref(was.Restarts, 0) {
			charged = fmt.Sprintf(", %d restarts charged", n)
		}
		w.note("  slice %d is %s%s%s. %s", i, st.State, reason, charged, st.Message)
	}
	for _, e := range d.Events {
		w.note("  event %s: %s", e.Reason, e.Message)
	}
	for _, a := range d.Actions {
		w.note("  act %s", actionWords(a))
	}
	for _, a := range d.Suppressed {
		w.note("  would %s", actionWords(a))
	}
}

func actionWords(a Action) string {
	words := string(a.Kind)
	for _, more := range []string{a.Object, a.Pool} {
		if more != "" {
			words += " " + more
		}
	}
	if a.Hold {
		words += ", held"
	}
	return words
}
