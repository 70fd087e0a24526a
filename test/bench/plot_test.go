//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// line is one side of a plot.
type line struct {
	name   string
	points []point
}

// Size of a plot in pixels: the picture, and the margins around its axes.
const (
	plotWidth, plotHeight    = 760, 240
	marginLeft, marginRight  = 50, 20
	marginTop, marginBottom  = 48, 44
	plotLead                 = 5 * time.Second // shown before the first fault
	secondsBetweenTicks      = 20
	oursColor, baselineColor = "#1a73e8", "#d93025"
)

// savePlot writes the number of ready slices over time, from begun on, as SVG.
func savePlot(t *testing.T, file, title string, begun time.Time, length time.Duration, slices int, lines ...line) {
	t.Helper()
	if quick() {
		return
	}
	x := func(d time.Duration) float64 {
		d = min(max(d, -plotLead), length)
		return marginLeft + float64(d+plotLead)/float64(length+plotLead)*(plotWidth-marginLeft-marginRight)
	}
	y := func(ready int) float64 {
		return plotHeight - marginBottom - float64(ready)/float64(slices)*(plotHeight-marginTop-marginBottom)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="14">Ready slices: %s</text>`+"\n", marginLeft, html.EscapeString(title))
	for n := range slices + 1 {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n",
			marginLeft, plotWidth-marginRight, y(n), y(n), marginLeft-8, y(n)+4, n)
	}
	for s := 0; s <= int(length.Seconds()); s += secondsBetweenTicks {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d s</text>`+"\n", x(time.Duration(s)*time.Second), plotHeight-marginBottom+18, s)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#555">seconds since the first signal</text>`+"\n", plotWidth/2, plotHeight-8)
	for i, l := range lines {
		color := []string{oursColor, baselineColor}[i%2]
		var path bytes.Buffer
		for j, p := range l.points {
			at := p.at.Sub(begun)
			if j == 0 {
				fmt.Fprintf(&path, "M%.1f %.1f", x(at), y(p.ready))
				continue
			}
			fmt.Fprintf(&path, "H%.1fV%.1f", x(at), y(p.ready))
		}
		fmt.Fprintf(&b, `<path d="%sH%.1f" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), x(length), color)
		fmt.Fprintf(&b, `<text x="%d" y="36" fill="%s">%s</text>`+"\n", marginLeft+i*260, color, html.EscapeString(l.name))
	}
	b.WriteString("</svg>\n")
	file = filepath.Join(filepath.Dir(resultsFile), file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
