package metrics

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Values of labels.
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

// healths are the states that each device and each resource has a series for.
var healths = []string{"healthy", "degraded", "unhealthy"}

// How many values a label may have that others make up.
const (
	mostReasons     = 100 // the health table has 34 names, the inventory gives 18
	mostSubsystems  = 16
	mostHintSources = 16
)

func result(isOK bool) string {
	if isOK {
		return ok
	}
	return failed
}

// few bounds a label: the first values are kept, later ones are "other".
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

// actionOf is one of the kernel's actions (kobject_actions, lib/kobject_uevent.c).
func actionOf(action string) string {
	switch action {
	case "add", "remove", "change", "move", "online", "offline", "bind", "unbind":
		return action
	}
	return other
}

// nameOf is the name of a reason, NAME or NAME=VALUE.
func nameOf(reason string) string {
	name, _, _ := strings.Cut(reason, "=")
	return clean(name)
}

// clean makes a label value of what somebody else has named: it must be UTF-8.
func clean(value string) string { return strings.ToValidUTF8(strings.Clone(value), "\ufffd") }

// answer is yes or no, or has not been given yet.
type answer struct{ v atomic.Int32 }

func (a *answer) set(yes bool) {
	if yes {
		a.v.Store(2)
	} else {
		a.v.Store(1)
	}
}

func (a *answer) get() (yes, given bool) {
	v := a.v.Load()
	return v == 2, v != 0
}
