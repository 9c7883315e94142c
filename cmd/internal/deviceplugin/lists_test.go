package deviceplugin_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// overlapAtMost is the longest time for which a device that moves may be healthy in two lists. The kubelet reads
// each list from its own stream, and may be late with the older one on a busy machine.
const overlapAtMost = 10 * time.Second

// soundLists returns a function that fails the test if the lists of a kubelet at one time contradict each other.
func soundLists(t testing.TB) func(map[string]simkubelet.List) {
	since := map[string]time.Time{} // by id, for devices that are healthy in two lists
	return func(lists map[string]simkubelet.List) {
		healthyOn := map[string]int{} // lists, by id
		for resource, list := range lists {
			if !slices.IsSortedFunc(list.Devices, func(a, b simkubelet.Device) int { return strings.Compare(a.ID, b.ID) }) {
				t.Errorf("list of %s is not sorted: %v", resource, list.Devices)
			}
			seen := map[string]bool{}
			for _, d := range list.Devices {
				if seen[d.ID] {
					t.Errorf("%s is on the list of %s twice", d.ID, resource)
				}
				seen[d.ID] = true
				if d.Healthy {
					healthyOn[d.ID]++
				}
			}
		}
		for id, n := range healthyOn {
			if _, known := since[id]; n > 1 && !known {
				since[id] = time.Now()
			}
		}
		for id, at := range since {
			lasted := time.Since(at)
			if lasted > overlapAtMost {
				t.Errorf("%s was healthy on two lists for %s, want at most %s", id, lasted, overlapAtMost)
			}
			if healthyOn[id] < 2 {
				delete(since, id)
			}
		}
	}
}

// resourceLists contains the lists of all resources, in a short form.
type resourceLists map[string]health

// awaitLists blocks until these are the newest lists of all resources with an open stream.
func (d *testDaemon) awaitLists(when string, want resourceLists) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patient.Limit)
	defer cancel()
	var got resourceLists
	_, err := d.kubelet.AwaitLists(ctx, func(lists map[string]simkubelet.List) bool {
		got = resourceLists{}
		for resource, list := range lists {
			got[resource] = told(list)
		}
		return maps.EqualFunc(got, want, maps.Equal)
	})
	if err != nil {
		d.t.Fatalf("%s: %v; lists (-want +got):\n%s", when, err, cmp.Diff(want, got))
	}
}
