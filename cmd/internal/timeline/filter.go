package timeline

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Filter selects lines. The zero Filter selects the lines of level Info and above, except the Info lines
// of http.served, socket.removed and library.log.
type Filter struct {
	Devices      []string       // ids, or addresses of cards
	Events       []string       // names or patterns; none: Level decides
	Level        *zapcore.Level // all events of this level and higher; nil: as the zero Filter
	Resource     string
	Since, Until Bound // lines from Since on, before Until

	devices []deviceFilter
}

// check prepares the filter. It returns an error if a pattern is malformed or can match no line.
func (f *Filter) check() error {
	for _, pattern := range f.Events {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("event: found %q, want a name (device.removed) or a pattern (device.*)", pattern)
		}
		if !strings.ContainsAny(pattern, `*?[\`) && logevent.Phrase(pattern) == "" {
			return fmt.Errorf("event: found %q, want one of %s", pattern, similar(pattern))
		}
	}
	f.devices = nil
	for _, id := range f.Devices {
		if id == "" {
			return fmt.Errorf("device: found %q, want an id (3b:00.0-p1) or an address of a card (0000:3b:00.0)", id)
		}
		f.devices = append(f.devices, parseDevice(id))
	}
	return nil
}

// similar returns the names of events that share a part with name. If there are none, it returns a
// pattern for each group of events.
func similar(name string) string {
	var same, all []string
	words := strings.Split(name, ".")
	for _, e := range logevent.Events() {
		first, second, _ := strings.Cut(e.Name, ".")
		if slices.Contains(words, first) || slices.Contains(words, second) {
			same = append(same, e.Name)
		}
		all = append(all, first+".*")
	}
	if same == nil {
		slices.Sort(all)
		same = slices.Compact(all)
	}
	return strings.Join(same, ", ")
}

// wantsEvent reports whether the filter selects a line by its event and level.
func (f *Filter) wantsEvent(l *line) bool {
	if f.Level != nil && l.level < *f.Level {
		return false
	}
	if len(f.Events) > 0 {
		return slices.ContainsFunc(f.Events, func(pattern string) bool {
			ok, _ := path.Match(pattern, l.event)
			return ok
		})
	}
	if f.Level != nil || l.level >= zapcore.WarnLevel {
		return true
	}
	switch l.event {
	case logevent.HTTPServed.String, logevent.SocketRemoved.String, logevent.LibraryLog.String: // not about devices
		return false
	}
	return l.level == zapcore.InfoLevel
}

// wantsDevice reports whether the filter selects a line by its devices. A list.sent or
// slices.published line without devices concerns all devices of its resource. Starts and ends of daemons are always selected, because they show
// when no daemon was running.
func (f *Filter) wantsDevice(l *line, n *node) bool {
	if len(f.devices) == 0 {
		return true
	}
	switch l.event {
	case logevent.DaemonStarted.String, logevent.DaemonStopped.String, logevent.DaemonFailed.String, logevent.ModeChanged.String:
		return true
	case logevent.ListSent.String, logevent.SlicesPublished.String:
		if len(l.texts("devices")) == 0 && n.offers(f, l.text("resource")) {
			return true
		}
	}
	return slices.ContainsFunc(f.devices, func(d deviceFilter) bool { return d.concerns(l) })
}

// wantsResource reports whether a line is about the resource, or about a device that is
// offered as it.
func (f *Filter) wantsResource(l *line, n *node) bool {
	if f.Resource == "" {
		return true
	}
	if resource := l.text("resource"); resource != "" {
		return resource == f.Resource
	}
	d := n.devices[l.text("device")]
	return d != nil && d.resource == f.Resource
}

// wantsID reports whether the filter selects the device with this id.
func (f *Filter) wantsID(id string) bool {
	return len(f.devices) == 0 || slices.ContainsFunc(f.devices, func(d deviceFilter) bool { return d.is(id) })
}

// deviceFilter selects a device, or all devices of a card.
type deviceFilter struct {
	id    string // id of the device, or of the card's first port
	ports string // prefix of the ids of the card's other ports; "": only the device id is selected
	pci   string // the card's address with its domain; "": the id has no PCI address
	found bool   // a line has the address pci
}

var address = regexp.MustCompile(`^(?i:([0-9a-f]{4,8}:)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]))(-p[0-9]+)?$`)

// parseDevice parses an id. The id of a card's first port is also the address of the card, so it
// selects all ports of the card. The suffix -p0 selects the first port alone.
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

// concerns reports whether a line is about the device or its card, or lists the device. An abbreviated
// list of devices ("and 3 more") may have the device, and counts.
func (f deviceFilter) concerns(l *line) bool {
	if device := l.text("device"); device != "" {
		return f.is(device)
	}
	if pci := l.text("pci"); pci != "" && f.pci != "" {
		return pci == f.pci
	}
	return slices.ContainsFunc(l.texts("devices"), func(id string) bool { return f.is(id) || isMore(id) })
}

// is reports whether the filter selects the device of this id.
func (f deviceFilter) is(id string) bool {
	return id == f.id || f.ports != "" && strings.HasPrefix(id, f.ports)
}

// isMore reports whether an element of a list of devices is the number of omitted devices, "and 3 more",
// and not an id.
func isMore(id string) bool {
	return strings.HasPrefix(id, "and ") && strings.HasSuffix(id, " more")
}
