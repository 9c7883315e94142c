package kubeevents_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// While the API server is down, an Event waits for 5 minutes from its last repetition, not from an
// earlier one.
func TestFlapsWhileServerDown(t *testing.T) {
	story(t, func(r *rig) {
		r.SetPod("work", "job", "uid-1")
		r.hold("3b:00.0", "work/job/main")
		r.shows(device("3b:00.0"))
		r.UseFault(refuse("", 503, "away"))
		for range 29 { // unhealthy for 30 s, healthy for 30 s; unhealthy at the end
			r.shows(device("3b:00.0", "port-ap6"))
			r.shows(device("3b:00.0"))
		}
		r.shows(device("3b:00.0", "afu-dead"))
		after(4 * time.Minute)
		r.UseFault(nil)
		after(time.Minute)
		found := map[string]string{}
		for _, e := range r.Events() {
			found[e.InvolvedObject.Kind+" "+e.Reason] = fmt.Sprintf("x%d %s", e.Count, e.Message)
		}
		for _, kind := range []string{"Node", "Pod"} {
			if e := found[kind+" DeviceUnhealthy"]; !strings.HasPrefix(e, "x30 ") || !strings.Contains(e, "unhealthy (afu-dead)") {
				r.t.Errorf("event on the %s: found %q, want one with the newest reason and a count of 30; all: %v", kind, e, found)
			}
		}
	})
}

// An API server that was down for an hour gets the Events of the last five minutes.
func TestServerDownForAnHour(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0"), device("3c:00.0"))
		r.UseFault(refuse("", 503, "away"))
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0"))
		after(58 * time.Minute)
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0", "port-ap6"))
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0"))
		r.UseFault(nil)
		after(time.Minute)
		var got []string
		for _, e := range r.Events() {
			got = append(got, short(e)) // in the order of the last attempts
		}
		slices.Sort(got)
		want := []string{onNode + "Normal DeviceRecovered x1", onNode + "Warning DeviceUnhealthy x1"}
		compare.Values(r.t, "events", want, got)
		r.counted(map[string]int{kubeevents.Sent: 2, kubeevents.Failed: 1})
		r.logged("api.lost", "api.recovered")
		r.shows(device("3b:00.0"), device("3c:00.0"))
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0"))
		if e := r.Events(); len(e) != 4 || e[3].Count != 2 {
			r.t.Errorf("events: found %v, want the count of the Event that was given up in the fourth", e)
		}
	})
}
