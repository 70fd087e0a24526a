package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// width is that of the text, which must read well in a small terminal too.
const width = 118

// printer writes the demo's text.
type printer struct {
	w     io.Writer
	steps int
	bold  func(string) string
}

func newPrinter(f *os.File) *printer {
	p := &printer{w: f, bold: func(s string) string { return s }}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" {
		p.bold = func(s string) string { return "\x1b[1m" + s + "\x1b[0m" }
	}
	return p
}

// step begins a numbered part.
func (p *printer) step(title string) {
	p.steps++
	fmt.Fprintf(p.w, "\n%s\n", p.bold(fmt.Sprintf("%d. %s", p.steps, title)))
}

// say writes a text.
func (p *printer) say(format string, args ...any) {
	p.write("", fmt.Sprintf(format, args...))
}

// at writes a text that tells when it happened, and to what.
func (p *printer) at(since time.Duration, what, format string, args ...any) {
	p.write(fmt.Sprintf("%6.1fs  %s  ", since.Seconds(), what), fmt.Sprintf(format, args...))
}

// write writes text after lead, its further lines below its first.
func (p *printer) write(lead, text string) {
	indent := "   " + strings.Repeat(" ", utf8.RuneCountInString(lead))
	for i, line := range wrap(text, width-len(indent)) {
		if i == 0 {
			fmt.Fprintln(p.w, "   "+lead+line)
		} else {
			fmt.Fprintln(p.w, indent+line)
		}
	}
}

// block writes lines as they are.
func (p *printer) block(text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintln(p.w, strings.TrimRight("   "+line, "\n "))
	}
}

// indented writes what other programs say.
func (p *printer) indented() io.Writer { return &indenter{w: p.w} }

// indenter indents whole lines.
type indenter struct {
	w   io.Writer
	buf []byte
}

func (i *indenter) Write(data []byte) (int, error) {
	i.buf = append(i.buf, data...)
	for {
		end := bytes.IndexByte(i.buf, '\n')
		if end < 0 {
			return len(data), nil
		}
		if _, err := fmt.Fprintf(i.w, "   %s\n", i.buf[:end]); err != nil {
			return 0, err
		}
		i.buf = i.buf[end+1:]
	}
}

// wrap breaks a text into lines of at most n characters, where words allow it.
func wrap(text string, n int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= n:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
