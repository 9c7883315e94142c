package timeline

import (
	"bytes"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// words say what happened, for who has not seen the code. Each writes one event;
// what is not here is told by its message and its fields.
var words = map[string]func(p *phrase, l *line){
	"daemon.started": func(p *phrase, l *line) {
		p.field("daemon started, version ", l, "version", "")
		p.field(", mode ", l, "mode", "")
		p.field(", node ", l, "node", "")
	},
	"daemon.stopping": func(p *phrase, l *line) { p.field("daemon stopping: ", l, "reason", "") },
	"daemon.stopped":  func(p *phrase, l *line) { p.say("daemon stopped") },
	"daemon.failed":   func(p *phrase, l *line) { p.field("daemon failed: ", l, "error", "") },
	"daemon.starved": func(p *phrase, l *line) {
		p.field("daemon out of descriptors or memory, devices keep their state: ", l, "error", "")
	},
	"daemon.recovered": func(p *phrase, l *line) {
		p.say("daemon has descriptors and memory again")
		p.aside("after ", l, "lasted_ms", "")
	},
	"mode.changed": func(p *phrase, l *line) {
		p.say("the node asks for another mode: ")
		p.change(l)
	},
	"daemon.reload": func(p *phrase, l *line) {
		if bytes.HasSuffix(l.text("message"), []byte("unchanged")) {
			p.say("SIGHUP: settings are as they were")
		} else {
			p.say("SIGHUP: settings read again")
		}
		p.names("; excluded: ", l, "devices")
	},
	"config.refused": func(p *phrase, l *line) { p.field("settings refused, the old ones stay: ", l, "error", "") },
	"config.notice": func(p *phrase, l *line) {
		p.buf = terminal.AppendText(p.buf, l.text("message"))
		p.field(": --", l, "flag", "")
		p.names(": ", l, "devices")
		p.field(": ", l, "reason", "")
		for _, key := range []string{"mode", "node"} {
			if l.find(key) != nil {
				p.open()
				p.field(key+" ", l, key, "")
			}
		}
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
		p.buf = terminal.AppendText(p.buf, l.text("message")) // of a part, or of all
		p.field(": ", l, "source", "")
		p.field(" of ", l, "path", "")
		p.field(": ", l, "error", "")
		p.field("; what still works: ", l, "remaining", "")
	},
	"source.recovered": func(p *phrase, l *line) {
		p.field("source of events is back: ", l, "source", "")
		p.field(" of ", l, "path", "")
	},
	"uevent.malformed": func(p *phrase, l *line) {
		p.number(l, "count", " uevent", " uevents")
		p.field(" not understood, all cards are read again: ", l, "error", "")
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
		if string(l.text("reason")) == "ended by us" { // at our end, or to register again
			p.say("stream to the kubelet closed by us")
			p.aside("it was open for ", l, "lasted_ms", "")
			return
		}
		p.say("kubelet does not listen any more")
		p.field(": ", l, "reason", "")
		p.aside("it did for ", l, "lasted_ms", "")
	},
	"list.sent":        listSent,
	"allocate.served":  func(p *phrase, l *line) { p.names("given to a container: ", l, "devices") },
	"allocate.refused": allocateRefused,
	"cdi.failed": func(p *phrase, l *line) {
		p.field("CDI spec cannot be written, nothing is given out: ", l, "error", "")
	},
	"cdi.recovered": func(p *phrase, l *line) { p.say("CDI spec could be written again") },

	"programming.done": func(p *phrase, l *line) {
		p.field("programmed for a container: AFU ", l, "afu", "")
		p.aside("took ", l, "lasted_ms", "")
	},
	"programming.present": func(p *phrase, l *line) { p.field("had the AFU of a container already: ", l, "afu", "") },
	"programming.failed":  func(p *phrase, l *line) { p.field("container not started: ", l, "error", "") },

	"api.lost":    asSaid("error"),
	"api.retried": asSaid("error"),
	"api.recovered": func(p *phrase, l *line) {
		p.say("API server answers again")
		p.aside("after ", l, "lasted_ms", "")
	},
	"recorder.dropped": func(p *phrase, l *line) {
		p.number(l, "count", " Kubernetes Event", " Kubernetes Events")
		p.say(" left out, there were too many")
	},
	"recorder.anonymous": asSaid("error"),
	"recorder.failed": func(p *phrase, l *line) {
		p.field("Kubernetes Event given up: ", l, "reason", "")
		p.field(" about ", l, "object", "")
		p.field(": ", l, "error", "")
	},
	"recorder.recorded": func(p *phrase, l *line) {
		p.field("Kubernetes Event written: ", l, "reason", "")
		p.field(" about ", l, "object", "")
		p.times(l)
	},
	"http.served": func(p *phrase, l *line) { p.field("HTTP served at ", l, "address", "") },
	"http.failed": func(p *phrase, l *line) {
		asSaid("error")(p, l)
		if l.find("address") != nil {
			p.open()
			p.field("", l, "address", "")
		}
	},

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
