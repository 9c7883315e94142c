package kubeevents_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// Changes within a second get the time of the first one.
func TestTimesWithinSettle(t *testing.T) {
	type list = []*inventory.Device
	other, broken := device("5e:00.0"), device("5e:00.0", "port-ap6")
	for _, tc := range []struct {
		name                 string
		before, first, later list // from the start, at 00:00:30.5, at 00:00:31.2
		want                 string
	}{
		{"fails later", list{device("3b:00.0"), other}, list{device("3b:00.0"), broken}, list{device("3b:00.0", "port-ap6"), broken},
			"has been unhealthy (port-ap6) since 2000-01-01T00:00:30Z"},
		{"fails first", list{device("3b:00.0"), other}, list{device("3b:00.0", "port-ap6"), other}, list{device("3b:00.0", "port-ap6"), broken},
			"has been unhealthy (port-ap6) since 2000-01-01T00:00:30Z"},
		{"fails, then is worse", list{device("3b:00.0")}, list{device("3b:00.0", "port-ap6")}, list{device("3b:00.0", "afu-dead", "port-ap6")},
			"has been unhealthy (afu-dead, port-ap6) since 2000-01-01T00:00:30Z"},
		{"degraded, then unhealthy", list{device("3b:00.0")}, list{device("3b:00.0", "degraded:link-speed")}, list{device("3b:00.0", "port-ap6")},
			"has been unhealthy (port-ap6) since 2000-01-01T00:00:30Z"},
		{"healthy for a moment", list{device("3b:00.0", "port-ap6")}, list{device("3b:00.0")}, list{device("3b:00.0", "afu-dead", "port-ap6")},
			"has been unhealthy (afu-dead, port-ap6) since before 2000-01-01T00:00:00Z"},
		{"recovers later", list{device("3b:00.0", "port-ap6"), other}, list{device("3b:00.0", "port-ap6"), broken}, list{device("3b:00.0"), broken},
			"recovered at 2000-01-01T00:00:30Z"},
		{"plugged in, bound later", list{}, list{device("3b:00.0", "driver-unbound")}, list{device("3b:00.0")},
			"was added at 2000-01-01T00:00:30Z: healthy."},
		{"pulled later", list{device("3b:00.0"), other}, list{device("3b:00.0"), broken}, list{broken},
			"was removed from the node at 2000-01-01T00:00:30Z"},
		{"pulled, not listed later", list{device("3b:00.0")}, list{device("3b:00.0", "removed")}, list{},
			"was removed from the node at 2000-01-01T00:00:30Z"},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.shows(tc.before...)
			after(500 * time.Millisecond)
			r.publish(true, tc.first...)
			after(700 * time.Millisecond)
			r.publish(true, tc.later...)
			after(30 * time.Second)
			if !slices.ContainsFunc(r.Events(), func(e simapiserver.Event) bool {
				return strings.Contains(e.Message, "3b:00.0 (b-com.com/accelerator) "+tc.want)
			}) {
				r.t.Errorf("events %v, want one with %q", r.Events(), tc.want)
			}
		})
	}
}
