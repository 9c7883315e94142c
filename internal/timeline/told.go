package timeline

import (
	"bytes"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// listSent tells what a list told the kubelet. A list that is not the first of its
// stream names the devices of which it says something else than the one before it:
// healthy, unhealthy, or that they are not on it any more.
func listSent(p *phrase, l *line) {
	if !p.news(l) {
		p.say("kubelet told the whole list")
	}
	if l.find("count") != nil {
		p.open()
		if l.find("devices") != nil {
			p.number(l, "count", " device in all", " devices in all")
		} else if p.number(l, "count", " device", " devices") {
			p.names(", unhealthy: ", l, "unhealthy")
		}
	}
	p.aside("", l, "latency_ms", " after the hint")
}

// Groups of devices of which a list says the same, in the order in which they are told.
const (
	unwell = iota
	off
	well
	more
)

var groupNames = [...]string{unwell: " unhealthy", off: " off the list", well: " healthy", more: ""}

// news tells each device that a list names, those of which the same is told
// together. What stands neither in unhealthy nor in gone is healthy: these fields
// are left out where they are empty. It writes nothing where no device is named.
func (p *phrase) news(l *line) bool {
	said := map[string]int{} // group of an id
	l.each("unhealthy", func(id []byte) { said[string(id)] = unwell })
	l.each("gone", func(id []byte) { said[string(id)] = off })
	var groups [len(groupNames)][][]byte
	l.each("devices", func(id []byte) {
		group, known := said[string(id)]
		switch {
		case isMore(id): // of any of these
			group = more
		case !known:
			group = well
		}
		groups[group] = append(groups[group], id)
	})
	before := "kubelet told: "
	for i, ids := range groups {
		for n, id := range ids {
			if n > 0 {
				before = ", "
			}
			p.say(before)
			p.buf = terminal.AppendText(p.buf, id)
		}
		if len(ids) > 0 {
			p.say(groupNames[i])
			before = "; "
		}
	}
	return before != "kubelet told: "
}

// isMore says whether what stands in a list of ids stands for those that it lacks.
func isMore(id []byte) bool {
	return bytes.HasPrefix(id, []byte("and ")) && bytes.HasSuffix(id, []byte(" more"))
}
