package soak

import (
	"bufio"
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
)

//go:embed picture.html
var pictureText string

var picture = template.Must(template.New("picture").Parse(pictureText))

// Sizes in pixels. A second is widestSecond wide, or less if the picture would otherwise be wider than widest.
const (
	widest, widestSecond = 30000, 24.0
	rowHeight, laneGap   = 14, 3
	laneTop              = 34 // space for the axis and the violated rules
)

// page is the data for the template.
type page struct {
	Lasted             string
	Run                *Run
	Wrong              []violation
	Lanes, Bars, Ticks []box
	Width, Height      int
}

type violation struct {
	Wrong
	At      float64
	X       int
	Excerpt []string // set only for the first violations
}

type box struct {
	Class, Label, Title string
	X, Y, Width, Height int
}

// Picture writes a history as an HTML page. It shows the parts, ports and pods as lanes over time, and the violations.
func Picture(w io.Writer, lines []Line) error {
	last := 0.0
	if len(lines) > 0 {
		last = lines[len(lines)-1].At
	}
	second := min(widestSecond, widest/max(last, 1))
	x := func(at float64) int { return int(min(at, last) * second) }
	p := page{Lasted: minutes(last), Width: x(last) + 20}
	p.draw(newStory(lines).events, x)
	step := 10.0
	if last > 1800 {
		step = 60
	}
	for at := 0.0; at <= last; at += step {
		p.Ticks = append(p.Ticks, box{X: x(at), Label: minutes(at)})
	}
	for _, line := range lines {
		switch {
		case line.Run != nil:
			p.Run = line.Run
		case line.Wrong != nil:
			v := violation{Wrong: *line.Wrong, At: line.At, X: x(line.At)}
			if len(p.Wrong) < 20 {
				v.Excerpt = Excerpt(lines, v.Wrong)
			}
			p.Wrong = append(p.Wrong, v)
		}
	}
	out := bufio.NewWriter(w)
	if err := picture.Execute(out, p); err != nil {
		return err
	}
	return out.Flush()
}

// draw draws the events. Events with the same key share a row, and each lane uses as few rows as possible.
func (p *page) draw(events []*event, x func(float64) int) {
	ends := map[string]float64{} // end of the last event with each key
	for _, e := range events {
		ends[e.key] = max(ends[e.key], e.until)
	}
	lanes, rows := map[lane][]float64{}, map[string]int{} // each row's end, by lane; each key's row
	for _, e := range events {
		if _, placed := rows[e.key]; placed {
			continue
		}
		row := slices.IndexFunc(lanes[e.lane], func(end float64) bool { return end < e.from })
		if row < 0 {
			row = len(lanes[e.lane])
			lanes[e.lane] = append(lanes[e.lane], 0)
		}
		rows[e.key], lanes[e.lane][row] = row, ends[e.key]
	}
	tops := map[lane]int{}
	p.Height = laneTop
	for _, l := range slices.SortedFunc(maps.Keys(lanes), func(a, b lane) int { return cmp.Or(a.order-b.order, cmp.Compare(a.name, b.name)) }) {
		tops[l] = p.Height + laneGap
		height := len(lanes[l])*rowHeight + 2*laneGap
		p.Lanes = append(p.Lanes, box{Label: l.name, Y: p.Height, Height: height - 1})
		p.Height += height
	}
	for _, e := range events {
		b := box{Class: e.class, Title: e.String(), X: x(e.from), Y: tops[e.lane] + rows[e.key]*rowHeight, Width: max(1, x(e.until)-x(e.from))}
		if b.Width > 7*len(e.label) { // the label fits
			b.Label = e.label
		}
		p.Bars = append(p.Bars, b)
	}
}
