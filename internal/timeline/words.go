package timeline

import "bytes"

// words say what happened, for who has not seen the code. Each writes one event;
// what is not here is told by its message and its fields.
var words = map[string]func(p *phrase, l *line){
	"daemon.started": func(p *phrase, l *line) {
		p.field("daemon started, version ", l, "version", "")
		p.field(", mode ", l, "mode", "")
	},
	"daemon.stopping": func(p *phrase, l *line) { p.field("daemon stopping: ", l, "reason", "") },
	"daemon.stopped":  func(p *phrase, l *line) { p.say("daemon stopped") },
	"daemon.failed":   func(p *phrase, l *line) { p.field("daemon failed: ", l, "error", "") },
	"mode.changed": func(p *phrase, l *line) {
		p.say("the node asks for another mode: ")
		p.change(l)
	},
	"scan.done": func(p *phrase, l *line) {
		p.say("first look at all cards: ")
		p.number(l, "count", " device", " devices")
	},

	"device.added":     deviceAdded,
	"device.removed":   deviceRemoved,
	"device.health":    deviceHealth,
	"device.identity":  deviceIdentity,
	"device.tombstone": deviceTombstone,
	"device.returned": func(p *phrase, l *line) {
		p.say("is back")
		p.names(", held by ", l, "holders")
		p.aside("was away for ", l, "lasted_ms", "")
	},
	"device.released": func(p *phrase, l *line) {
		p.say("released")
		p.field(": ", l, "reason", "")
		p.aside("listed as unhealthy for ", l, "lasted_ms", "")
	},
	"device.unoffered": func(p *phrase, l *line) { p.field("not offered to the kubelet: ", l, "reason", "") },
	"holders.unknown": func(p *phrase, l *line) {
		p.say("who holds which device is not known")
		p.field(": ", l, "error", "")
		p.aside("what is removed stays listed for ", l, "grace_ms", "")
	},
	"holders.known": func(p *phrase, l *line) { p.say("who holds which device is known again") },

	"scan.failed": func(p *phrase, l *line) {
		p.say(either(l, "pci", "card could not be read", "cards could not be listed"))
		p.field(": ", l, "error", "")
		p.times(l)
	},
	"scan.recovered": func(p *phrase, l *line) {
		p.say(either(l, "pci", "card could be read again", "cards could be listed again"))
		if l.find("count") != nil {
			p.open()
			p.number(l, "count", " failure", " failures")
		}
	},
	"read.timeout": func(p *phrase, l *line) {
		p.say("reading the card does not come back")
		p.aside("", l, "lasted_ms", " so far")
	},
	"read.recovered": func(p *phrase, l *line) {
		p.say("reading the card came back")
		p.aside("after ", l, "lasted_ms", "")
	},
	"source.opened": func(p *phrase, l *line) {
		p.field("listening to ", l, "source", "")
		p.field(" of ", l, "path", "")
	},
	"source.lost": func(p *phrase, l *line) {
		p.say(either(l, "source", "source of events lost: ", "not watched as a whole: "))
		p.field("", l, "source", either(l, "path", " of ", ""))
		p.field("", l, "path", "")
		p.field(": ", l, "error", "")
		p.field("; what still works: ", l, "remaining", "")
	},
	"source.recovered": func(p *phrase, l *line) {
		p.field("source of events is back: ", l, "source", "")
		p.field(" of ", l, "path", "")
	},
	"uevent.overflow":  overflow,
	"inotify.overflow": overflow,
	"uevent.forged": func(p *phrase, l *line) {
		p.number(l, "count", " uevent", " uevents")
		p.say(" dropped that the kernel did not send")
		if l.find("pid") != nil {
			p.open()
			p.say("pid of the sender: ")
			p.number(l, "pid", "", "")
		}
	},

	"resource.registered": func(p *phrase, l *line) { p.say("registered with the kubelet") },
	"resource.retired":    func(p *phrase, l *line) { p.say("retired: there is no device of it any more") },
	"registration.ended":  again("registration ended", "reason"),
	"register.failed":     again("registering with the kubelet failed", "error"),
	"register.abandoned":  again("registering given up", "reason"),
	"kubelet.absent": func(p *phrase, l *line) {
		p.say("waiting for the kubelet")
		p.field(": ", l, "error", "")
	},
	"kubelet.restarted": func(p *phrase, l *line) { p.say("kubelet restarted: registering again") },
	"socket.lost":       again("our socket is gone: registering again", "reason"),
	"socket.twin":       again("another daemon serves this node, too", "socket"),
	"stream.opened":     func(p *phrase, l *line) { p.say("kubelet listens") },
	"stream.closed": func(p *phrase, l *line) {
		p.say("kubelet does not listen any more")
		p.field(": ", l, "reason", "")
		p.aside("it did for ", l, "lasted_ms", "")
	},
	"list.sent":        listSent,
	"allocate.served":  func(p *phrase, l *line) { p.names("given to a container: ", l, "devices") },
	"allocate.refused": allocateRefused,
	"log.suppressed": func(p *phrase, l *line) {
		p.number(l, "count", " line", " lines")
		p.field(" of ", l, "of", "")
		p.say(" left out here, there were too many")
		p.aside("in ", l, "lasted_ms", "")
	},
	"log.level": func(p *phrase, l *line) {
		p.say("level of the log: ")
		p.change(l)
	},
}

func either(l *line, key, with, without string) string {
	if l.find(key) != nil {
		return with
	}
	return without
}

func (p *phrase) change(l *line) {
	for i, key := range []string{"old", "new"} {
		if i > 0 {
			p.say(" → ")
		}
		if value := l.text(key); len(value) > 0 {
			p.short(value)
		} else {
			p.say("none")
		}
	}
}

// noticed says how long a hint waited.
func (p *phrase) noticed(l *line) { p.aside("noticed in ", l, "latency_ms", "") }

func (p *phrase) times(l *line) {
	if n, ok := l.number("count"); ok && n > 1 {
		p.open()
		p.number(l, "count", "", " times")
	}
}

func deviceAdded(p *phrase, l *line) {
	p.say("new, ")
	p.health(l, "health")
	p.names(": ", l, "reasons")
	p.field("; offered as ", l, "resource", "")
	p.field("; ", l, "error", "")
	p.noticed(l)
}

func deviceRemoved(p *phrase, l *line) {
	p.buf = p.paint(p.buf, red, "gone")
	if old := l.text("old"); len(old) > 0 {
		p.say(" (was ")
		p.health(l, "old")
		p.tail = true
		if ms, ok := l.number("lasted_ms"); ok {
			p.say(" for ")
			p.buf = appendDuration(p.buf, fromMilliseconds(ms))
		}
	}
	p.noticed(l)
}

func deviceHealth(p *phrase, l *line) {
	same := string(l.text("old")) == string(l.text("new"))
	if same {
		p.say("still ")
	} else {
		p.health(l, "old")
		p.say(" → ")
	}
	p.health(l, "new")
	p.names(": ", l, "reasons")
	p.field("; ", l, "error", "")
	if same {
		p.aside("for ", l, "lasted_ms", " so far")
	} else {
		p.aside(string(appendVisible([]byte("was "), l.text("old")))+" for ", l, "lasted_ms", "")
	}
	p.noticed(l)
}

func deviceIdentity(p *phrase, l *line) {
	p.field("changed: ", l, "attribute", " ")
	p.change(l)
}

func deviceTombstone(p *phrase, l *line) {
	p.buf = p.paint(p.buf, red, "held")
	p.names(" by ", l, "holders")
	p.field(" as ", l, "resource", "")
	p.say(": stays on the list, unhealthy, until it is free")
}

func overflow(p *phrase, l *line) {
	p.say(either(l, "path", "events of inotify were lost", "uevents were lost"))
	p.field(" below ", l, "path", "")
	p.say(": all cards are read again")
	p.times(l)
}

// again is something that is tried again.
func again(what, why string) func(*phrase, *line) {
	return func(p *phrase, l *line) {
		p.say(what)
		p.field(": ", l, why, "")
		if ms, _ := l.number("retry_ms"); ms >= 0.01 {
			p.aside("again in ", l, "retry_ms", "")
		}
	}
}

func listSent(p *phrase, l *line) {
	p.say("kubelet told")
	if !p.names(" of ", l, "devices") {
		p.say(" the list")
	}
	if l.find("count") != nil {
		p.open()
		p.number(l, "count", " device in all", " devices in all")
	}
	p.aside("", l, "latency_ms", " after the hint")
}

func allocateRefused(p *phrase, l *line) {
	p.names("refused to a container: ", l, "devices")
	p.field(": ", l, "reason", "")
}

// shownAlready are the members that a line has shown before its words.
var shownAlready = map[string]bool{"time": true, "level": true, "logger": true, "message": true, "event": true}

// inFields tells an event that has no words here: its message, then its fields.
func inFields(p *phrase, l *line) {
	p.buf = appendVisible(p.buf, l.text("message"))
	subject := subject(l)
	p.field(" [", l, "event", "]")
	for _, m := range l.members {
		if shownAlready[string(m.key)] || m.kind == text && string(m.value) == string(subject) {
			continue
		}
		p.say(" ")
		key, isDuration := bytes.CutSuffix(m.key, []byte("_ms"))
		ms, isNumber := l.number(string(m.key))
		if isDuration && isNumber {
			p.buf = append(appendVisible(p.buf, key), '=')
			p.buf = appendDuration(p.buf, fromMilliseconds(ms))
			continue
		}
		p.buf = append(appendVisible(p.buf, m.key), '=')
		p.short(unquote(m.value))
	}
}
