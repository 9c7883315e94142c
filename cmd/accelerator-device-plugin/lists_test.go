package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/server/standin"
)

// soundLists returns what fails the test when the lists that a kubelet has at one
// moment cannot be right.
func soundLists(t testing.TB) func(map[string]standin.List) {
	return func(lists map[string]standin.List) {
		healthyOn := map[string]string{} // resource by id
		for resource, list := range lists {
			if !slices.IsSortedFunc(list.Devices, func(a, b standin.Device) int { return strings.Compare(a.ID, b.ID) }) {
				t.Errorf("list of %s is not sorted: %v", resource, list.Devices)
			}
			seen := map[string]bool{}
			for _, d := range list.Devices {
				if seen[d.ID] {
					t.Errorf("%s is on the list of %s twice", d.ID, resource)
				}
				seen[d.ID] = true
				if other := healthyOn[d.ID]; d.Healthy && other != "" {
					t.Errorf("%s is healthy on the lists of %s and %s at once", d.ID, resource, other)
				}
				if d.Healthy {
					healthyOn[d.ID] = resource
				}
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
	_, err := d.kubelet.AwaitLists(ctx, func(lists map[string]standin.List) bool {
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
