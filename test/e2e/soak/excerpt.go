package soak

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An excerpt longer than this is shortened in its middle.
const (
	longestExcerpt = 40
	excerptBegin   = 8
)

// event is a sentence about what happened. A sentence about what lasts has an end.
type event struct {
	at, until float64
	text      string
	context   bool // it may bear on the violation, and is no reason to begin the excerpt earlier
}

// Excerpt tells a violation in sentences with their times, so that a person can follow it: what happened to the pods and ports that it
// is about, since the last time at which nothing happened to them, and which faults there were in this time.
func Excerpt(lines []Line, wrong Wrong) []string {
	end := 0
	for i, line := range lines {
		if line.Wrong == nil && (end == 0 || lines[end].Wrong == nil) || line.Wrong != nil && line.Wrong.Rule == wrong.Rule && line.Wrong.Text == wrong.Text {
			end = i
		}
	}
	if len(lines) == 0 {
		return nil
	}
	at := lines[end].At
	t := teller{wrong: wrong, ports: map[string]Port{}, pods: map[string]string{}, offered: map[string]string{}, last: map[string]int{}}
	for _, line := range lines[:end+1] {
		t.tell(line)
	}
	begin := t.begin(at)
	slices.SortStableFunc(t.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var told []string
	for _, e := range t.events {
		if e.at >= begin || e.until > begin {
			told = append(told, sentence(e.at, e.text))
		}
	}
	if more := len(told) + 1 - longestExcerpt; more > 0 {
		told = slices.Replace(told, excerptBegin, excerptBegin+more+1, fmt.Sprintf("%11s  ... %d lines are left out", "", more+1))
	}
	return append(told, sentence(at, fmt.Sprintf("WRONG (%s): %s", wrong.Rule, wrong.Text)))
}

func sentence(at float64, text string) string { return fmt.Sprintf("%9.3f s  %s", at, text) }

// teller makes sentences of lines. What is unchanged makes none.
type teller struct {
	wrong   Wrong
	events  []event
	last    map[string]int // what lasts, to its event
	ports   map[string]Port
	pods    map[string]string // UID to the sentence before
	offered map[string]string // port to names
	quiet   float64           // begin of the rounds after the last quiet time
	isQuiet bool
}

// say adds a sentence about what lasts, if it differs from the one before, whose time it ends. What is normal has no name, and does not
// last.
func (t *teller) say(at float64, about, text string, normal bool) {
	if i, ok := t.last[about]; ok {
		t.events[i].until = at
		delete(t.last, about)
	}
	until := at
	if !normal {
		until = forever
		t.last[about] = len(t.events)
	}
	t.events = append(t.events, event{at: at, until: until, text: text})
}

// about reports whether the violation is about one of these, by their names or in a text.
func (t *teller) about(ids ...string) bool {
	return slices.ContainsFunc(t.wrong.About, func(about string) bool {
		return slices.ContainsFunc(ids, func(id string) bool {
			return about == id || id != "" && strings.Contains(about, " ") && strings.Contains(about, id)
		})
	})
}

func (t *teller) tell(line Line) {
	switch {
	case line.Op != nil:
		t.tellOp(line.At, *line.Op)
	case line.Done != nil:
		if i, ok := t.last[fmt.Sprint("op ", line.Done.N)]; ok {
			e := &t.events[i]
			e.until = line.At
			e.text = strings.TrimSuffix(e.text, ", still under way")
			if e.until > e.at+1 {
				e.text += fmt.Sprintf(", until %.3f s", e.until)
			}
			if line.Done.Error != "" {
				e.text += ", which failed: " + line.Done.Error
			}
		}
	case line.Pod != nil && t.about(line.Pod.Name):
		t.tellPod(line.At, *line.Pod)
	case line.Container != nil:
		t.tellContainer(line.At, *line.Container)
	case line.Port != nil:
		t.tellPort(line.At, *line.Port)
	case line.Offers != nil:
		t.tellOffers(line.At, *line.Offers)
	case line.Quiet != nil:
		t.isQuiet = true
	}
	if t.isQuiet && line.Quiet == nil && line.Wrong == nil {
		t.isQuiet, t.quiet = false, line.At
	}
}

// tellOp tells faults, and what was done to the pods and ports.
func (t *teller) tellOp(at float64, op Op) {
	is := slices.ContainsFunc(t.wrong.About, func(about string) bool { return op.Target == about || sameCard(op.Target, about) })
	if !op.Disturbs && !is {
		return
	}
	text := strings.Join(slices.DeleteFunc(append([]string{op.Kind, op.Target}, op.Args...), func(s string) bool { return s == "" }), " ")
	t.last[fmt.Sprint("op ", op.N)] = len(t.events)
	t.events = append(t.events, event{at, forever, "operation: " + text + ", still under way", true})
}

// sameCard reports whether an address such as 0000:01:00.0 is that of the card of a port: pci-0000-01-00-0-p1, or 01:00.0-p1.
func sameCard(address, port string) bool {
	digits := func(s string) string { return strings.NewReplacer("pci-", "", ":", "", ".", "", "-", "").Replace(s) }
	number := digits(card(port))
	return strings.Contains(address, ":") && number != "" && strings.HasSuffix(digits(address), number)
}

func (t *teller) tellPod(at float64, p Pod) {
	text := "pod " + p.Name
	switch {
	case p.Phase == "Pending" && t.pods[p.UID] == "":
		text += " is created, and wants " + cmp.Or(wants(p), "nothing")
	case p.Phase == "Pending" && p.Deleting, p.Phase == "Running" && p.Deleting:
		text += " is being deleted"
	case p.Phase == "Pending" && p.Why != "":
		text += " waits: " + p.Why
	case p.Phase == "Pending" && p.Scheduled:
		text += " is scheduled"
	case p.Phase == "Pending":
		text += " waits"
	case p.Phase == "Gone":
		text += " is gone"
	default:
		text += " is " + p.Phase
		if p.Why != "" {
			text += ": " + p.Why
		}
	}
	if t.pods[p.UID] != text {
		t.say(at, p.UID, text, p.Phase != "Pending" && p.Phase != "Running")
	}
	t.pods[p.UID] = text
}

// tellContainer tells containers of the pods, and those that have one of the numbers.
func (t *teller) tellContainer(at float64, k Container) {
	all := (&container{Container: k}).open()
	if !t.about(append(all, k.Pod)...) {
		return
	}
	about := fmt.Sprint("container ", k.PID)
	if k.Ended {
		t.say(at, about, fmt.Sprintf("the container of pod %s (process %d) has ended", k.Pod, k.PID), true)
		return
	}
	text := fmt.Sprintf("a container of pod %s (process %d, which began at %.3f s) has %s", k.Pod, k.PID, k.Started, cmp.Or(strings.Join(k.Nodes, ", "), "no port"))
	if other := slices.DeleteFunc(all, func(of string) bool { return slices.Contains(k.Nodes, of) }); len(other) > 0 {
		text += ", and may open " + strings.Join(other, ", ")
	}
	t.say(at, about, text, false)
}

// tellPort tells changes of the ports, and of those that get one of the numbers.
func (t *teller) tellPort(at float64, p Port) {
	old, known := t.ports[p.ID]
	t.ports[p.ID] = p
	if !t.about(p.ID, p.Node) && (!known || !t.about(old.Node)) {
		return
	}
	text := "port " + p.ID
	switch why := p.unfitness(); {
	case why != "":
		text += " is " + why
	case !known, old.fit() && old.Node == p.Node:
		text += " is fit"
	case old.Node != p.Node:
		text += " is plugged"
	default:
		text += " is fit again"
	}
	if p.Unsure {
		text += ", or is being changed"
	}
	if p.Node != "" && p.Node != old.Node {
		text += ", as " + p.Node
	}
	if p.AFU != old.AFU && known && old.Node != "" {
		text += ", and has the AFU " + p.AFU
	}
	t.say(at, "port "+p.ID, text, p.fit())
}

// tellOffers tells when the ports get other names.
func (t *teller) tellOffers(at float64, o Offers) {
	if o.Unread != "" {
		t.say(at, "offers", "offers cannot be read: "+o.Unread, false)
		t.events[len(t.events)-1].context = true
		return
	}
	if i, ok := t.last["offers"]; ok {
		t.events[i].until = at
		delete(t.last, "offers")
	}
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(o.Ports)) {
		for _, port := range o.Ports[name] {
			names[port] = append(names[port], name)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(t.ports)) {
		if !t.about(port) {
			continue
		}
		text := "not offered"
		if len(names[port]) > 0 {
			text = "offered as " + strings.Join(names[port], " and as ")
		}
		if t.offered[port] != text {
			t.say(at, "offer "+port, "port "+port+" is "+text, len(names[port]) == 1)
		}
		t.offered[port] = text
	}
}

// begin returns the last time before the violation at which nothing lasted.
func (t *teller) begin(at float64) float64 {
	switch t.wrong.Rule {
	case "quiet", "left", "grown":
		return t.quiet
	}
	for moved := true; moved; {
		moved = false
		for _, e := range t.events {
			if !e.context && e.at < at && e.until >= at {
				at, moved = e.at, true
			}
		}
	}
	return at
}
