package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
)

// overlapAtMost is how long a device that moves may be healthy on two lists: the kubelet
// reads each from a stream of its own, and may be slower with the one that is older. On
// an idle machine it never is.
const overlapAtMost = 500 * time.Millisecond

// soundLists returns a function that fails the test if the lists that a kubelet has at one moment
// cannot be right.
func soundLists(t testing.TB) func(map[string]simkubelet.List) {
	since := map[string]time.Time{} // by id of devices that are healthy on two lists
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
				t.Logf("%s was healthy on two lists for %s", id, lasted)
				delete(since, id)
			}
		}
	}
}

// offers are the lists of all resources, short.
type offers map[string]health

// awaitOffers waits until these are the newest lists of all resources whose streams
// are open.
func (d *daemon) awaitOffers(when string, want offers) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	var got offers
	_, err := d.kubelet.AwaitLists(ctx, func(lists map[string]simkubelet.List) bool {
		got = offers{}
		for resource, list := range lists {
			got[resource] = told(list)
		}
		return maps.EqualFunc(got, want, maps.Equal)
	})
	if err != nil {
		d.t.Fatalf("%s: %v; lists (-want +got):\n%s", when, err, cmp.Diff(want, got))
	}
}
