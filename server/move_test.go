package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

const otherResource = "example.com/other"

// as sets the device's resource and returns the device.
func as(resource string, d *inventory.Device) *inventory.Device {
	d.OfferedAs = resource
	return d
}

// sent returns the lists sent since the log line with this number, as RESOURCE COUNT.
func (r *rig) sent(since int) []string {
	var all []string
	for _, line := range r.logs.All()[since:] {
		if fields := line.ContextMap(); fields["event"] == "list.sent" {
			all = append(all, fmt.Sprint(fields["resource"], " ", fields["count"]))
		}
	}
	return all
}

// A device that moves is removed from its old list before it is added to the new one. Other changes aren't delayed.
func TestMove(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after []*inventory.Device
		want          []string
	}{
		{"one of two", []*inventory.Device{port("a"), port("b"), as(otherResource, port("c"))},
			[]*inventory.Device{port("a"), as(otherResource, port("b")), as(otherResource, port("c"))},
			[]string{resource + " 1", otherResource + " 2"}},
		{"the last one", []*inventory.Device{port("a"), as(otherResource, port("b"))},
			[]*inventory.Device{as(otherResource, port("a")), as(otherResource, port("b"))},
			[]string{resource + " 0", otherResource + " 2"}},
		{"a swap", []*inventory.Device{port("a"), as(otherResource, port("b"))},
			[]*inventory.Device{as(otherResource, port("a")), port("b")},
			[]string{resource + " 0", resource + " 1", otherResource + " 0", otherResource + " 1"}},
		{"while another one is added", []*inventory.Device{port("a"), as(otherResource, port("c"))},
			[]*inventory.Device{as(otherResource, port("a")), port("b"), as(otherResource, port("c"))},
			[]string{resource + " 1", otherResource + " 2"}},
		{"another mode: one of two ports has the id of the region", []*inventory.Device{port("a"), port("a-p1"), as(otherResource, port("c"))},
			[]*inventory.Device{as(otherResource, port("a")), as(otherResource, port("c"))},
			[]string{resource + " 0", otherResource + " 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.SetMoveTimeout(testTimeout)
			r.begin(simkubelet.Behaviour{}, tc.before...)
			r.await("the first lists", func() bool { return len(r.sent(0)) == 2 })
			begin := r.logs.Len()
			r.devices.set(tc.after...)
			r.await("the lists", func() bool { return len(r.sent(begin)) >= len(tc.want) })
			got := r.sent(begin)
			if tc.name == "a swap" { // the two can come in either order
				if !slices.Equal([]bool{got[0][len(got[0])-1] == '0', got[1][len(got[1])-1] == '0'}, []bool{true, true}) {
					t.Errorf("sent: found %v, want both empty lists before the others", got)
				}
				slices.Sort(got)
				slices.Sort(tc.want)
			}
			compare.Values(t, "sent", tc.want, got)
		})
	}
}

// A move isn't blocked by a kubelet that doesn't read the old list.
func TestMoveWithBlockedStream(t *testing.T) {
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{NoRead: true})
	r.run()
	r.devices.set(ports(2000)...) // more than the transport buffers
	r.awaitEvent("stream.opened", 1)
	r.devices.set(as(otherResource, port("0000")))
	k.Behave(simkubelet.Behaviour{})
	r.awaitDevices(k, otherResource, 1)
}

// A container whose device is programmed when it starts gets the annotation for Intel's hook.
func TestAnnotations(t *testing.T) {
	a, b := port("a"), port("b")
	a.ProgramAtStart = true
	_, k := started(t, a, b)
	for id, want := range map[string]map[string]string{
		"a": {"com.intel.fpga.mode": "fpga.intel.com/region", "nodes.accelerator.b-com.com/a": "dfl-port.a"},
		"b": {"nodes.accelerator.b-com.com/b": "dfl-port.b"},
	} {
		answer := must.Value(k.Allocate(t.Context(), resource, id))(t)
		compare.Values(t, id+": annotations", want, answer.Annotations)
	}
}

// A device that was just allocated is rejected under its new resource name while the inventory lists it there as
// unhealthy, and it stays allocated even if its old resource is retired.
func TestAllocatedThenMoved(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.RetireAfter = 10 * time.Millisecond })
	k := r.serving(port("a"))
	must.Value(k.Allocate(r.ctx, resource, "a"))(t)
	want := map[string][]string{resource: {"a"}}
	for _, step := range []struct {
		name   string
		device *inventory.Device
		then   map[string][]string // what is allocated after it was requested
		text   string              // substring of the error; "": none
	}{
		{"not known whether it is held", sick("a", "moving"), want, `unhealthy: "a" (moving)`},
		{"held", sick("a", "replaced-in-use"), want, `unhealthy: "a" (replaced-in-use)`},
		{"free", port("a"), map[string][]string{resource: {"a"}, otherResource: {"a"}}, ""},
	} {
		r.devices.set(as(otherResource, step.device))
		healthy := step.device.Health == inventory.Healthy
		matches := func(l simkubelet.List) bool { return len(l.Devices) == 1 && l.Devices[0].Healthy == healthy }
		must.Value(k.AwaitList(r.ctx, otherResource, matches))(t)
		r.awaitEvent("resource.retired", 1)
		compare.Values(t, step.name+": allocated before", want, r.Allocated())
		_, err := k.Allocate(r.ctx, otherResource, "a")
		compare.Equal(t, step.name+": refused with", step.text, status.Convert(err).Message())
		compare.Values(t, step.name+": allocated after", step.then, r.Allocated())
	}
}

// A device that the latest snapshot withholds is rejected even if the conductor hasn't handed that snapshot over yet,
// because it is still waiting for a kubelet to read a list without a device that is moving.
func TestWithheldWhileTheKubeletDoesNotRead(t *testing.T) {
	r := newRig(t, nil)
	r.SetMoveTimeout(time.Minute)
	k := r.kubelet(simkubelet.Behaviour{NoRead: true})
	r.run()
	list := ports(2000) // more than the transport buffers
	r.devices.set(list...)
	r.awaitEvent("stream.opened", 1)
	moving := slices.Clone(list)
	moving[0] = as(otherResource, port("0000"))
	r.devices.set(moving...)
	patient.Elapse(t, 200*time.Millisecond) // until the conductor is waiting
	later := slices.Delete(slices.Clone(moving), 3, 4)
	later[1], later[2] = sick("0001", "moving"), as(otherResource, port("0002"))
	r.devices.set(later...)
	for id, want := range map[string]string{
		"0001": `unhealthy: "0001" (moving)`, "0002": `not listed: "0002"`, "0003": `not listed: "0003"`, "0004": "",
	} {
		_, err := k.Allocate(r.ctx, resource, id)
		compare.Equal(t, id+": refused with", want, status.Convert(err).Message())
	}
	compare.Values(t, "allocated", map[string][]string{resource: {"0004"}}, r.Allocated())
}
