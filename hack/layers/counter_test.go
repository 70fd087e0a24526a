package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCounter(t *testing.T) {
	for name, tc := range map[string]struct {
		lines   []string
		verbose bool
		want    counts
		output  string
	}{
		"a passing test shows its package's closing line only": {
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:   counts{passed: 1},
			output: "ok  \tp\t0.1s\n",
		},
		"a failing test shows what it said": {
			lines: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"want 1, got 2\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:   counts{failed: 1},
			output: "want 1, got 2\nFAIL\tp\t0.1s\n",
		},
		"subtests count in their parent's stead": {
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
				`{"Action":"skip","Package":"p","Test":"TestA/y"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
			},
			want: counts{passed: 1, skipped: 1},
		},
		"a test that fails beside its subtests is a failure": {
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
			},
			want: counts{passed: 1, failed: 1},
		},
		"a suite of specs counts its specs": {
			lines: []string{
				`{"Action":"output","Package":"p","Test":"TestSuite","Output":"\u001b[32m\u001b[1m3 Passed\u001b[0m | \u001b[1m0 Failed\u001b[0m | \u001b[1m1 Pending\u001b[0m | \u001b[1m2 Skipped\u001b[0m\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestSuite"}`,
			},
			want: counts{passed: 3, skipped: 3},
		},
		"the ginkgo command's output is shown and counted": {
			lines:  []string{"SUCCESS! -- 5 Passed | 0 Failed | 0 Pending | 1 Skipped"},
			want:   counts{passed: 5, skipped: 1},
			output: "SUCCESS! -- 5 Passed | 0 Failed | 0 Pending | 1 Skipped\n",
		},
		"a package that breaks off fails the tests that it was running": {
			lines: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:   counts{failed: 1},
			output: "panic: no\n",
		},
		"a build failure is shown": {
			lines: []string{
				`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: undefined: x\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			output: "p.go:1: undefined: x\n",
		},
		"verbose shows all": {
			lines: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
			},
			verbose: true,
			want:    counts{passed: 1},
			output:  "noise\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c := counter{out: &out, verbose: tc.verbose}
			for _, line := range tc.lines {
				c.line(line + "\n")
			}
			if diff := cmp.Diff(tc.want, c.counts, cmp.AllowUnexported(counts{})); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.output, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLayers(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		ok     bool
		report []string
	}{
		"a layer that passes": {
			args:   []string{`a=echo '1 Passed | 0 Failed | 0 Pending | 0 Skipped'`},
			ok:     true,
			report: []string{"a      ok", "1 passed, 0 failed, 0 skipped"},
		},
		"a command that fails, fails": {
			args:   []string{`a=echo '1 Passed | 0 Failed | 0 Pending | 0 Skipped'; exit 3`},
			report: []string{"a      FAILED", "a: exit status 3", "1 passed, 1 failed, 0 skipped"},
		},
		"the failure of a pipe's first command is seen": {
			args:   []string{`a=false | echo '1 Passed | 0 Failed | 0 Pending | 0 Skipped'`},
			report: []string{"a      FAILED"},
		},
		"no test is no success": {
			args:   []string{"a=true"},
			report: []string{"no test ran", "0 passed, 0 failed, 0 skipped"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			layers, err := parse(tc.args)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			var results []result
			for _, l := range layers {
				results = append(results, l.run(t.Context(), &out, false))
			}
			if ok := report(&out, results); ok != tc.ok {
				t.Errorf("ok = %v, want %v", ok, tc.ok)
			}
			for _, want := range tc.report {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in the report:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing":    nil,
		"no command": {"unit="},
		"no name":    {"=go test"},
		"no equals":  {"unit"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(args); err == nil {
				t.Errorf("parse(%q) has no error", args)
			}
		})
	}
}
