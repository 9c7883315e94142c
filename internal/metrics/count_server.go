package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ResourceOffered creates the counters of a resource at 0, unless they exist.
func (m *Metrics) ResourceOffered(resource string) {
	if m == nil {
		return
	}
	m.listsSent.WithLabelValues(resource)
	m.streamsOpened.WithLabelValues(resource)
	m.kubeletRestarts.WithLabelValues(resource)
	m.allocatedDevices.WithLabelValues(resource)
	for _, r := range []string{ok, failed, abandoned} {
		m.registrations.WithLabelValues(resource, r)
	}
	for _, r := range []string{served, refused} {
		m.allocations.WithLabelValues(resource, r)
	}
}

// ResourceRetired deletes the counters of a resource.
func (m *Metrics) ResourceRetired(resource string) {
	if m == nil {
		return
	}
	its := prometheus.Labels{"resource": resource}
	for _, c := range []*prometheus.CounterVec{
		m.listsSent, m.streamsOpened, m.kubeletRestarts, m.allocatedDevices, m.registrations, m.allocations,
	} {
		c.DeletePartialMatch(its)
	}
}

// ListSent counts a list that a stream has sent, and observes the time since its hint, if known
// is true.
func (m *Metrics) ListSent(resource string, sinceHint time.Duration, known bool) {
	if m == nil {
		return
	}
	m.listsSent.WithLabelValues(resource).Inc()
	if known {
		m.hintToSend.Observe(sinceHint.Seconds())
	}
}

// StreamOpened counts a stream of the kubelet.
func (m *Metrics) StreamOpened(resource string) {
	if m != nil {
		m.streamsOpened.WithLabelValues(resource).Inc()
	}
}

// Registered counts a registration that the kubelet has accepted.
func (m *Metrics) Registered(resource string) {
	if m != nil {
		m.registrations.WithLabelValues(resource, ok).Inc()
	}
}

// RegistrationFailed counts an attempt to register that failed, or led to no stream.
func (m *Metrics) RegistrationFailed(resource string) {
	if m != nil {
		m.registrations.WithLabelValues(resource, failed).Inc()
	}
}

// RegistrationAbandoned counts a registration that was given up before its answer.
func (m *Metrics) RegistrationAbandoned(resource string) {
	if m != nil {
		m.registrations.WithLabelValues(resource, abandoned).Inc()
	}
}

// KubeletRestarted counts a restart of the kubelet.
func (m *Metrics) KubeletRestarted(resource string) {
	if m != nil {
		m.kubeletRestarts.WithLabelValues(resource).Inc()
	}
}

// AllocateServed counts a served call, and its devices.
func (m *Metrics) AllocateServed(resource string, devices int) {
	if m != nil {
		m.allocations.WithLabelValues(resource, served).Inc()
		m.allocatedDevices.WithLabelValues(resource).Add(float64(devices))
	}
}

// AllocateRefused counts a call that was refused.
func (m *Metrics) AllocateRefused(resource string) {
	if m != nil {
		m.allocations.WithLabelValues(resource, refused).Inc()
	}
}

// CDI records the result of writing the CDI spec file.
func (m *Metrics) CDI(err error) {
	if m != nil {
		m.cdi.set(err == nil)
	}
}
