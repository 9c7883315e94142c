package claims_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/metricstest"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestPrepare(t *testing.T) {
	fme := port("3b:00.0", 0)
	fme.Nodes = append(fme.Nodes, "dfl-fme.0")
	recovering := sick(port("af:00.0", 3), "recovering=node-missing")
	r := newRig(t, fme, port("3b:00.0-p1", 1), port("0001:5e:00.0", 2), recovering)
	other := result("gpu", "5e:00.0")
	other.Driver, other.Pool = "gpu.example.com", "elsewhere"
	tolerant := result("b", "af:00.0")
	tolerant.Tolerations = []resourceapi.DeviceToleration{
		{Key: "other"}, {Key: "accelerator.b-com.com/unhealthy", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}
	one := claimOf("one", result("a/big", "3b:00.0-p1"), other, result("a/big", "3b:00.0"), tolerant)
	two := claimOf("two", result("a", "0001:5e:00.0"))
	watch := claimOf("watch", admin(result("all", "3b:00.0")), admin(result("all", "af:00.0")))
	r.prepare(one)
	if !r.added() {
		t.Error("Added after Prepare: found no element, want one")
	}
	r.prepare(two, watch)
	if got := r.Prepare(t.Context(), claimOf("none", other)); got.Err != nil || len(got.Devices) > 0 { // leaves no trace
		t.Errorf("claim of another driver: found %+v, want nothing", got)
	}
	golden.Compare(t, "testdata/claims.json", r.file())
	golden.Compare(t, "testdata/spec.json", r.specText())
	r.holds("0001:5e:00.0 dfl-port.2 240:2", "3b:00.0 dfl-port.0 dfl-fme.0 240:0", "3b:00.0-p1 dfl-port.1 240:1", "af:00.0 dfl-port.3 240:3")
	if info, err := os.Stat(filepath.Join(r.dir, "claims.json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode: found %v, %v, want 0600", info.Mode(), err)
	}
	compare.Values(t, "log", []string{
		"claim.prepared default/one [3b:00.0-p1 3b:00.0 af:00.0]", "claim.prepared default/two [0001:5e:00.0]",
		"claim.prepared default/watch [3b:00.0 af:00.0] admin access",
	}, r.lines())

	r.added()
	r.unprepare(one)
	if !r.added() {
		t.Error("Added after Unprepare: found no element, want one")
	}
	r.holds("0001:5e:00.0 dfl-port.2 240:2")
	r.unprepare(one) // unknown now
	r.unprepare(claimOf("never"))
	r.unprepare(watch, two)
	r.holds()
	compare.Equal(t, "files without claims", "", r.file()+r.specText())
	compare.Values(t, "log", []string{
		"claim.unprepared default/one [3b:00.0-p1 3b:00.0 af:00.0]",
		"claim.unprepared default/watch [3b:00.0 af:00.0]", "claim.unprepared default/two [0001:5e:00.0]",
	}, r.lines())
	r.refuseNow(claimOf("three", result("a", "d8:00.0")), "has left the node")
	want := map[string]string{
		`accelerator_allocations_total{resource="accelerator.b-com.com",result="served"}`:  "3",
		`accelerator_allocations_total{resource="accelerator.b-com.com",result="refused"}`: "1",
		`accelerator_allocated_devices_total{resource="accelerator.b-com.com"}`:            "6",
	}
	compare.Values(t, "metrics", want, metricstest.Samples(metricstest.Page(t, r.metrics), "accelerator_alloc"))
}

// The CDI devices of a claim contain the nodes that several devices share. The record contains only their own nodes. A
// device whose nodes are withheld has no CDI device. The CDI device of a device without nodes contains the files of the
// host.
func TestSharedNodes(t *testing.T) {
	group := func(id string, n int) *inventory.Device {
		d := port(id, n)
		d.Nodes, d.SharedNodes = []string{fmt.Sprint("vfio/", n)}, []string{"vfio/vfio"}
		return d
	}
	r := newRig(t, group("3b:00.1", 1), group("3b:00.2", 2), port("5e:00.0", 3))
	one, two := claimOf("one", result("a", "3b:00.1"), result("a", "3b:00.2")), claimOf("two", result("a", "5e:00.0"))
	r.prepare(one)
	own, shared := devicesOf(one, "vfio/1", "vfio/2"), devicesOf(one, "vfio/vfio", "vfio/vfio")
	r.injects(own[0], own[1], shared[0], shared[1])
	r.holds("3b:00.1 vfio/1 240:1", "3b:00.2 vfio/2 240:2")
	r.set(group("3b:00.1", 1), sick(group("3b:00.2", 2), "node-in-use"), port("5e:00.0", 3))
	r.prepare(two)
	r.injects(own[0], shared[0], devicesOf(two, "dfl-port.3")[0])

	mounted := with(port("af:00.0", 1))
	mounted.Mounts = []string{"devices/pci0000:00/0000:af:00.0/resource0"}
	r.set(mounted)
	three := claimOf("three", result("a", "af:00.0"))
	r.prepare(three)
	r.injects(devicesOf(three, "/sys/devices/pci0000:00/0000:af:00.0/resource0")...)
	r.holds("3b:00.1 vfio/1 240:1", "3b:00.2 vfio/2 240:2", "5e:00.0 dfl-port.3 240:3", "af:00.0")
}

// A second Prepare returns the same answer, whatever the devices are like now. It makes the CDI devices again, because
// a reboot removes them. If a claim is created again under the same name, it is another claim.
func TestIdempotent(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	c := claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0"))
	r.prepare(c)
	file, spec := r.file(), r.specText()
	r.prepare(c)
	must.Succeed(t, os.RemoveAll(r.cdi))
	r.set(sick(port("3b:00.0", 0), "pr-error"), port("5e:00.0", 1))
	r.open()
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, wantAFU(strings.Repeat("0", 32)))
	r.prepare(c)
	if diff := cmp.Diff(file, r.file()) + cmp.Diff(spec, r.specText()); diff != "" {
		t.Errorf("files after the second Prepare (-want +got):\n%s", diff)
	}

	r.set(port("3b:00.0", 0), port("5e:00.0", 1))
	again := claimOf("one", result("a", "3b:00.0"))
	again.UID = "uid-again"
	r.refuseNow(again, "device pci-0000-3b-00-0 (3b:00.0) of request a: is prepared for claim default/one (uid uid-one)")
	r.unprepare(c)
	r.prepare(again)
	r.injects("uid-again-a-pci-0000-3b-00-0 dfl-port.0")
	r.unprepare(c) // of the old uid
	r.holds("3b:00.0 dfl-port.0 240:0")

	// The claim was deallocated and allocated again without Unprepare: the old device may be in use.
	moved := claimOf("one", result("a", "5e:00.0"))
	moved.UID = again.UID
	r.refuseNow(moved, "is still prepared with other devices (3b:00.0): delete its pods first")
	r.unprepare(moved)
	r.prepare(moved)
	r.holds("5e:00.0 dfl-port.1 240:1")
}

func TestRefuses(t *testing.T) {
	with := func(change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
		c := claimOf("one", result("a", "3b:00.0"))
		change(c)
		return c
	}
	first := func(change func(*resourceapi.DeviceRequestAllocationResult)) *resourceapi.ResourceClaim {
		return with(func(c *resourceapi.ResourceClaim) { change(&c.Status.Allocation.Devices.Results[0]) })
	}
	config := func(all ...resourceapi.DeviceAllocationConfiguration) *resourceapi.ResourceClaim {
		return with(func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Config = all })
	}
	for _, tc := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
		want  string
	}{
		{"not allocated", with(func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }), "allocation: found none, want the devices of the claim"},
		{"another node", first(func(r *resourceapi.DeviceRequestAllocationResult) { r.Pool = "node2" }),
			`device pci-0000-3b-00-0: pool: found "node2", want that of this node, "node1"`},
		{"no name of ours", first(func(r *resourceapi.DeviceRequestAllocationResult) { r.Device = "gpu-0" }),
			`devices[0].device: found "gpu-0", want the name of a device, such as pci-0000-3b-00-0`},
		{"bad request", first(func(r *resourceapi.DeviceRequestAllocationResult) { r.Request = "a/b/c" }), `devices[0].request: found "a/b/c"`},
		{"empty subrequest", first(func(r *resourceapi.DeviceRequestAllocationResult) { r.Request = "a/" }), `devices[0].request: found "a/"`},
		{"no uid", with(func(c *resourceapi.ResourceClaim) { c.UID = "" }), `uid: found "", want a UUID`},
		{"uid with a path", with(func(c *resourceapi.ResourceClaim) { c.UID = "../x" }), `uid: found "../x", want a UUID`},
		{"a device twice", claimOf("one", result("a", "3b:00.0"), result("b", "3b:00.0")), "device pci-0000-3b-00-0: found it twice"},
		{"a device twice for a request", claimOf("one", admin(result("a", "3b:00.0")), admin(result("a", "3b:00.0"))),
			"devices[1]: found pci-0000-3b-00-0 a second time in request a"},
		{"bad configuration", config(opaque(`{}`)), `allocation.devices.config[0].opaque.parameters: apiVersion: found "", want`},
		{"bad configuration of another request", config(wantAFU(afu), opaque(`{"`, "b")), `allocation.devices.config[1].opaque.parameters: found unexpected end`},
		{"unknown source", config(func() resourceapi.DeviceAllocationConfiguration {
			c := wantAFU(afu)
			c.Source = "FromSky"
			return c
		}()), `allocation.devices.config[0].source: found "FromSky", want FromClass or FromClaim`},
		{"another AFU", config(wantAFU(strings.Repeat("0", 32))),
			"device pci-0000-3b-00-0 (3b:00.0) of request a: has AFU " + afu + ", but the claim requests " + strings.Repeat("0", 32) + ": programming is off on this node (--programming-hook)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
			r.refuseNow(tc.claim, tc.want)
			if r.file() != "" || r.specText() != "" || r.added() {
				t.Errorf("found files %s %s, want none", r.file(), r.specText())
			}
			if lines := r.lines(); len(lines) != 1 || !strings.HasPrefix(lines[0], "claim.refused default/one ") || !strings.Contains(lines[0], tc.want) {
				t.Errorf("log: found %q, want the refusal", lines)
			}
		})
	}
}

// Settings of the claim take precedence over settings of its classes, and later settings over earlier ones.
func TestPrecedence(t *testing.T) {
	wrong := strings.Repeat("0", 32)
	class := func(c resourceapi.DeviceAllocationConfiguration) resourceapi.DeviceAllocationConfiguration {
		c.Source = resourceapi.AllocationConfigSourceClass
		return c
	}
	foreign := opaque(`{"vendor":1}`)
	foreign.Opaque.Driver = "gpu.example.com"
	for _, tc := range []struct {
		name   string
		config []resourceapi.DeviceAllocationConfiguration
		served bool
	}{
		{"none", nil, true},
		{"of another driver, and without parameters", []resourceapi.DeviceAllocationConfiguration{foreign, {}}, true},
		{"all requests", []resourceapi.DeviceAllocationConfiguration{wantAFU(wrong)}, false},
		{"of the request", []resourceapi.DeviceAllocationConfiguration{wantAFU(wrong, "x", "a")}, false},
		{"of the subrequest", []resourceapi.DeviceAllocationConfiguration{wantAFU(wrong, "a/b")}, false},
		{"of another subrequest", []resourceapi.DeviceAllocationConfiguration{wantAFU(wrong, "a/c", "b")}, true},
		{"capitals and dashes", []resourceapi.DeviceAllocationConfiguration{wantAFU("D8424DC4-A4A3-C413-F89E-433683F9040B")}, true},
		{"the later one", []resourceapi.DeviceAllocationConfiguration{wantAFU(wrong), wantAFU(afu)}, true},
		{"the later one is for another request", []resourceapi.DeviceAllocationConfiguration{wantAFU(wrong), wantAFU(afu, "b")}, false},
		{"the claim, after its class", []resourceapi.DeviceAllocationConfiguration{class(wantAFU(wrong)), wantAFU(afu)}, true},
		{"the claim, before its class", []resourceapi.DeviceAllocationConfiguration{wantAFU(afu), class(wantAFU(wrong))}, true},
		{"the class alone", []resourceapi.DeviceAllocationConfiguration{class(wantAFU(afu)), class(wantAFU(wrong))}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, port("3b:00.0", 0))
			c := claimOf("one", result("a/b", "3b:00.0"))
			c.Status.Allocation.Devices.Config = tc.config
			if tc.served {
				r.prepare(c)
			} else {
				r.refuseNow(c, "has AFU "+afu+", but the claim requests "+wrong)
			}
		})
	}
	r := newRig(t, func() *inventory.Device { d := port("3b:00.0", 0); d.AFUID = ""; return d }())
	c := claimOf("one", result("a", "3b:00.0"))
	c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{wantAFU(afu)}
	r.refuseNow(c, "has AFU none, but the claim requests "+afu)
}

// A device is given to one claim, and to any number of claims with admin access.
func TestOneOwner(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"), result("b", "3b:00.0"))
	watch := claimOf("watch", admin(result("a", "3b:00.0")), result("b", "5e:00.0"))
	watch2 := claimOf("watch2", admin(result("a", "3b:00.0")), admin(result("b", "3b:00.0")))
	r.prepare(watch, one, watch2)
	r.refuseNow(two, "device pci-0000-5e-00-0 (5e:00.0) of request a: is prepared for claim default/watch (uid uid-watch)")
	r.holds("3b:00.0 dfl-port.0 240:0", "5e:00.0 dfl-port.1 240:1")
	r.unprepare(watch)
	r.holds("3b:00.0 dfl-port.0 240:0")
	r.refuseNow(two, "is prepared for claim default/one (uid uid-one)")
	r.unprepare(one)
	r.holds()
	r.prepare(two)
	r.injects(append(devicesOf(two, "dfl-port.1", "dfl-port.0"), devicesOf(watch2, "dfl-port.0", "dfl-port.0")...)...)
}

// If a device has left, its claim is refused and recorded: the device stays listed with a taint until the pod is gone.
// If the device returns in the meantime, the claim gets it.
func TestGone(t *testing.T) {
	unoffered := port("5e:00.0", 1)
	unoffered.OfferedAs = ""
	for _, tc := range []struct {
		name string
		now  []*inventory.Device // besides 3b:00.0
		want string
	}{
		{"missing", nil, "device pci-0000-5e-00-0 (5e:00.0) of request b: has left the node"},
		{"held by another claim before", []*inventory.Device{tombstone("5e:00.0", "removed-in-use")}, "has left the node"},
		{"holders not known", []*inventory.Device{tombstone("5e:00.0", "removed")}, "has left the node"},
		{"settings changed", []*inventory.Device{unoffered}, "is no longer advertised, because the settings of this node have changed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, append(tc.now, port("3b:00.0", 0))...)
			c := claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0"), admin(result("c", "5e:00.0")))
			r.refuseNow(c, tc.want)
			if !r.added() {
				t.Error("Added: found no element, want one: the inventory must list the device")
			}
			r.holds("5e:00.0")
			r.injects()
			r.refuseNow(c, tc.want)
			if r.added() {
				t.Error("Added after the second Prepare: found an element, want none: nothing has changed")
			}
			other := claimOf("two", result("a", "3b:00.0"))
			r.prepare(other) // 3b:00.0 was not given
			r.unprepare(other)

			// The inventory lists it now.
			r.set(port("3b:00.0", 0), tombstone("5e:00.0", "removed-in-use"))
			r.refuseNow(c, "has left the node")
			r.set(port("3b:00.0", 0), port("5e:00.0", 7))
			r.prepare(c)
			r.holds("3b:00.0 dfl-port.0 240:0", "5e:00.0 dfl-port.7 240:7")
			r.unprepare(c)
			r.holds()
		})
	}
}

// The records of waiting claims do not count as owners, and Unprepare removes them.
func TestWaitingClaims(t *testing.T) {
	r := newRig(t)
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "3b:00.0"))
	r.refuseNow(one, "has left the node")
	r.refuseNow(two, "has left the node")
	r.refuseNow(claimOf("watch", admin(result("a", "3b:00.0"))), "has left the node")
	r.holds("3b:00.0")
	compare.Equal(t, "records", 2, strings.Count(r.file(), `"uid"`))
	r.set(port("3b:00.0", 0))
	r.prepare(two)
	r.refuseNow(one, "is prepared for claim default/two")
	r.holds("3b:00.0 dfl-port.0 240:0")
	r.lines()
	r.unprepare(one)
	compare.Empty(t, "log of a claim that had no devices", r.lines())
	r.holds("3b:00.0 dfl-port.0 240:0")
	r.unprepare(two)
	r.holds()
}

// A prepared claim whose device has left is refused at once when the kubelet asks again.
func TestPreparedAndGone(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0))
	c := claimOf("one", result("a", "3b:00.0"))
	r.prepare(c)
	file := r.file()
	for _, now := range [][]*inventory.Device{{tombstone("3b:00.0", "removed-in-use")}, nil} {
		r.set(now...)
		r.refuseNow(c, "has left the node")
		r.injects()
		compare.Values(t, "record", file, r.file())
	}
	r.set(port("3b:00.0", 4))
	r.prepare(c)
	r.injects(devicesOf(c, "dfl-port.4")...)
}

// A claim that was unprepared and prepared again can be distinguished from one that was prepared all the time.
func TestPreparation(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0))
	c := claimOf("one", result("a", "3b:00.0"))
	preparation := func() int {
		t.Helper()
		all, err := r.Prepared(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("found %v, %v, want one claim", all, err)
		}
		return all[0].Preparation
	}
	r.prepare(c)
	first := preparation()
	r.prepare(c)
	compare.Equal(t, "prepared twice", first, preparation())
	r.unprepare(c)
	r.prepare(c)
	if again := preparation(); again == first {
		t.Errorf("unprepared between: found preparation %d, want another", again)
	}
}
