package offer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/offer"
)

const resource = "b-com.com/accelerator"

func port(id string) *inventory.Device {
	return &inventory.Device{ID: id, Family: "dfl", NUMANode: 1, Nodes: []string{"dfl-port.0"}}
}

func unit(id string) *inventory.Device {
	return &inventory.Device{ID: id, Family: "pool", NUMANode: -1}
}

func TestResources(t *testing.T) {
	sick := port("3b:00.0-p1")
	sick.Health, sick.Reasons = inventory.Unhealthy, []string{"afu-dead"}
	sick.ParentNodes = []string{"dfl-fme.0"}
	for _, tc := range []struct {
		name    string
		mode    string
		devices []*inventory.Device
		want    []offer.Resource
	}{
		{name: "nothing", mode: offer.Single},
		{name: "ports", mode: offer.Single, devices: []*inventory.Device{port("3b:00.0"), sick}, want: []offer.Resource{{
			Name: resource,
			Units: []offer.Unit{
				{ID: "3b:00.0", NUMANode: 1, Nodes: []string{"dfl-port.0"}},
				{ID: "3b:00.0-p1", Health: inventory.Unhealthy, Reasons: []string{"afu-dead"}, NUMANode: 1, Nodes: []string{"dfl-port.0"}},
			},
		}}},
		{name: "no units of the pool among ports", mode: offer.Single, devices: []*inventory.Device{unit("0")}},
		{name: "no ports in the pool", mode: offer.Pool, devices: []*inventory.Device{unit("0"), unit("1"), port("3b:00.0")}, want: []offer.Resource{{
			Name:  resource,
			Units: []offer.Unit{{ID: "0", NUMANode: -1}, {ID: "1", NUMANode: -1}},
		}}},
		{name: "a mode that there is not", mode: "af", devices: []*inventory.Device{port("3b:00.0")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := offer.Policy{Mode: tc.mode, ResourceName: resource}
			if diff := cmp.Diff(tc.want, policy.Resources(tc.devices)); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnitEqual(t *testing.T) {
	whole := offer.Unit{ID: "a", Health: inventory.Degraded, Reasons: []string{"r"}, NUMANode: 1, Nodes: []string{"n"}}
	for _, tc := range []struct {
		name string
		edit func(*offer.Unit)
		want bool
	}{
		{"same", func(*offer.Unit) {}, true},
		{"id", func(u *offer.Unit) { u.ID = "b" }, false},
		{"health", func(u *offer.Unit) { u.Health = inventory.Unhealthy }, false},
		{"reasons", func(u *offer.Unit) { u.Reasons = nil }, false},
		{"numa node", func(u *offer.Unit) { u.NUMANode = -1 }, false},
		{"nodes", func(u *offer.Unit) { u.Nodes = []string{"m"} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			other := whole
			tc.edit(&other)
			if got := whole.Equal(other); got != tc.want {
				t.Errorf("equal: got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy offer.Policy
		want   string // part of the error; "" = none
	}{
		{"single", offer.Policy{Mode: offer.Single, ResourceName: resource}, ""},
		{"pool", offer.Policy{Mode: offer.Pool, ResourceName: "a/B_c.d-1"}, ""},
		{"mode", offer.Policy{Mode: "double", ResourceName: resource}, `mode "double" is not one of single, pool`},
		{"no domain", offer.Policy{Mode: offer.Single, ResourceName: "accelerator"}, "DOMAIN/NAME"},
		{"empty", offer.Policy{Mode: offer.Single}, "DOMAIN/NAME"},
		{"empty domain", offer.Policy{Mode: offer.Single, ResourceName: "/a"}, "before the slash"},
		{"capitals", offer.Policy{Mode: offer.Single, ResourceName: "B.com/a"}, "before the slash"},
		{"long domain", offer.Policy{Mode: offer.Single, ResourceName: strings.Repeat("a", 245) + "/a"}, "at most 244"},
		{"longest domain", offer.Policy{Mode: offer.Single, ResourceName: strings.Repeat("a", 244) + "/a"}, ""},
		{"native", offer.Policy{Mode: offer.Single, ResourceName: "node.kubernetes.io/a"}, "reserved"},
		{"quota", offer.Policy{Mode: offer.Single, ResourceName: "requests.b/a"}, "reserved"},
		{"empty name", offer.Policy{Mode: offer.Single, ResourceName: "b.com/"}, "after the slash"},
		{"two slashes", offer.Policy{Mode: offer.Single, ResourceName: "b.com/a/b"}, "after the slash"},
		{"long name", offer.Policy{Mode: offer.Single, ResourceName: "b.com/" + strings.Repeat("a", 64)}, "1 to 63"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.policy.Validate()
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func FuzzValidateName(f *testing.F) {
	for _, s := range []string{resource, "", "/", "a/", "kubernetes.io/a", "requests.a/b", "a/b/c", "a.-b/c", "é/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := offer.ValidateName(s)
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
		if err == nil && (strings.Count(s, "/") != 1 || len(s) > 253+64) {
			t.Errorf("accepted %q", s)
		}
	})
}
