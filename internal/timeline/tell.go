package timeline

import (
	"bytes"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

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
	if stateOf(l.text("health")) == unhealthy { // it is offered to nobody yet
		p.field("; belongs to ", l, "resource", "")
	} else {
		p.field("; offered as ", l, "resource", "")
	}
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
		p.aside(string(terminal.AppendText([]byte("was "), l.text("old")))+" for ", l, "lasted_ms", "")
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
	if l.find("count") != nil {
		p.open()
		p.number(l, "count", " was still queued", " were still queued")
	}
}

// asSaid is an event of which the message says most: it may come with several.
func asSaid(why string) func(*phrase, *line) {
	return func(p *phrase, l *line) {
		again(string(terminal.AppendText(nil, l.text("message"))), why)(p, l)
	}
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

func allocateRefused(p *phrase, l *line) {
	p.names("refused to a container: ", l, "devices")
	p.field(": ", l, "reason", "")
}

// shownAlready are the members that a line has shown before its words.
var shownAlready = map[string]bool{"time": true, "level": true, "logger": true, "message": true, "event": true}

// inFields tells an event that has no words here: its message, then its fields.
func inFields(p *phrase, l *line) {
	p.buf = terminal.AppendText(p.buf, l.text("message"))
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
			p.buf = append(terminal.AppendText(p.buf, key), '=')
			p.buf = appendDuration(p.buf, fromMilliseconds(ms))
			continue
		}
		p.buf = append(terminal.AppendText(p.buf, m.key), '=')
		p.short(unquote(m.value))
	}
}
