package main

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

// moved returns the lists of a device that moves from one resource to another; then the stream
// of the first resource ends.
func moved() *feed {
	f := &feed{}
	open := map[string]simkubelet.List{}
	for _, step := range []struct {
		resource string
		list     simkubelet.List
	}{
		{"x/a", list(1, 1, "01:00.0", "02:00.0")},
		{"x/a", list(2, 2, "02:00.0")},
		{"x/b", list(1, 3, "01:00.0")},
	} {
		open[step.resource] = step.list
		f.add(open)
	}
	delete(open, "x/a")
	f.add(open)
	return f
}

func TestSinceOfResource(t *testing.T) {
	f := moved()
	for _, tc := range []struct {
		name, resource string
		after          int
		want           []simkubelet.List
	}{
		{"all", "", 0, []simkubelet.List{list(1, 1, "01:00.0", "02:00.0"), list(2, 2, "02:00.0"), list(3, 3, "02:00.0", "01:00.0"), list(1, 3, "01:00.0")}},
		{"after the second", "", 2, []simkubelet.List{list(2, 2, "02:00.0"), list(3, 3, "02:00.0", "01:00.0"), list(1, 3, "01:00.0")}},
		{"one resource", "x/a", 0, []simkubelet.List{list(1, 1, "01:00.0", "02:00.0"), list(2, 2, "02:00.0")}},
		{"no list after", "x/a", 2, []simkubelet.List{list(2, 2, "02:00.0")}},
		{"the other", "x/b", 0, []simkubelet.List{list(1, 3, "01:00.0")}},
		{"none of this name", "y/", 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := f.since(at(tc.after), tc.resource)
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestResourceOf(t *testing.T) {
	newest := moved().newest()
	if got, err := newest.resourceOf("01:00.0"); got != "x/b" || err != nil {
		t.Errorf("got %q, %v; want x/b", got, err)
	}
	if got, err := newest.resourceOf("02:00.0"); err == nil {
		t.Errorf("device of a resource whose stream has ended: got %q, want an error", got)
	}
	if diff := cmp.Diff(lists{"x/b": list(1, 3, "01:00.0")}, maps.Clone(newest)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (&feed{}).newest().of(""); got.Number != 0 {
		t.Errorf("without any list: got %v, want an empty list", got)
	}
}
