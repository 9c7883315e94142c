package metrics

import (
	"strings"
	"sync"
)

// Label values.
const (
	ok        = "ok"
	failed    = "failed"
	refused   = "refused"
	served    = "served"
	abandoned = "abandoned"
	gone      = "gone"
	timeout   = "timeout"
	starved   = "starved"
	absent    = "absent"
	sent      = "sent"
	dropped   = "dropped"
	other     = "other"
)

// healths lists the values of the health label. Each device and each resource has one series per value.
var healths = []string{"healthy", "degraded", "unhealthy"}

// The maximum number of values for each label whose values come from outside the daemon.
const (
	mostReasons     = 100 // the health table has 34 names, and the inventory 18
	mostSubsystems  = 16
	mostHintSources = 16
)

// result returns ok or the label for a failure.
func result(isOK bool, otherwise string) string {
	if isOK {
		return ok
	}
	return otherwise
}

// few limits how many values a label can have. It keeps the first values and turns all others into "other".
type few struct {
	most  int
	mu    sync.Mutex
	known map[string]string
}

func (f *few) of(value string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if kept, ok := f.known[value]; ok {
		return kept
	}
	if len(f.known) >= f.most {
		return other
	}
	if f.known == nil {
		f.known = make(map[string]string)
	}
	kept := clean(value)
	f.known[value] = kept
	return kept
}

// actionOf returns action if it is one of the kernel's actions (kobject_actions, lib/kobject_uevent.c), or "other".
func actionOf(action string) string {
	switch action {
	case "add", "remove", "change", "move", "online", "offline", "bind", "unbind":
		return action
	}
	return other
}

// nameOf returns the NAME in a reason of the form NAME or NAME=VALUE.
func nameOf(reason string) string {
	name, _, _ := strings.Cut(reason, "=")
	return clean(name)
}

// clean returns a copy of value that is valid UTF-8, which Prometheus requires for label values.
func clean(value string) string { return strings.ToValidUTF8(strings.Clone(value), "\ufffd") }
