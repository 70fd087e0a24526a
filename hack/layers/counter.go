package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// counts are numbers of tests. A Ginkgo suite counts its specs, and a test
// its subtests in its stead.
type counts struct{ passed, failed, skipped int }

func (c *counts) add(o counts) {
	c.passed += o.passed
	c.failed += o.failed
	c.skipped += o.skipped
}

// event is one line of `go test -json`, as cmd/test2json documents it.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// counter reads a layer's output line by line.
type counter struct {
	counts
	out     io.Writer
	verbose bool
	// tests has, by package and test, the output of those that still run.
	tests map[string]*test
}

type test struct {
	output strings.Builder
	// inner counts subtests and specs.
	inner counts
}

// specs is Ginkgo's closing line of a suite.
var specs = regexp.MustCompile(`(\d+) Passed.*?(\d+) Failed.*?(\d+) Pending.*?(\d+) Skipped`)

func (c *counter) line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		// A command of another kind, such as the ginkgo CLI.
		fmt.Fprint(c.out, line)
		c.add(ginkgo(line))
		return
	}
	if e.Test == "" {
		c.packageEvent(e)
		return
	}
	if c.tests == nil {
		c.tests = map[string]*test{}
	}
	key := e.Package + " " + e.Test
	t := c.tests[key]
	if t == nil {
		t = &test{}
		c.tests[key] = t
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
		t.inner.add(ginkgo(e.Output))
		if c.verbose {
			fmt.Fprint(c.out, e.Output)
		}
	case "pass", "fail", "skip":
		delete(c.tests, key)
		if e.Action == "fail" && !c.verbose {
			fmt.Fprint(c.out, t.output.String())
		}
		c.ended(e, t)
	}
}

// ended counts a test: on its parent, if it is a subtest.
func (c *counter) ended(e event, t *test) {
	n := t.inner
	if n == (counts{}) {
		switch e.Action {
		case "pass":
			n.passed = 1
		case "fail":
			n.failed = 1
		case "skip":
			n.skipped = 1
		}
	}
	if e.Action == "fail" && n.failed == 0 {
		n.failed = 1
	}
	if i := strings.LastIndex(e.Test, "/"); i > 0 {
		if parent := c.tests[e.Package+" "+e.Test[:i]]; parent != nil {
			parent.inner.add(n)
			return
		}
	}
	c.add(n)
}

// packageEvent shows go test's own closing lines, build failures, and what a
// package that broke off was doing.
func (c *counter) packageEvent(e event) {
	switch e.Action {
	case "output", "build-output":
		if e.Output != "PASS\n" || c.verbose {
			fmt.Fprint(c.out, e.Output)
		}
	case "fail":
		for key, t := range c.tests {
			if strings.HasPrefix(key, e.Package+" ") {
				delete(c.tests, key)
				if !c.verbose {
					fmt.Fprint(c.out, t.output.String())
				}
				c.failed++
			}
		}
	}
}

// ginkgo is what a line says of a suite's specs, nothing for all others.
func ginkgo(line string) counts {
	m := specs.FindStringSubmatch(color.ReplaceAllString(line, ""))
	if m == nil {
		return counts{}
	}
	n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v }
	return counts{passed: n(1), failed: n(2), skipped: n(3) + n(4)}
}

// color is a terminal's escape sequence.
var color = regexp.MustCompile("\x1b\\[[0-9;]*m")
