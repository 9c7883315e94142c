package timeline

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Filter says which lines are wanted. The zero Filter wants what a timeline of
// devices is made of.
type Filter struct {
	Devices      []string // ids, or addresses of cards
	Events       []string // names or patterns; none: see Level
	Known        []string // all names of events; none: any may be asked for
	Level        *Level   // this and graver, whatever the event; nil: what concerns devices
	Resource     string
	Since, Until Bound // the time from Since on, before Until

	devices []deviceFilter
	learned map[string]string // device of an origin -> resource, at most maxDevices
	offered map[string]bool   // resources of an origin that wanted devices were offered as, at most maxResources
}

// check prepares the filter, and finds what cannot be meant.
func (f *Filter) check() error {
	for _, pattern := range f.Events {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("event %q: want a name (device.removed) or a pattern (device.*)", pattern)
		}
		if len(f.Known) > 0 && !strings.ContainsAny(pattern, `*?[\\`) && !slices.Contains(f.Known, pattern) {
			return fmt.Errorf("event %q: there is none; want %s", pattern, similar(pattern, f.Known))
		}
	}
	f.devices = nil
	for _, id := range f.Devices {
		if id == "" {
			return fmt.Errorf("device %q: want an id (3b:00.0-p1) or an address of a card (0000:3b:00.0)", id)
		}
		f.devices = append(f.devices, parseDevice(id))
	}
	f.learned, f.offered = map[string]string{}, map[string]bool{}
	return nil
}

// similar are the events that have a word in common with a name, or else what all
// of them begin with.
func similar(name string, known []string) string {
	about, what, _ := strings.Cut(name, ".")
	var same, all []string
	for _, k := range known {
		part, word, _ := strings.Cut(k, ".")
		if part == about || word == what || word == about {
			same = append(same, k)
		}
		all = append(all, part+".*")
	}
	if len(same) == 0 {
		slices.Sort(all)
		same = slices.Compact(all)
	}
	return "one of " + strings.Join(same, ", ")
}

// quiet are events that say nothing about devices, at levels that are shown.
var quiet = map[string]bool{"http.served": true, "socket.removed": true, "library.log": true}

// watching are events from which or until which somebody watches.
var watching = map[string]bool{"daemon.started": true, "daemon.stopped": true, "daemon.failed": true, "mode.changed": true}

// skips says, after a glance, that a line is not wanted, and its time as it stands:
// a log at level debug consists of lines that a timeline does not show.
func (f *Filter) skips(json []byte) (stamp []byte, skip bool) {
	rest, debug := bytes.CutPrefix(json, []byte(`{"level":"debug","time":"`))
	if !debug || f.Level != nil || len(f.Events) > 0 || !bytes.Contains(rest, []byte(`"event":"`)) {
		return nil, false
	}
	stamp, _, _ = bytes.Cut(rest, []byte{'"'})
	return stamp, true
}

// wants says whether a line is wanted, its time aside.
func (f *Filter) wants(l *line) bool {
	return f.wantsEvent(l) && f.wantsDevice(l) && f.wantsResource(l)
}

func (f *Filter) wantsEvent(l *line) bool {
	if f.Level != nil && l.level < *f.Level {
		return false
	}
	for _, pattern := range f.Events {
		if ok, _ := path.Match(pattern, string(l.event)); ok {
			return true
		}
	}
	switch {
	case len(f.Events) > 0:
		return false
	case f.Level != nil || l.level >= Warn:
		return true
	}
	return l.level == Info && !quiet[string(l.event)]
}

// wantsDevice selects the lines of devices. Whole lists name none of them, but are
// about all of their resource; and a timeline shows when nobody watched.
func (f *Filter) wantsDevice(l *line) bool {
	if len(f.devices) == 0 || watching[string(l.event)] {
		return true
	}
	if l.is("list.sent") && l.find("devices") == nil && f.offered[string(deviceKey(l.origin, l.text("resource")))] {
		return true
	}
	for i := range f.devices {
		if f.devices[i].concerns(l) {
			return true
		}
	}
	return false
}

// wantsResource selects the lines of a resource, and those of devices that were
// offered as it when something was last said about that.
func (f *Filter) wantsResource(l *line) bool {
	if f.Resource == "" {
		return true
	}
	if r := l.text("resource"); r != nil {
		return string(r) == f.Resource
	}
	device := l.text("device")
	return device != nil && f.learned[string(deviceKey(l.origin, device))] == f.Resource
}

// learn takes note of what devices are offered as.
func (f *Filter) learn(l *line) {
	if f.Resource == "" && len(f.devices) == 0 {
		return
	}
	resource := l.text("resource")
	if l.is("device.identity") && string(l.text("attribute")) == "resource" {
		resource = l.text("new")
	}
	if resource == nil {
		return
	}
	note := func(device []byte) {
		if len(f.devices) > 0 && f.wantsID(device) && len(f.offered) < maxResources && len(resource) <= maxKey {
			f.offered[string(deviceKey(l.origin, resource))] = true
		}
		if f.Resource == "" {
			return
		}
		key := string(deviceKey(l.origin, device))
		if _, known := f.learned[key]; (known || len(f.learned) < maxDevices) && len(key) <= maxKey {
			f.learned[key] = string(resource[:min(len(resource), maxKey)])
		}
	}
	if device := l.text("device"); device != nil {
		note(device)
	}
	l.each("devices", note)
}

// deviceKey tells devices apart, of all nodes whose logs come mixed.
func deviceKey(origin, device []byte) []byte { return bytes.Join([][]byte{origin, device}, []byte{0}) }

// deviceFilter selects a device, or all of a card.
type deviceFilter struct {
	id    string // of one device, or of the card's first
	ports string // what the ids of the others begin with; "" when one is meant
	pci   string // the card's address with its domain; "" for what is in no slot
}

var address = regexp.MustCompile(`^(?i:([0-9a-f]{4,8}:)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]))(-p[0-9]+)?$`)

// parseDevice reads an id. That of a card's first port is the address of the card,
// and selects all of it; -p0 selects that port alone.
func parseDevice(id string) deviceFilter {
	m := address.FindStringSubmatch(id)
	if m == nil {
		return deviceFilter{id: id}
	}
	domain, card, port := strings.ToLower(m[1]), strings.ToLower(m[2]), m[3]
	f := deviceFilter{pci: domain + card}
	if domain == "" {
		f.pci = "0000:" + card
	}
	short := strings.TrimPrefix(f.pci, "0000:")
	switch port {
	case "":
		f.id, f.ports = short, short+"-p"
	case "-p0":
		f.id = short
	default:
		f.id = short + port
	}
	return f
}

// concerns says whether a line is about the device, or its card as a whole, or
// names it. A list that was cut short may name it.
func (f *deviceFilter) concerns(l *line) bool {
	if device := l.text("device"); device != nil {
		return f.is(device)
	}
	if pci := l.text("pci"); pci != nil && f.pci != "" {
		return string(pci) == f.pci
	}
	found := false
	l.each("devices", func(id []byte) { found = found || f.is(id) || isMore(id) })
	return found
}

func (f *deviceFilter) is(id []byte) bool {
	return string(id) == f.id || f.ports != "" && bytes.HasPrefix(id, []byte(f.ports))
}
