package kubeevents_test

import (
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// A message contains all of the device's reasons.
func TestCauses(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0", "degraded:link-speed", "degraded:recovering=link-width", "degraded:recovering=unreadable"))
		want := " has been degraded (link-speed, recovering from link-width, recovering from unreadable) since "
		compare.Contains(r.t, "message", want, r.Events()[0].Message)
	})
}

// The message contains the administrator and the cordon's reason, unless the cordon has ended since.
func TestCordoned(t *testing.T) {
	story(t, func(r *rig) {
		since := time.Date(2000, 1, 1, 0, 0, 0, 0, time.Local)
		r.cordons = []cordon.Cordon{{Device: "3b:00.0", By: "alice", Why: "{holders} fan", Since: since, Until: since.Add(time.Hour)}}
		r.shows(device("3b:00.0"), device("5e:00.0"))
		r.shows(device("3b:00.0", "cordoned"), device("5e:00.0", "cordoned"))
		want := []string{
			"FPGA device 3b:00.0 (b-com.com/accelerator) has been out of service since 2000-01-01T00:00:30Z: 3b:00.0 cordoned by alice" +
				" since 2000-01-01 00:00 until 01:00: {holders} fan. It is not allocated to any container. No container uses it.",
			"FPGA device 5e:00.0 (b-com.com/accelerator) has been out of service since 2000-01-01T00:00:30Z." +
				" It is not allocated to any container. No container uses it.",
		}
		compare.Values(r.t, "messages", want, r.each(func(e simapiserver.Event) string { return e.Message }))
	})
}

// For a minute after its allocation, a device counts as in use even if the kubelet hasn't reported a container. The
// message says that this isn't certain.
func TestAllocatedAndNotReported(t *testing.T) {
	story(t, func(r *rig) {
		r.hold("3b:00.0")
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0", "removed-in-use"))
		want := ", and may still be in use. It is not allocated to any other container. It was allocated less than a minute ago," +
			" and the kubelet has not reported its container yet."
		if m := r.Events()[0].Message; !strings.HasSuffix(m, want) {
			r.t.Errorf("message %q, want it to end with %q", m, want)
		}
	})
}

// If a released device has been replaced by another one, the message contains the new device's health.
func TestReleasedInPlace(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0", "removed-in-use"))
		r.shows(device("3b:00.0", "replaced-in-use"))
		r.shows(device("3b:00.0", "port-ap6"))
		want := "The previous FPGA device 3b:00.0 (b-com.com/accelerator) is no longer in use." +
			" The device in its place has been unhealthy (port-ap6) since 2000-01-01T00:01:00Z."
		for _, e := range r.Events() {
			if e.Reason == "DeviceReleased" && e.Message == want {
				return
			}
		}
		r.t.Errorf("events %v, want one with %q", r.Events(), want)
	})
}
