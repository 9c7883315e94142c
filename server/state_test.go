package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/metricstest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// A conductor that doesn't finish handing over a snapshot counts as stuck until it does.
func TestStuckConductor(t *testing.T) {
	r := newRig(t, nil)
	r.SetStuckAfter(50 * time.Millisecond)
	r.devices.set(ports(1)...)
	r.run()
	k := r.kubelet(simkubelet.Behaviour{})
	r.awaitList(k)
	compare.NoError(t, "Alive while the conductor waits", r.Alive())
	r.devices.mu.Lock() // from now on, Latest blocks
	close(r.devices.stale)
	r.devices.stale = make(chan struct{})
	patient.Await(t, "the conductor is stuck", func() error {
		if err := r.Alive(); err == nil || !strings.HasPrefix(err.Error(), "server: stuck for ") {
			return fmt.Errorf("Alive: found %v, want stuck", err)
		}
		return nil
	})
	r.devices.mu.Unlock()
	patient.Await(t, "it goes on", r.Alive)
}

// Lists, streams and registrations are counted, and Resources returns each resource's state.
func TestMetrics(t *testing.T) {
	m := metrics.New("test")
	r := newRig(t, func(c *server.Config) { c.Metrics, c.RetireAfter = m, 10*time.Millisecond })
	r.devices.set(ports(2)...)
	r.run()
	k := r.kubelet(simkubelet.Behaviour{})
	r.awaitService(k)
	compare.Values(t, "resources", []server.Resource{{Name: resource, Streams: 1}}, r.Resources())
	must.Value(k.Allocate(r.ctx, resource, ports(2)[0].ID, ports(2)[1].ID))(t)
	compare.Error(t, "Allocate of an unknown device", "", compare.ErrorOf(k.Allocate(r.ctx, resource, "no-such-id")))
	k.Stop()
	k = r.kubelet(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitEvent("list.sent", 2)
	r.awaitEvent("resource.registered", 2)
	want := map[string]string{
		`accelerator_lists_sent_total{resource="b-com.com/accelerator"}`:                   "2",
		`accelerator_streams_opened_total{resource="b-com.com/accelerator"}`:               "2",
		`accelerator_registrations_total{resource="b-com.com/accelerator",result="ok"}`:    "2",
		`accelerator_kubelet_restarts_total{resource="b-com.com/accelerator"}`:             "1",
		`accelerator_allocations_total{resource="b-com.com/accelerator",result="served"}`:  "1",
		`accelerator_allocations_total{resource="b-com.com/accelerator",result="refused"}`: "1",
		`accelerator_allocated_devices_total{resource="b-com.com/accelerator"}`:            "2",
		`accelerator_hint_to_send_seconds_count`:                                           "1", // once per list
	}
	of := []string{"accelerator_lists", "accelerator_streams", "accelerator_reg", "accelerator_kub", "accelerator_all", "accelerator_hint_to_send_seconds_count"}
	compare.Values(t, "page", want, metricstest.Samples(metricstest.Page(t, m), of...))
	r.devices.set()
	r.awaitEvent("resource.retired", 1)
	if page := metricstest.Page(t, m); strings.Contains(page, resource) {
		t.Errorf("page after the retirement: found the resource, want no series of it:\n%s", page)
	}
}
