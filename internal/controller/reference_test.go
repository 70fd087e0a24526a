package controller

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pathways.domain/pathways-job/internal/testing/golden"
)

// TestReference keeps docs/reference/conditions.md equal to the constants and
// their comments: run it with -update after a change of those.
func TestReference(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# Conditions, reasons and events

<!-- Written by TestReference of internal/controller from the constants' comments: go test ./internal/controller -run TestReference -update -->

What a PathwaysJob tells, word by word. ` + "`kubectl wait --for=condition=<Type>`" + ` works with every condition from the first second.
`)
	for _, section := range []struct {
		title, intro, prefix string
		files                []string
	}{
		{
			"Conditions", "One of Pending, Running and Suspended is True until Completed or Failed is.", "Condition",
			[]string{"../../api/v1/conditions.go"},
		},
		{
			"Reasons of the job's conditions", "In brackets: the condition that is True with this reason.", "Reason",
			[]string{"../../api/v1/reasons.go", "../render/errors.go"},
		},
		{
			"Reasons of slices", "In `status.slices[].reason`, in `status.history[].reason` and in the conditions SlicesReady and Healthy.", "Reason",
			[]string{"../../api/v1/conditions.go", "../elastic/plan"},
		},
		{"States of slices", "In `status.slices[].state`.", "Slice", []string{"../../api/v1/status_types.go"}},
		{"Events of the job", "In brackets: the event's type.", "Event", []string{"../../api/v1/reasons.go"}},
		{"Events of slices", "", "Event", []string{"../elastic/plan"}},
	} {
		fmt.Fprintf(&page, "\n## %s\n", section.title)
		if section.intro != "" {
			fmt.Fprintf(&page, "\n%s\n", section.intro)
		}
		page.WriteString("\n| | |\n|---|---|\n")
		rows := 0
		for _, file := range section.files {
			for _, c := range constants(t, sources(t, file), section.prefix) {
				fmt.Fprintf(&page, "| `%s` | %s |\n", c.value, c.text)
				rows++
			}
		}
		if rows == 0 {
			t.Errorf("%s: no constants", section.title)
		}
	}
	golden.Check(t, "../../docs/reference/conditions.md", page.String())
}

type constant struct{ value, text string }

// sources are the Go files of a folder, tests aside, or the one file.
func sources(t *testing.T, path string) []string {
	t.Helper()
	if strings.HasSuffix(path, ".go") {
		return []string{path}
	}
	files, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
}

// constants returns the string constants of the files with the prefix, with
// their comments less the constants' names.
func constants(t *testing.T, files []string, prefix string) []constant {
	t.Helper()
	var list []constant
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, constantsOf(t, parsed, prefix)...)
	}
	return list
}

func constantsOf(t *testing.T, parsed *ast.File, prefix string) []constant {
	t.Helper()
	var list []constant
	for _, decl := range parsed.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			name := value.Names[0].Name
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			literal, ok := value.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, constant{text, words(name, cmp.Or(value.Doc.Text(), value.Comment.Text(), group.Doc.Text()))})
		}
	}
	return list
}

// words makes one line of a comment.
func words(name, comment string) string {
	line := strings.Join(strings.Fields(comment), " ")
	line = strings.TrimPrefix(strings.TrimPrefix(line, name), " means")
	line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), ":"))
	return strings.ReplaceAll(line, "|", `\|`)
}
