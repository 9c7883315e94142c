package metrics

// UEvent counts a uevent that may concern a card.
func (m *Metrics) UEvent(subsystem, action []byte) {
	if m != nil {
		m.uevents.WithLabelValues(m.subsystems.of(string(subsystem)), actionOf(string(action))).Inc()
	}
}

// UEventIgnored counts a uevent that concerns no card. It allocates nothing: there
// are many of them.
func (m *Metrics) UEventIgnored() {
	if m != nil {
		m.ueventsIgnored.Inc()
	}
}

// UEventForged counts a uevent that did not come from the kernel.
func (m *Metrics) UEventForged() {
	if m != nil {
		m.ueventsForged.Inc()
	}
}

// UEventMalformed counts a uevent that could not be parsed.
func (m *Metrics) UEventMalformed() {
	if m != nil {
		m.ueventsMalformed.Inc()
	}
}

// UEventsLost counts an overflow of the socket of uevents.
func (m *Metrics) UEventsLost() {
	if m != nil {
		m.ueventOverflows.Inc()
	}
}

// InotifyEvent counts an event that may concern a card. source is nodes or tree.
func (m *Metrics) InotifyEvent(source string) {
	if m != nil {
		m.inotifyEvents.WithLabelValues(source).Inc()
	}
}

// InotifyLost counts an overflow of an inotify queue. source is nodes or tree.
func (m *Metrics) InotifyLost(source string) {
	if m != nil {
		m.inotifyOverflows.WithLabelValues(source).Inc()
	}
}

// Source records whether a source of hints is open. source is uevent, nodes or tree.
func (m *Metrics) Source(source string, up bool) {
	if m == nil {
		return
	}
	open := 0.0
	if up {
		open = 1
	}
	m.sourceUp.WithLabelValues(source).Set(open)
	if source != "uevent" { // at 0, so that the first loss is an increase
		m.inotifyEvents.WithLabelValues(source)
		m.inotifyOverflows.WithLabelValues(source)
	}
}
