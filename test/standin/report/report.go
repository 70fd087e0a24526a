// Package report is what the stand-in's training program says about its run.
package report

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Kinds of events in a run.
const (
	// Resumed: the program started from a checkpoint.
	Resumed = "resumed"
	// SliceDown: a step failed because of a slice.
	SliceDown = "slice-down"
	// Restored: the state came back from an in-memory snapshot.
	Restored = "restored"
	// ScaledUp: slices joined again.
	ScaledUp = "scaled-up"
	// Checkpointed: the state was written to the object store.
	Checkpointed = "checkpointed"
)

// Report is about one process; a restarted job has several.
type Report struct {
	// Process tells one run of the program from another.
	Process string `json:"process"`
	// Steps asked for; First is the step that this process began with, Next
	// the one that it would do now.
	Steps int `json:"steps"`
	First int `json:"first"`
	Next  int `json:"next"`
	// Repeated counts the steps that were done again, each time; MostRepeated
	// is how many at once.
	Repeated     int `json:"repeated"`
	MostRepeated int `json:"mostRepeated"`
	// Wrong are results that differ from what the arithmetic says. A step that
	// was lost or done twice shows here.
	Wrong []string `json:"wrong,omitempty"`
	// FewestSlices and MostSlices that took part in a step.
	FewestSlices int `json:"fewestSlices"`
	MostSlices   int `json:"mostSlices"`
	// LongestStepMillis is the longest time that one step took.
	LongestStepMillis int64 `json:"longestStepMillis"`
	// Events in order.
	Events []Event `json:"events,omitempty"`
	// Done: all steps are done. Error is what ended the run otherwise.
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
}

// Event is something that happened to the program.
type Event struct {
	Kind   string `json:"kind"`
	Step   int    `json:"step"`
	Slices []int  `json:"slices,omitempty"`
	Text   string `json:"text,omitempty"`
}

// Count returns how many events of a kind there were.
func (r Report) Count(kind string) int {
	n := 0
	for _, e := range r.Events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// prefix begins the line of a log that holds a report.
const prefix = "REPORT "

// Line is the report as one line of a log.
func (r Report) Line() string {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Sprintf("%s{\"error\":%q}", prefix, err)
	}
	return prefix + string(data)
}

// FromLog finds the last report in a log.
func FromLog(log string) (Report, error) {
	lines := strings.Split(log, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if data, ok := strings.CutPrefix(lines[i], prefix); ok {
			var r Report
			if err := json.Unmarshal([]byte(data), &r); err != nil {
				return r, fmt.Errorf("decode the report: %w", err)
			}
			return r, nil
		}
	}
	return Report{}, fmt.Errorf("no report in a log of %d lines", len(lines))
}
