package soak

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// event is something that lasted for a while: the state of a pod or a port, the names under which a port is offered,
// what a container has, or an operation. A new event ends the previous one with the same key.
type event struct {
	key         string
	lane        lane // lane in the picture
	from, until float64
	class       string // determines the color
	label, text string
	about       []string // pods, ports and node numbers; excerpts about any of these include the event
	fault       bool     // included in every excerpt that covers its time
	normal      bool     // doesn't make an excerpt start earlier
}

// String returns a sentence with the times.
func (e *event) String() string {
	text := fmt.Sprintf("%9.3f s  %s", e.from, e.text)
	if e.until < forever {
		text += fmt.Sprintf(", until %.3f s", e.until)
	}
	return text
}

// lane is a lane in the picture. order is 1 for quiet times, 2 for parts, 3 for the offers, 4 for ports, and 5 for
// pods.
type lane struct {
	order int
	name  string
}

// story contains the events that the lines of a history describe, in their order.
type story struct {
	events []*event
	open   map[string]*event // events that haven't ended, by key
	ports  map[string]Port
	owners map[string]string // device node number → the port that has it, or had it last
}

func newStory(lines []Line) *story {
	s := &story{open: map[string]*event{}, ports: map[string]Port{}, owners: map[string]string{}}
	for _, line := range lines {
		s.add(line)
	}
	return s
}

func (s *story) begin(e event) {
	if was := s.open[e.key]; was != nil {
		if was.text == e.text {
			return
		}
		was.until = e.from
	}
	e.until = forever
	s.open[e.key] = &e
	s.events = append(s.events, &e)
}

func (s *story) end(key string, at float64, how string) {
	if e := s.open[key]; e != nil {
		e.until, e.text = at, e.text+how
		delete(s.open, key)
	}
}

func (s *story) add(line Line) {
	switch {
	case line.Op != nil && line.Op.Disturbs: // other operations show up in the pods' and ports' states
		op := *line.Op
		s.begin(event{
			key: fmt.Sprint("op ", op.N), lane: lane{2, cmp.Or(op.Target, op.Kind)}, from: line.At, class: "fault " + op.Kind, label: op.Kind,
			text: strings.TrimSpace(fmt.Sprintf("operation: %s %s %s", op.Kind, op.Target, strings.Join(op.Args, " "))), fault: true, normal: true,
		})
	case line.Done != nil && line.Done.Error != "":
		s.end(fmt.Sprint("op ", line.Done.N), line.At, ", which failed: "+line.Done.Error)
	case line.Done != nil:
		s.end(fmt.Sprint("op ", line.Done.N), line.At, "")
	case line.Pod != nil:
		s.addPod(line.At, *line.Pod)
	case line.Container != nil:
		s.addContainer(line.At, container{Container: *line.Container})
	case line.Port != nil:
		s.addPort(line.At, *line.Port)
	case line.Offers != nil:
		s.addOffers(line.At, *line.Offers)
	case line.Quiet != nil:
		e := event{lane: lane{1, "quiet times"}, from: line.Quiet.Since, until: line.At, class: "agreed", label: "agreed", text: "all agreed", normal: true}
		if problems := slices.Concat(line.Quiet.Differ, line.Quiet.Left); !line.Quiet.Agreed || len(problems) > 0 {
			e.class, e.label, e.text = "broken", "not agreed", "not agreed: "+strings.Join(problems, "\n")
		}
		s.events = append(s.events, &e)
	}
}

func (s *story) addPod(at float64, p Pod) {
	key := "pod " + p.UID
	if p.Phase == "Gone" {
		s.end(key, at, "")
		return
	}
	class, text := strings.ToLower(p.Phase), fmt.Sprintf("pod %s, which wants %s, is %s", p.Name, cmp.Or(wants(p), "nothing"), p.Phase)
	if p.Phase == "Pending" && p.Scheduled {
		text += ", scheduled"
	}
	if p.Deleting {
		class, text = "deleting", text+", being deleted"
	}
	if p.Why != "" {
		text += ": " + p.Why
	}
	s.begin(event{
		key: key, lane: lane{5, "pods"}, from: at, class: class, label: p.Name, text: text,
		about: []string{p.Name}, normal: p.Phase != "Pending" && p.Phase != "Running",
	})
}

// addContainer adds an event for each device node number that a container has, in the port's lane.
func (s *story) addContainer(at float64, k container) {
	for _, of := range k.open() {
		key := fmt.Sprint("container ", k.PID, of)
		if k.Ended {
			s.end(key, at, "")
			continue
		}
		has := "has"
		if !slices.Contains(k.Nodes, of) {
			has = "may open"
		}
		s.begin(event{
			key: key, lane: lane{4, cmp.Or(s.owners[of], of)}, from: k.Started, class: "holder", label: k.Pod,
			text: fmt.Sprintf("process %d of pod %s %s %s", k.PID, k.Pod, has, of), about: []string{k.Pod, of},
		})
	}
}

func (s *story) addPort(at float64, p Port) {
	old := s.ports[p.ID]
	s.ports[p.ID] = p
	state := cmp.Or(p.unfitness(), "fit")
	class, _, _ := strings.Cut(state, " ")
	if p.Unsure {
		class, state = "unsure", state+", or is being changed"
	}
	if p.Node != "" {
		s.owners[p.Node] = p.ID
		state += ", as " + p.Node
	}
	if p.AFU != "" {
		state += ", with AFU " + p.AFU
	}
	s.begin(event{
		key: "state " + p.ID, lane: lane{4, p.ID}, from: at, class: class, label: class, text: "port " + p.ID + " is " + state,
		about: []string{p.ID, p.Node, old.Node}, normal: p.fit(),
	})
}

func (s *story) addOffers(at float64, o Offers) {
	if o.Unread != "" {
		if s.open["offers"] == nil {
			s.begin(event{key: "offers", lane: lane{3, "offers"}, from: at, class: "fault", text: "offers cannot be read: " + o.Unread, fault: true, normal: true})
		}
		if o.Ports == nil {
			return
		}
	} else {
		s.end("offers", at, "")
	}
	names := map[string][]string{} // names by port
	for _, name := range slices.Sorted(maps.Keys(o.Ports)) {
		for _, port := range o.Ports[name] {
			names[port] = append(names[port], name)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(s.ports)) {
		e := event{key: "offer " + port, lane: lane{4, port}, from: at, label: strings.Join(names[port], " and "), about: []string{port}}
		e.text = "port " + port + " is offered as " + e.label
		switch len(names[port]) {
		case 0:
			e.class, e.text = "unoffered", "port "+port+" is not offered"
		case 1:
			e.class, e.normal = "offered", true
		default:
			e.class = "broken"
		}
		s.begin(e)
	}
}

// Excerpts longer than longestExcerpt are shortened in the middle. excerptBegin is how many lines are kept before the
// gap.
const (
	longestExcerpt = 40
	excerptBegin   = 8
)

// Excerpt describes a violation in sentences with times. It starts at the last time when nothing was happening to the
// pods and ports involved, and includes all faults since then.
func Excerpt(lines []Line, wrong Wrong) []string {
	if len(lines) == 0 {
		return nil
	}
	end := slices.IndexFunc(lines, func(line Line) bool {
		return line.Wrong != nil && line.Wrong.Rule == wrong.Rule && line.Wrong.Text == wrong.Text
	})
	if end < 0 { // the violation isn't in this history
		end = len(lines) - 1
	}
	events := slices.DeleteFunc(newStory(lines[:end]).events, func(e *event) bool { return !e.fault && !e.isAbout(wrong.About) })
	begin := beginOf(events, wrong.Rule, lines[:end+1])
	slices.SortStableFunc(events, func(a, b *event) int { return cmp.Compare(a.from, b.from) })
	var told []string
	for _, e := range events {
		if e.from < begin && (e.until <= begin || e.normal && !e.fault) {
			continue
		}
		told = append(told, e.String())
	}
	if more := len(told) + 1 - longestExcerpt; more > 0 {
		told = slices.Replace(told, excerptBegin, excerptBegin+more+1, fmt.Sprintf("%11s  ... %d lines are left out", "", more+1))
	}
	return append(told, fmt.Sprintf("%9.3f s  WRONG (%s): %s", lines[end].At, wrong.Rule, wrong.Text))
}

// beginOf returns the last time before the end of lines when no event was in progress. For a violation found in a quiet
// time, it returns the end of the previous quiet time.
func beginOf(events []*event, rule string, lines []Line) (begin float64) {
	at := lines[len(lines)-1].At
	switch rule {
	case "quiet", "left", "grown":
		for _, line := range lines {
			if line.Quiet != nil && line.At < at {
				begin = line.At
			}
		}
		return begin
	}
	for moved := true; moved; {
		moved = false
		for _, e := range events {
			if !e.normal && e.from < at && e.until >= at {
				at, moved = e.from, true
			}
		}
	}
	return at
}

// isAbout reports whether an event is about any of these pods, ports and node numbers. A string that contains spaces
// stands for every pod, port and node number that it mentions.
func (e *event) isAbout(these []string) bool {
	return slices.ContainsFunc(these, func(this string) bool {
		return slices.ContainsFunc(e.about, func(id string) bool {
			return this == id || id != "" && strings.Contains(this, " ") && strings.Contains(this, id)
		})
	})
}
