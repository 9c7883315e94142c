package soak

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"
)

//go:embed picture.css
var style string

// Sizes in pixels. A second is so wide that the whole is not wider than widest.
const (
	widest, widestSecond = 30000, 24.0
	rowHeight, rowGap    = 14, 3
	top                  = 34.0  // for the axis, and the rules that were violated
	mostBars             = 30000 // with titles of this length keeps the file below 10 MB
	longestTitle         = 200
)

// A bar is something that lasted, in a row of a lane.
type bar struct {
	lane, row   int
	from, until float64
	class, text string // the text is drawn if it fits
	title       string // shown by hovering
}

// drawing collects the lanes of a history.
type drawing struct {
	last  float64 // time of the newest line
	names []string
	rows  []int // of each lane
	bars  []*bar
	open  map[string]*bar
	lanes map[string]int
	wrong []Line
}

// Picture writes a history as a page of HTML: lanes for parts, ports and pods over time, with the violations.
func Picture(w io.Writer, lines []Line) error {
	d := drawing{open: map[string]*bar{}, lanes: map[string]int{}}
	if len(lines) > 0 {
		d.last = lines[len(lines)-1].At
	}
	d.drawParts(lines)
	d.drawPorts(lines)
	d.drawPods(lines)
	out := bufio.NewWriter(w)
	d.write(out, lines)
	return out.Flush()
}

// lane returns the number of a lane, which may be new.
func (d *drawing) lane(name string, rows int) int {
	n, ok := d.lanes[name]
	if !ok {
		n = len(d.names)
		d.lanes[name] = n
		d.names, d.rows = append(d.names, name), append(d.rows, 0)
	}
	d.rows[n] = max(d.rows[n], rows)
	return n
}

// begin begins a bar, and ends the one before with the same key.
func (d *drawing) begin(key string, b bar) *bar {
	d.end(key, b.from)
	b.until = d.last
	d.open[key] = &b
	d.bars = append(d.bars, &b)
	return &b
}

func (d *drawing) end(key string, at float64) {
	if b := d.open[key]; b != nil {
		b.until = at
		delete(d.open, key)
	}
}

// drawParts draws quiet times, and what disturbed each part. Faults of a part at the same time get rows of their own.
func (d *drawing) drawParts(lines []Line) {
	quiet, parts := d.lane("quiet times", 1), map[string]bool{}
	for _, line := range lines {
		if line.Op != nil && line.Op.Disturbs {
			parts[cmp.Or(line.Op.Target, line.Op.Kind)] = true
		}
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		d.lane(part, 1)
	}
	offers := d.lane("offers", 1)
	d.begin("offers", bar{lane: offers, class: "read", title: "offers can be read"})
	for _, line := range lines {
		switch {
		case line.Op != nil && line.Op.Disturbs:
			part := cmp.Or(line.Op.Target, line.Op.Kind)
			text := strings.TrimSpace(line.Op.Kind + " " + strings.Join(line.Op.Args, " "))
			b := d.begin(fmt.Sprint("op ", line.Op.N), bar{lane: d.lane(part, 1), from: line.At, class: "fault " + line.Op.Kind, text: line.Op.Kind, title: text})
			for slices.ContainsFunc(d.bars[:len(d.bars)-1], func(o *bar) bool { return o.lane == b.lane && o.row == b.row && o.until == d.last }) {
				b.row++
			}
			d.lane(part, b.row+1)
		case line.Done != nil:
			if b := d.open[fmt.Sprint("op ", line.Done.N)]; b != nil {
				if line.Done.Error != "" {
					b.title += ", failed: " + line.Done.Error
				}
				d.end(fmt.Sprint("op ", line.Done.N), line.At)
			}
		case line.Offers != nil && line.Offers.Unread != "":
			d.begin("offers", bar{lane: offers, from: line.At, class: "fault", title: "offers cannot be read: " + line.Offers.Unread})
		case line.Offers != nil && strings.HasPrefix(d.open["offers"].class, "fault"):
			d.begin("offers", bar{lane: offers, from: line.At, class: "read", title: "offers can be read"})
		case line.Quiet != nil:
			b := bar{lane: quiet, from: line.Quiet.Since, until: line.At, class: "agreed", text: "agreed", title: "all agreed"}
			if problems := append(slices.Clone(line.Quiet.Differ), line.Quiet.Left...); !line.Quiet.Agreed || len(problems) > 0 {
				b.class, b.text, b.title = "broken", "not agreed", strings.Join(problems, "\n")
			}
			d.bars = append(d.bars, &b)
		case line.Wrong != nil:
			d.wrong = append(d.wrong, line)
		}
	}
}

// drawPorts draws the state of each port, under which names it is offered, and which pods have it.
func (d *drawing) drawPorts(lines []Line) {
	ports := map[string]bool{}
	for _, line := range lines {
		if line.Port != nil {
			ports[line.Port.ID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ports)) {
		d.lane(id, 3)
	}
	owners, names, colors := map[string]string{}, map[string]string{}, map[string]int{}
	for _, line := range lines {
		switch {
		case line.Port != nil:
			p := line.Port
			class, title := "fit", "fit"
			if why := p.unfitness(); why != "" {
				class, title = strings.Fields(why)[0], why
			}
			if p.Unsure {
				class, title = "unsure", title+", or is being changed"
			}
			if p.Node != "" {
				owners[p.Node] = p.ID
				title += ", " + p.Node
			}
			if p.AFU != "" {
				title += ", AFU " + p.AFU
			}
			d.begin("state "+p.ID, bar{lane: d.lanes[p.ID], from: line.At, class: class, text: class, title: title})
		case line.Offers != nil && line.Offers.Unread == "":
			now := map[string][]string{}
			for _, name := range slices.Sorted(maps.Keys(line.Offers.Ports)) {
				for _, port := range line.Offers.Ports[name] {
					now[port] = append(now[port], name)
				}
				if _, ok := colors[name]; !ok {
					colors[name] = len(colors) % 6
				}
			}
			for port := range ports {
				name := strings.Join(now[port], " and ")
				if name == names[port] {
					continue
				}
				names[port] = name
				if name == "" {
					d.end("offer "+port, line.At)
					continue
				}
				class := fmt.Sprint("name", colors[now[port][0]])
				if len(now[port]) > 1 {
					class = "broken"
				}
				d.begin("offer "+port, bar{lane: d.lanes[port], row: 1, from: line.At, class: class, text: name, title: "offered as " + name})
			}
		case line.Container != nil:
			k := container{Container: *line.Container}
			for _, of := range k.open() {
				key := fmt.Sprint("holder ", k.PID, of)
				if k.Ended {
					d.end(key, line.At)
				} else if port, ok := owners[of]; ok && d.open[key] == nil {
					d.begin(key, bar{lane: d.lanes[port], row: 2, from: k.Started, class: "holder", text: k.Pod, title: fmt.Sprintf("pod %s has %s, process %d", k.Pod, of, k.PID)})
				}
			}
		}
	}
}

// drawPods draws the pods in as few rows as possible, each in one row.
func (d *drawing) drawPods(lines []Line) {
	first, last, order := map[string]float64{}, map[string]float64{}, []string{}
	for _, line := range lines {
		if line.Pod != nil {
			if _, ok := first[line.Pod.UID]; !ok {
				first[line.Pod.UID], last[line.Pod.UID] = line.At, d.last
				order = append(order, line.Pod.UID)
			}
			if line.Pod.Phase == "Gone" {
				last[line.Pod.UID] = line.At
			}
		}
	}
	var ends []float64 // of the rows
	row := map[string]int{}
	for _, uid := range order {
		n := slices.IndexFunc(ends, func(end float64) bool { return end <= first[uid] })
		if n < 0 {
			n = len(ends)
			ends = append(ends, 0)
		}
		ends[n], row[uid] = last[uid]+1, n
	}
	lane := d.lane("pods", max(1, len(ends)))
	state := map[string]string{}
	for _, line := range lines {
		p := line.Pod
		if p == nil || state[p.UID] == fmt.Sprint(p.Phase, p.Scheduled, p.Deleting) {
			continue
		}
		state[p.UID] = fmt.Sprint(p.Phase, p.Scheduled, p.Deleting)
		if p.Phase == "Gone" {
			d.end("pod "+p.UID, line.At)
			continue
		}
		class := strings.ToLower(p.Phase)
		title := fmt.Sprintf("pod %s: %s", p.Name, p.Phase)
		if p.Phase == "Pending" && p.Scheduled {
			title += ", scheduled"
		}
		if p.Deleting {
			class, title = "deleting", title+", being deleted"
		}
		title += "\nwants " + wants(*p)
		if p.Why != "" {
			title += "\n" + p.Why
		}
		d.begin("pod "+p.UID, bar{lane: lane, row: row[p.UID], from: line.At, class: class, text: p.Name, title: title})
	}
}

// write writes the page.
func (d *drawing) write(w io.Writer, lines []Line) {
	second := widestSecond
	if d.last > 0 {
		second = min(second, widest/d.last)
	}
	var tops []float64
	bottom := top
	for _, rows := range d.rows {
		tops = append(tops, bottom)
		bottom += float64(rows*rowHeight + 2*rowGap)
	}
	width := d.last*second + 20
	fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>Soak</title><style>\n%s</style></head><body>\n", style)
	d.writeViolations(w, lines)
	fmt.Fprint(w, "<p class=\"legend\">")
	for _, class := range []string{"fit", "broken", "cordoned", "excluded", "pulled", "unsure", "holder", "pending", "running", "deleting", "succeeded", "failed", "kill", "stop", "upgrade", "disk", "clock"} {
		fmt.Fprintf(w, "<svg width=\"12\" height=\"12\"><rect class=\"%s\" width=\"12\" height=\"12\"/></svg> %s ", class, class)
	}
	fmt.Fprintf(w, "</p>\n<div class=\"scroll\">\n<svg class=\"names\" width=\"150\" height=\"%.0f\">\n", bottom+20)
	for i, name := range d.names {
		fmt.Fprintf(w, "<text x=\"6\" y=\"%.0f\">%s<title>%s</title></text>\n", tops[i]+rowGap+11, html.EscapeString(shortened(name)), html.EscapeString(name))
	}
	fmt.Fprintf(w, "</svg>\n<svg class=\"lanes\" width=\"%.0f\" height=\"%.0f\">\n", width, bottom+20)
	for i := range d.names {
		fmt.Fprintf(w, "<rect class=\"lane%d\" y=\"%.0f\" width=\"%.0f\" height=\"%d\"/>\n", i%2, tops[i], width, d.rows[i]*rowHeight+2*rowGap)
	}
	step := d.step(second)
	for t := 0.0; t <= d.last; t += step {
		fmt.Fprintf(w, "<path class=\"tick\" d=\"M%.1f 16V%.0f\"/><text x=\"%.1f\" y=\"12\">%s</text>\n", t*second, bottom, t*second+2, minutes(t))
	}
	bars := d.bars
	if left := len(bars) - mostBars; left > 0 {
		bars = slices.SortedFunc(slices.Values(bars), func(a, b *bar) int { return cmp.Compare(b.until-b.from, a.until-a.from) })[:mostBars]
		fmt.Fprintf(w, "<text x=\"200\" y=\"28\">the shortest %d bars are left out</text>\n", left)
	}
	for _, b := range bars {
		x, long := b.from*second, max(0.7, (b.until-b.from)*second)
		y := tops[b.lane] + float64(rowGap+b.row*rowHeight)
		fmt.Fprintf(w, "<rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\"><title>%s\n%.2f to %.2f s</title></rect>\n",
			b.class, x, y, long, rowHeight-1, html.EscapeString(strings.ToValidUTF8(b.title[:min(len(b.title), longestTitle)], "")), b.from, b.until)
		if long > float64(7*len(b.text)+4) {
			fmt.Fprintf(w, "<text class=\"in\" x=\"%.1f\" y=\"%.0f\">%s</text>\n", x+3, y+10, html.EscapeString(b.text))
		}
	}
	for i, line := range d.wrong {
		fmt.Fprintf(w, "<g class=\"wrong\" id=\"wrong%d\"><title>%s</title><path d=\"M%.1f 16V%.0f\"/><text x=\"%.1f\" y=\"28\">%s</text></g>\n",
			i, html.EscapeString(line.Wrong.Text), line.At*second, bottom, line.At*second+3, html.EscapeString(line.Wrong.Rule))
	}
	fmt.Fprint(w, "</svg>\n</div>\n</body></html>\n")
}

// step returns the time between two ticks, which are at least 60 pixels apart.
func (d *drawing) step(second float64) float64 {
	for _, step := range []float64{5, 10, 30, 60, 120, 300} {
		if step*second >= 60 {
			return step
		}
	}
	return 600
}

// shortened returns the end of a long name, which says more than its begin.
func shortened(name string) string {
	const longest = 20
	if len(name) <= longest {
		return name
	}
	return "…" + name[len(name)-longest+1:]
}

// writeViolations writes the violations with an excerpt of each. Their lines are in the picture.
func (d *drawing) writeViolations(w io.Writer, lines []Line) {
	const most = 20
	fmt.Fprintf(w, "<h1>%d violations in %s</h1>\n", len(d.wrong), minutes(d.last))
	for _, line := range lines {
		if line.Run != nil {
			fmt.Fprintf(w, "<p>seed %d, version %s, began at %s</p>\n", line.Run.Seed, html.EscapeString(line.Run.Version), html.EscapeString(line.Run.Began))
			break
		}
	}
	for i, line := range d.wrong[:min(len(d.wrong), most)] {
		fmt.Fprintf(w, "<details%s><summary><a href=\"#wrong%d\">%.2f s</a> %s: %s</summary><pre>%s</pre></details>\n", map[bool]string{true: " open=\"open\""}[i == 0],
			i, line.At, line.Wrong.Rule, html.EscapeString(line.Wrong.Text), html.EscapeString(strings.Join(Excerpt(lines, *line.Wrong), "\n")))
	}
}
