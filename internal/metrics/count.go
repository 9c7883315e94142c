package metrics

import "time"

// Transition counts a change of a device's health, by their names. old "" is a
// device that has come, new "" one that has left. reason is the worst one after a
// change for the worse, NAME or NAME=VALUE, else "".
func (m *Metrics) Transition(old, new, reason string) {
	if m == nil {
		return
	}
	if old == "" {
		old = absent
	}
	if new == "" {
		new = absent
	}
	m.transitions.WithLabelValues(old, new, m.reasons.of(nameOf(reason))).Inc()
}

// IdentityChange counts a device that became something else, by the name of what
// changed.
func (m *Metrics) IdentityChange(attribute string) {
	if m != nil {
		m.identityChanges.WithLabelValues(attribute).Inc()
	}
}

// Hint counts a hint, by who gave it.
func (m *Metrics) Hint(source string) {
	if m != nil {
		m.hints.WithLabelValues(m.hintSources.of(source)).Inc()
	}
}

// ScanDone counts a reading of a card that came back in time.
func (m *Metrics) ScanDone(took time.Duration) { m.scan(ok, took) }

// ScanGone counts a reading of a card that turned out to be gone.
func (m *Metrics) ScanGone(took time.Duration) { m.scan(gone, took) }

// ScanFailed counts a reading of a card that could not be read.
func (m *Metrics) ScanFailed(took time.Duration) { m.scan(failed, took) }

// ScanTimeout counts a reading that was given up.
func (m *Metrics) ScanTimeout(after time.Duration) { m.scan(timeout, after) }

// ScanStarved counts a reading that failed because the daemon had no descriptor or no
// memory.
func (m *Metrics) ScanStarved(took time.Duration) { m.scan(starved, took) }

func (m *Metrics) scan(result string, took time.Duration) {
	if m != nil {
		m.scans.WithLabelValues(result).Inc()
		m.scanDuration.Observe(took.Seconds())
	}
}

// Listing counts a listing of all cards.
func (m *Metrics) Listing(err error) {
	if m != nil {
		m.listings.WithLabelValues(result(err == nil)).Inc()
	}
}

// ListingStarved counts a listing that failed because the daemon had no descriptor or no
// memory.
func (m *Metrics) ListingStarved() {
	if m != nil {
		m.listings.WithLabelValues(starved).Inc()
	}
}

// CardsUnreadable says how many cards cannot be read now.
func (m *Metrics) CardsUnreadable(n int) {
	if m != nil {
		m.cardsUnreadable.Set(float64(n))
	}
}

// HoldersAsked says whether the kubelet has said who holds what.
func (m *Metrics) HoldersAsked(err error) {
	if m != nil {
		m.holders.set(err == nil)
	}
}

// APIEvent counts a Kubernetes Event by what became of it: sent, failed or dropped.
func (m *Metrics) APIEvent(result string) {
	if m != nil {
		m.apiEvents.WithLabelValues(result).Inc()
	}
}

// APIFailed counts a request to the API server that failed and is made again.
func (m *Metrics) APIFailed() {
	if m != nil {
		m.apiFailures.Inc()
	}
}

// ConfigReload counts a hangup signal, and whether the settings were taken over.
func (m *Metrics) ConfigReload(taken bool) {
	switch {
	case m == nil:
	case taken:
		m.configReloads.WithLabelValues(ok).Inc()
	default:
		m.configReloads.WithLabelValues(refused).Inc()
	}
}

// LogDropped counts a dropped line of the log, by the name of its level.
func (m *Metrics) LogDropped(level string) {
	if m != nil {
		m.logDropped.WithLabelValues(level).Inc()
	}
}
