package statuspatch

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ReadAgain is how long the cache gets to learn of a write that came before.
const ReadAgain = 100 * time.Millisecond

// Journal knows of the patches of all Writers that share it, so that none
// sends one that the API server would refuse because of another. Safe for
// concurrent use.
type Journal struct {
	mu   sync.Mutex
	jobs map[types.UID]*entry
}

type entry struct {
	// writing is true while a patch is on its way.
	writing bool
	// rv is the job's resource version after the newest patch, and owner who
	// made that.
	rv, owner string
}

// NewJournal returns an empty Journal.
func NewJournal() *Journal { return &Journal{jobs: map[types.UID]*entry{}} }

// begin says whether the writer may send a patch now. With pinned, it may not
// if what it read is older than another's patch. end must follow a true.
func (j *Journal) begin(uid types.UID, owner, read string, pinned bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.jobs[uid]
	if e == nil {
		e = &entry{}
		j.jobs[uid] = e
	}
	if e.writing || pinned && e.owner != owner && older(read, e.rv) {
		return false
	}
	e.writing = true
	return true
}

// end notes what became of the patch: the resource version that it led to
// where err is nil.
func (j *Journal) end(uid types.UID, owner, rv string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.jobs[uid]
	if e == nil { // forgotten meanwhile
		return
	}
	e.writing = false
	if err == nil {
		e.rv, e.owner = rv, owner
	}
}

func (j *Journal) forget(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.jobs, uid)
}
