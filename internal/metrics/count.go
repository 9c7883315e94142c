package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Transition counts a change in a device's health. old is "" for a new device, and new is "" for a removed one. If the
// health got worse, reason is the worst reason, in the form NAME or NAME=VALUE; otherwise, it is "".
func (m *Metrics) Transition(old, new, reason string) {
	if old == "" {
		old = absent
	}
	if new == "" {
		new = absent
	}
	m.transitions.WithLabelValues(old, new, m.reasons.of(nameOf(reason))).Inc()
}

// IdentityChange counts a change to one of a device's identity attributes.
func (m *Metrics) IdentityChange(attribute string) {
	m.identityChanges.WithLabelValues(attribute).Inc()
}

// Hint counts a hint that cards may have changed. source says where the hint came from.
func (m *Metrics) Hint(source string) { m.hints.WithLabelValues(m.hintSources.of(source)).Inc() }

// ScanDone counts a successful read of a card.
func (m *Metrics) ScanDone(took time.Duration) { m.scan(ok, took) }

// ScanGone counts a read that didn't find the card.
func (m *Metrics) ScanGone(took time.Duration) { m.scan(gone, took) }

// ScanFailed counts a read that failed.
func (m *Metrics) ScanFailed(took time.Duration) { m.scan(failed, took) }

// ScanTimeout counts a read that took longer than the read timeout.
func (m *Metrics) ScanTimeout(after time.Duration) { m.scan(timeout, after) }

// ScanStarved counts a read that failed because the daemon was out of file descriptors or memory.
func (m *Metrics) ScanStarved(took time.Duration) { m.scan(starved, took) }

func (m *Metrics) scan(result string, took time.Duration) {
	m.scans.WithLabelValues(result).Inc()
	m.scanDuration.Observe(took.Seconds())
}

// Listing counts a listing of all cards.
func (m *Metrics) Listing(err error) { m.listings.WithLabelValues(result(err == nil, failed)).Inc() }

// ListingStarved counts a failure to list all cards because the daemon was out of file descriptors or memory.
func (m *Metrics) ListingStarved() { m.listings.WithLabelValues(starved).Inc() }

// CardsUnreadable sets the number of cards whose last read failed or is overdue.
func (m *Metrics) CardsUnreadable(n int) { m.cardsUnreadable.Set(float64(n)) }

// HoldersSource records whether a source of information about the devices' holders responded.
func (m *Metrics) HoldersSource(source string, err error) {
	m.holders.WithLabelValues(source).Set(number(err == nil))
}

// APIEvent counts a Kubernetes Event by result: sent, failed or dropped.
func (m *Metrics) APIEvent(result string) { m.apiEvents.WithLabelValues(result).Inc() }

// APIFailed counts a request to the API server that failed and will be retried.
func (m *Metrics) APIFailed() { m.apiFailures.Inc() }

// ConfigReload counts a reload of the settings files, by whether they were applied or rejected.
func (m *Metrics) ConfigReload(applied bool) {
	m.configReloads.WithLabelValues(result(applied, refused)).Inc()
}

// LogDropped counts a dropped log line by level name.
func (m *Metrics) LogDropped(level string) { m.logDropped.WithLabelValues(level).Inc() }

// ResourceOffered creates a resource's counters, starting at 0, unless they already exist.
func (m *Metrics) ResourceOffered(resource string) {
	for _, c := range []*prometheus.CounterVec{m.listsSent, m.streamsOpened, m.kubeletRestarts, m.allocatedDevices} {
		c.WithLabelValues(resource)
	}
	for _, r := range []string{ok, failed, abandoned} {
		m.registrations.WithLabelValues(resource, r)
	}
	for _, r := range []string{served, refused} {
		m.allocations.WithLabelValues(resource, r)
	}
}

// ResourceRetired deletes a resource's counters.
func (m *Metrics) ResourceRetired(resource string) {
	for _, c := range []*prometheus.CounterVec{
		m.listsSent, m.streamsOpened, m.kubeletRestarts, m.allocatedDevices, m.registrations, m.allocations,
	} {
		c.DeletePartialMatch(prometheus.Labels{"resource": resource})
	}
}

// ListSent counts a list that was sent on a stream, or slices that were published. If known is true, it also records
// sinceHint, which is the time since the hint that led to the list.
func (m *Metrics) ListSent(resource string, sinceHint time.Duration, known bool) {
	m.listsSent.WithLabelValues(resource).Inc()
	if known {
		m.hintToSend.Observe(sinceHint.Seconds())
	}
}

// StreamOpened counts a stream that the kubelet has opened.
func (m *Metrics) StreamOpened(resource string) { m.streamsOpened.WithLabelValues(resource).Inc() }

// Registered counts a registration that the kubelet has accepted.
func (m *Metrics) Registered(resource string) { m.registrations.WithLabelValues(resource, ok).Inc() }

// RegistrationFailed counts a registration that failed or that the kubelet didn't follow up by opening a stream.
func (m *Metrics) RegistrationFailed(resource string) {
	m.registrations.WithLabelValues(resource, failed).Inc()
}

// RegistrationAbandoned counts a registration that was abandoned before the kubelet responded.
func (m *Metrics) RegistrationAbandoned(resource string) {
	m.registrations.WithLabelValues(resource, abandoned).Inc()
}

// KubeletRestarted counts a restart of the kubelet.
func (m *Metrics) KubeletRestarted(resource string) {
	m.kubeletRestarts.WithLabelValues(resource).Inc()
}

// SlicesFailed counts a failed attempt to write slices.
func (m *Metrics) SlicesFailed() { m.slicesFailed.Inc() }

// AllocateServed counts a served Allocate call or a prepared claim, and its devices.
func (m *Metrics) AllocateServed(resource string, devices int) {
	m.allocations.WithLabelValues(resource, served).Inc()
	m.allocatedDevices.WithLabelValues(resource).Add(float64(devices))
}

// AllocateRefused counts an Allocate call or a claim that was rejected.
func (m *Metrics) AllocateRefused(resource string) {
	m.allocations.WithLabelValues(resource, refused).Inc()
}

// CDI records whether the CDI spec file was written.
func (m *Metrics) CDI(err error) { m.cdi.WithLabelValues().Set(number(err == nil)) }

// LedgerStored records whether the ledger could be read or written.
func (m *Metrics) LedgerStored(err error) { m.ledgerStored.WithLabelValues().Set(number(err == nil)) }

// UEvent counts a uevent that may concern a card.
func (m *Metrics) UEvent(subsystem, action []byte) {
	m.uevents.WithLabelValues(m.subsystems.of(string(subsystem)), actionOf(string(action))).Inc()
}

// UEventIgnored counts a uevent that doesn't concern a card. It doesn't allocate memory, because such uevents are
// frequent.
func (m *Metrics) UEventIgnored() { m.ueventsIgnored.Inc() }

// UEventForged counts a uevent that didn't come from the kernel.
func (m *Metrics) UEventForged() { m.ueventsForged.Inc() }

// UEventMalformed counts a uevent that couldn't be parsed.
func (m *Metrics) UEventMalformed() { m.ueventsMalformed.Inc() }

// UEventsLost counts an overflow of the uevent socket.
func (m *Metrics) UEventsLost() { m.ueventOverflows.Inc() }

// InotifyEvent counts an inotify event that may concern a card. source is nodes or tree.
func (m *Metrics) InotifyEvent(source string) { m.inotifyEvents.WithLabelValues(source).Inc() }

// InotifyLost counts an overflow of an inotify queue. source is nodes or tree.
func (m *Metrics) InotifyLost(source string) { m.inotifyOverflows.WithLabelValues(source).Inc() }

// Source records whether an event source is open. source is uevent, nodes or tree.
func (m *Metrics) Source(source string, up bool) {
	m.sourceUp.WithLabelValues(source).Set(number(up))
	if source != "uevent" { // start at 0, so that the first loss is an increase
		m.inotifyEvents.WithLabelValues(source)
		m.inotifyOverflows.WithLabelValues(source)
	}
}
