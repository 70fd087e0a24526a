package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Reasons of slices and conditions beside those of the reasons table.
const (
	ReasonWorkerNotReady = "WorkerNotReady" // a worker is not Ready, and nothing says why
	ReasonJobEnding      = "JobEnding"      // the job is ending or restarting as a whole
	ReasonJobEnded       = "JobEnded"       // the job has completed or failed
	ReasonJobSuspended   = "JobSuspended"   // the job is suspended
	ReasonJobDeleted     = "JobDeleted"     // the job is being deleted
	ReasonHeadNotReady   = "HeadNotReady"   // the head is not Ready
	ReasonSlicesDown     = "SlicesDown"     // more slices are down than elasticSlices
	ReasonHealthy        = "Healthy"        // the head is Ready, and no more slices are down than elasticSlices
)

var restWords = map[string]string{
	ReasonJobEnded:     "The job has ended.",
	ReasonJobSuspended: "The job is suspended.",
	ReasonJobDeleted:   "The job is being deleted.",
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// clock writes a moment so that a message stays the same while it holds.
func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// failureWords says what is wrong with a node, after "Host x".
func failureWords(n *Node) string {
	switch {
	case n.Gone:
		return "is gone"
	case n.OutOfService:
		return "is out of service"
	case n.Shutdown:
		return "is shut down"
	case n.Ready == NodeReadyUnknown:
		return "does not report (noticed at " + clock(n.ReadySince) + ")"
	}
	return "is not Ready since " + clock(n.ReadySince)
}

// exitWords says how a worker ended.
func (s *slice) exitWords(pod *Pod) string {
	if !pod.Exited {
		return fmt.Sprintf("Worker %d ended.", pod.Index)
	}
	words := fmt.Sprintf("Worker %d exited with code %d", pod.Index, pod.ExitCode)
	message := strings.TrimSpace(pod.ExitMessage)
	if message == "" {
		return words + "."
	}
	if i := strings.LastIndexByte(message, '\n'); i >= 0 {
		message = message[i+1:]
	}
	const most = 200
	if r := []rune(message); len(r) > most {
		message = string(r[:most]) + "..."
	}
	return words + ": " + strings.TrimRight(message, ".") + "."
}

// budgetWords says how many restarts are left.
func (s *slice) budgetWords() string {
	budget := s.obs.Job.Budget()
	pending := int32(0)
	for _, c := range s.st.PendingCharges {
		pending += c.Count
	}
	switch {
	case budget < 0:
		return "Its restarts are not counted."
	case pending == 0:
		return fmt.Sprintf("%d of %d restarts are used.", s.restartsOf(), budget)
	}
	return fmt.Sprintf("%d of %d restarts are used, and %d more unless its host turns out to have failed.", s.restartsOf(), budget, pending)
}

// moveWords says what comes next for a slice that is given up.
func (s *slice) moveWords(m *move) string {
	if s.st.HoldUntil != nil {
		return s.holdWords(s.st.HoldUntil.Time)
	}
	if m.state == v1.SliceSuspending {
		return "Its workers stop with their grace period, and it resumes on the next free pool."
	}
	return "The slice is moved to the next free pool."
}

func (s *slice) holdWords(until time.Time) string {
	if s.keptFromPool() {
		return "Fencing is switched off and nodes of pool " + s.st.NodePool + " could take it back, so it is held until the pool is repaired."
	}
	return "It is held until " + clock(until) + "."
}

// endWords says why the whole job restarts with the slice.
func (s *slice) endWords(m *move) string {
	why := "Its state cannot be saved, and the job is not elastic."
	switch {
	case s.withHead():
		why = "The head runs on the same host."
	case m.lost:
		why = "Its state is lost, and the job is not elastic."
	}
	return why + " The whole job restarts; this is not charged."
}

// restartWords says that the whole job restarts, or would.
func (s *slice) restartWords() string {
	switch {
	case s.observing():
		return s.observingWords()
	case ptr.Deref(s.wanted.Charged, false):
		return "The whole job restarts."
	}
	return "The whole job restarts; this is not charged."
}

func (s *slice) observingWords() string {
	switch {
	case s.obs.Job.RepairDisabled:
		return "Repair is switched off by annotation."
	case s.obs.Policy.Mode == DryRun:
		if s.wanted != nil {
			return "DryRun: in mode Enforce, the whole job would restart."
		}
		return "DryRun: in mode Enforce, the slice would be given up and started anew."
	}
	return "Repair is switched off."
}

func (p *planner) pausedMessage() string {
	return fmt.Sprintf("RepairPaused: %d of %d node pools look failed at once, more likely a fault of the network or the control plane, so nothing is deleted or fenced until fewer do.",
		p.fleet.failed, p.fleet.counts)
}

// capacity says why no pool is free.
func (p *planner) capacity() string {
	f := &p.fleet
	if f.fitting == 0 {
		return "There is no pool of " + p.obs.Job.Shape + " that its selectors and tolerations allow."
	}
	words := fmt.Sprintf("No whole pool of %s is free: of %s, %d in use", p.obs.Job.Shape,
		plural(f.fitting, "pool"), f.fitting-f.broken-f.fenced-f.idle)
	if f.broken > 0 {
		words += fmt.Sprintf(", %d not whole", f.broken)
	}
	if f.fenced > 0 {
		words += fmt.Sprintf(", %d fenced", f.fenced)
	}
	return words + "."
}

// pend says what a slice waits for that was never Ready.
func (s *slice) pend() {
	var message string
	reason := s.st.Reason
	if reason == ReasonJobEnding || reason == v1.ReasonNoSlicePool {
		reason = ""
	}
	switch {
	case s.in.Child == nil:
		message = "It starts once the head is Ready."
	case s.unbound == 0 && s.bound == 0:
		message = "Its pods are being created."
	case s.bound > 0:
		message = fmt.Sprintf("%d of %d workers are placed in pool %s, %d are Ready.", s.bound, s.obs.Job.VMs, s.node.Pool, s.ready)
	case s.fleet.idle > 0 || s.fleet.takeable > 0:
		message = "It waits for the scheduler to place it on a free pool."
	case s.unschedulable.IsZero():
		message = s.capacity()
	default:
		message = s.capacity()
		reason = orElse(reason, v1.ReasonNoSlicePool)
	}
	s.set(v1.SlicePending, reason, message)
}

// worseThan orders states for the condition SlicesReady, the worst first.
var worst = []v1.SliceState{
	v1.SliceLost, v1.SliceReplacing, v1.SliceSuspended, v1.SliceSuspending, v1.SliceRestarting, v1.SlicePending,
}

// readyMessage says how many slices are Ready, which are not, why and since
// when.
func (p *planner) readyMessage() (reason, message string) {
	reason = string(v1.SliceReady)
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %s Ready", p.out.ReadySlices, pluralAre(int(p.obs.Job.Slices), "slice"))
	named, more := 0, 0
	const most = 5
	for _, state := range worst {
		for i := range p.slices {
			s := &p.slices[i]
			if s.st.State != state {
				continue
			}
			if reason == string(v1.SliceReady) {
				reason = string(state)
			}
			if named++; named > most {
				more++
				continue
			}
			fmt.Fprintf(&b, "; slice %d is %s", s.in.Index, state)
			if since := s.since(); !since.IsZero() {
				b.WriteString(" since " + clock(since))
			}
			if s.st.Reason != "" {
				b.WriteString(" (" + s.st.Reason + ")")
			}
			if s.st.Message != "" {
				b.WriteString(": " + strings.TrimRight(s.st.Message, "."))
			}
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	b.WriteString(".")
	return reason, b.String()
}

func pluralAre(n int, one string) string {
	if n == 1 {
		return plural(n, one) + " is"
	}
	return plural(n, one) + " are"
}

// since is since when the slice is down.
func (s *slice) since() time.Time {
	switch {
	case s.st.DownSince != nil:
		return s.st.DownSince.Time
	case s.st.LastTransitionTime != nil:
		return s.st.LastTransitionTime.Time
	}
	return time.Time{}
}

// downFor is for how many seconds the slice was down in all.
func (s *slice) downFor() int64 { return ptr.Deref(s.st.DownSeconds, 0) }
