package recorder_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/cordon"
	"b-com.com/accelerator-device-plugin/inventory"
)

// A message has all reasons of the device.
func TestCauses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		before  []string // reasons of the device, "degraded:" as device has it
		reasons []string
		want    string
	}{
		{"one", nil, []string{"port-ap6"}, "unhealthy (port-ap6)"},
		{"and one is over", nil, []string{"port-ap6", "recovering=unreadable"}, "unhealthy (port-ap6, recovering from unreadable)"},
		{"all are over", nil, []string{"recovering=port-ap6", "recovering=unreadable"}, "unhealthy (recovering from port-ap6, recovering from unreadable)"},
		{"flaps", nil, []string{"flapping", "recovering=port-ap6"}, "unhealthy (flapping, recovering from port-ap6)"},
		{"flaps, bad just now", nil, []string{"flapping", "port-ap6", "recovering=unreadable"}, "unhealthy (flapping, port-ap6, recovering from unreadable)"},
		{"flaps, and that is all", nil, []string{"flapping"}, "unhealthy (flapping)"},
		{"was degraded before", []string{"degraded:link-speed"}, []string{"degraded:link-speed", "recovering=port-ap6"},
			"unhealthy (link-speed, recovering from port-ap6)"},
		{"was degraded before, and has more", []string{"degraded:link-speed"}, []string{"port-ap6", "degraded:link-speed", "recovering=unreadable"},
			"unhealthy (port-ap6, link-speed, recovering from unreadable)"},
		{"degraded", nil, []string{"degraded:link-speed", "degraded:recovering=link-width"}, "degraded (link-speed, recovering from link-width)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				r.shows(device("3b:00.0", tc.before...))
				d := device("3b:00.0", tc.reasons...)
				if !strings.HasPrefix(tc.want, "degraded") {
					d.Health = inventory.Unhealthy
				}
				r.shows(d)
				events := r.Events()
				if m := events[len(events)-1].Message; !strings.Contains(m, " is "+tc.want+" since ") {
					t.Errorf("message %q, want it to say %q", m, tc.want)
				}
			})
		})
	}
}

// Who holds a device was given it: it is given to no other container, then.
func TestGivenToNoOther(t *testing.T) {
	for _, tc := range []struct {
		name   string
		held   []string // by these; nil: free
		asking error
		want   string
	}{
		{"held", []string{"work/job/main"}, nil, "It is given to no other container. The pod work/job holds it and keeps running."},
		{"free", nil, nil, "It is given to no container. No container holds it."},
		{"nobody can say", nil, errNobodyHome, "It is given to no other container. Who holds it is not known."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(r *rig) { r.asking = tc.asking })
				if tc.held != nil {
					r.SetPod("work", "job", "uid-1")
					r.hold("3b:00.0", tc.held...)
				}
				r.shows(device("3b:00.0", "port-ap6"))
				if m := r.Events()[0].Message; !strings.HasSuffix(m, tc.want) {
					t.Errorf("message %q, want it to end with %q", m, tc.want)
				}
			})
		})
	}
}

// The message has the administrator and the reason of the cordon, unless it has ended meanwhile.
func TestCordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		since := time.Date(2000, 1, 1, 0, 0, 0, 0, time.Local)
		r.cordons = []cordon.Cordon{{Device: "3b:00.0", By: "alice", Why: "{holders} fan", Since: since, Until: since.Add(time.Hour)}}
		r.shows(device("3b:00.0"), device("5e:00.0"))
		r.shows(device("3b:00.0", "cordoned"), device("5e:00.0", "cordoned"))
		want := []string{
			"FPGA device 3b:00.0 (b-com.com/accelerator) is out of service since 2000-01-01T00:00:30Z: 3b:00.0 cordoned by alice" +
				" since 2000-01-01 00:00 until 01:00: {holders} fan. It is given to no container. No container holds it.",
			"FPGA device 5e:00.0 (b-com.com/accelerator) is out of service since 2000-01-01T00:00:30Z." +
				" It is given to no container. No container holds it.",
		}
		var got []string
		for _, e := range r.Events() {
			got = append(got, e.Message)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
}

// A device counts as in use for a minute after it was given out, unless the kubelet has named a
// container: the Event claims no more than that.
func TestGivenOutAndNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.hold("3b:00.0")
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0", "removed-in-use"))
		want := ", and perhaps in use. It is given to no other container. It was given out less than a minute ago," +
			" and the kubelet has not named a container that has it."
		if m := r.Events()[0].Message; !strings.HasSuffix(m, want) {
			t.Errorf("message %q, want it to end with %q", m, want)
		}
	})
}

// When another device is in the place of a released one, the message has its health.
func TestReleasedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.shows(device("3b:00.0", "removed-in-use"))
		r.shows(device("3b:00.0", "replaced-in-use"))
		r.shows(device("3b:00.0", "port-ap6"))
		want := "The device that was in the place of FPGA device 3b:00.0 (b-com.com/accelerator) is held no longer." +
			" What is there now is unhealthy (port-ap6) since 2000-01-01T00:01:00Z."
		for _, e := range r.Events() {
			if e.Reason == "DeviceReleased" && e.Message == want {
				return
			}
		}
		t.Errorf("events %v, want one with %q", r.Events(), want)
	})
}
