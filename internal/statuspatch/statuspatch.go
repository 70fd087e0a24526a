// Package statuspatch writes one writer's part of a PathwaysJob's status by
// server-side apply. The status has two writers with disjoint fields (see
// v1.PathwaysJobStatus); each uses a Writer of its own.
package statuspatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "pathways.domain/pathways-job/api/v1"
)

// MinInterval is the least time between two patches of one job by one writer.
const MinInterval = time.Second

// Writer writes the part of the status that one field manager owns. It
// remembers its last write to each job, so that a read that is older than
// that write neither repeats it nor judges by what it replaced. Safe for
// concurrent use.
type Writer struct {
	client  client.Client
	journal *Journal
	owner   string
	own     Projection
	clock   clock.PassiveClock

	mu   sync.Mutex
	last map[types.UID]write
}

type write struct {
	at     time.Time
	rv     string
	status v1.PathwaysJobStatus
}

// New returns a Writer for the field manager owner, whose part of a status is
// what own returns of it. It shares the journal with the other writers.
func New(c client.Client, journal *Journal, owner string, own Projection, clk clock.PassiveClock) *Writer {
	return &Writer{client: c, journal: journal, owner: owner, own: own, clock: clk, last: map[types.UID]write{}}
}

// Result says what became of an Apply.
type Result struct {
	// Written is true if the API server took a patch.
	Written bool
	// RetryAfter is above 0 if nothing was written because the last patch is
	// too recent, or another writer's: come back after that time.
	RetryAfter time.Duration
}

// Deferred says whether the status still has to be written.
func (r Result) Deferred() bool { return r.RetryAfter > 0 }

type options struct {
	every  time.Duration
	pinned bool
}

// Option changes how a status is applied.
type Option func(*options)

// Every raises the least time since the last patch above MinInterval, for
// changes that can wait.
func Every(d time.Duration) Option {
	return func(o *options) { o.every = max(d, MinInterval) }
}

// Pinned makes the API server refuse the patch with a conflict if the job has
// changed since it was read or last written by this writer: for writes that a
// stale read would make harmful. It is also the only guard against a job of
// the same name that was created since: for status subresources of custom
// resources a UID in an apply configuration is no precondition.
func Pinned() Option {
	return func(o *options) { o.pinned = true }
}

// Previous returns this writer's part of the job's status: as read, or as
// last written where the read is older than that.
func (w *Writer) Previous(job *v1.PathwaysJob) v1.PathwaysJobStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[job.UID]
	if !ok || !older(job.ResourceVersion, last.rv) {
		return w.own(job.Status)
	}
	return *last.status.DeepCopy()
}

// Apply makes this writer's part of the job's status equal to its part of
// next, which must be complete: what is absent is removed. It writes nothing
// where nothing would change. Errors are the API server's, wrapped: conflict
// for a pinned write that came too late, not found for a job that is gone.
func (w *Writer) Apply(ctx context.Context, job *v1.PathwaysJob, next v1.PathwaysJobStatus, opts ...Option) (Result, error) {
	o := options{every: MinInterval}
	for _, opt := range opts {
		opt(&o)
	}
	next = w.own(next)
	previous := w.Previous(job)
	if equality.Semantic.DeepEqual(previous, next) {
		return Result{}, nil
	}
	if wait := w.wait(job.UID, o.every); wait > 0 {
		return Result{RetryAfter: wait}, nil
	}
	body, err := fragment(job, previous, next)
	if err != nil {
		return Result{}, fmt.Errorf("building the status of PathwaysJob %s: %w", client.ObjectKeyFromObject(job), err)
	}
	pin := w.newest(job)
	if !w.journal.begin(job.UID, w.owner, pin, o.pinned) {
		return Result{RetryAfter: ReadAgain}, nil
	}
	if o.pinned {
		body.SetResourceVersion(pin)
	}
	err = w.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(w.owner), client.ForceOwnership)
	w.journal.end(job.UID, w.owner, body.GetResourceVersion(), err)
	w.record(job.UID, body.GetResourceVersion(), next, err)
	if err != nil {
		return Result{}, fmt.Errorf("writing the status of PathwaysJob %s: %w", client.ObjectKeyFromObject(job), err)
	}
	return Result{Written: true}, nil
}

// Forget drops what is remembered of a job that is gone.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, uid)
	w.journal.forget(uid)
}

func (w *Writer) wait(uid types.UID, every time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[uid]
	if !ok {
		return 0
	}
	return every - w.clock.Since(last.at)
}

// newest is the newest resource version of the job that is known.
func (w *Writer) newest(job *v1.PathwaysJob) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.last[job.UID]; ok && older(job.ResourceVersion, last.rv) {
		return last.rv
	}
	return job.ResourceVersion
}

// record notes a patch. A failed one counts for the rate only, and one that
// came too late not at all: it changed nothing and is tried again soon.
func (w *Writer) record(uid types.UID, rv string, status v1.PathwaysJobStatus, err error) {
	if apierrors.IsConflict(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	entry := write{at: w.clock.Now(), rv: rv, status: status}
	if err != nil {
		entry = w.last[uid]
		entry.at = w.clock.Now()
	}
	w.last[uid] = entry
}

// older says whether resource version a is known to be older than b.
func older(a, b string) bool {
	if b == "" {
		return false
	}
	cmp, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && cmp < 0
}

// fragment is the apply configuration for next.
func fragment(job *v1.PathwaysJob, previous, next v1.PathwaysJobStatus) (*unstructured.Unstructured, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return nil, err
	}
	// Another manager (google/pathways-job) may own the old value, which
	// would then stay: an empty one takes it over.
	if previous.TerminalState != "" && next.TerminalState == "" {
		status["terminalState"] = ""
	}
	body := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	body.SetGroupVersionKind(v1.GroupVersion.WithKind("PathwaysJob"))
	body.SetNamespace(job.Namespace)
	body.SetName(job.Name)
	return body, nil
}
