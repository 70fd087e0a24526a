//go:build bench

package bench

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"testing"
	"time"
)

// auditEvent is one line of the API server's audit log.
type auditEvent struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	ObjectRef  struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

// writes are the operator's, in one namespace.
type writes struct {
	// byKind counts them, as "verb resource/subresource".
	byKind map[string]int
	total  int
	// refused are those that the API server did not take.
	refused int
	// burst is the most patches of one job's status by one writer that were
	// taken within a second.
	burst int
}

// readWrites reads the operator's writes in a namespace.
func (e *env) readWrites(t *testing.T, namespace string) writes {
	t.Helper()
	f, err := os.Open(e.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := writes{byKind: map[string]int{}}
	patches := map[string][]time.Time{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a auditEvent
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("reading the audit log: %v", err)
		}
		if a.ObjectRef.Namespace != namespace {
			continue
		}
		kind := a.Verb + " " + a.ObjectRef.Resource
		if a.ObjectRef.Subresource != "" {
			kind += "/" + a.ObjectRef.Subresource
		}
		w.total++
		refused := a.ResponseStatus.Code >= 400
		if refused {
			w.refused++
			kind += " (refused)"
		}
		if a.ObjectRef.Resource == "pathwaysjobs" && a.ObjectRef.Subresource == "status" {
			u, err := url.Parse(a.RequestURI)
			if err != nil {
				t.Fatal(err)
			}
			writer := u.Query().Get("fieldManager")
			kind += " of " + writer
			if key := a.ObjectRef.Name + " " + writer; !refused {
				patches[key] = append(patches[key], a.RequestReceivedTimestamp)
			}
		}
		w.byKind[kind]++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, times := range patches {
		w.burst = max(w.burst, densest(times))
	}
	return w
}

// tolerance forgives what two requests' ways to the API server differ by.
const tolerance = 100 * time.Millisecond

// densest is the most of the times, which ascend, that lie within one second.
func densest(times []time.Time) int {
	most, first := 0, 0
	for i, at := range times {
		for at.Sub(times[first]) >= time.Second-tolerance {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
