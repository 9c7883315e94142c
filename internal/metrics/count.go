package metrics

import "time"

// Transition counts a change of a device's health. old and new are names of a health; old is ""
// for a device that has come, new is "" for one that has left. reason is the worst reason after
// a change for the worse, NAME or NAME=VALUE, else "".
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

// IdentityChange counts a change of an attribute of a device's identity, by its name.
func (m *Metrics) IdentityChange(attribute string) {
	if m != nil {
		m.identityChanges.WithLabelValues(attribute).Inc()
	}
}

// Hint counts a hint, by its source.
func (m *Metrics) Hint(source string) {
	if m != nil {
		m.hints.WithLabelValues(m.hintSources.of(source)).Inc()
	}
}

// ScanDone counts a reading of a card that returned in time.
func (m *Metrics) ScanDone(took time.Duration) { m.scan(ok, took) }

// ScanGone counts a reading that found that the card is gone.
func (m *Metrics) ScanGone(took time.Duration) { m.scan(gone, took) }

// ScanFailed counts a reading that failed.
func (m *Metrics) ScanFailed(took time.Duration) { m.scan(failed, took) }

// ScanTimeout counts a reading that has taken longer than the read timeout.
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

// CardsUnreadable sets the number of cards that cannot be read now.
func (m *Metrics) CardsUnreadable(n int) {
	if m != nil {
		m.cardsUnreadable.Set(float64(n))
	}
}

// HoldersAsked counts a question for the holders of devices, by its error.
func (m *Metrics) HoldersAsked(err error) {
	if m != nil {
		m.holders.set(err == nil)
	}
}

// APIEvent counts a Kubernetes Event by its result: sent, failed or dropped.
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

// ConfigReload counts a SIGHUP, by whether the settings were taken over.
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
