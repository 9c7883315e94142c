package deviceplugin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// The resource names of Intel's plugin for the interfaces (A, B) and AFUs (a, b) of the cards of
// the tests, computed by hand: base64url of both ids.
const (
	afAa    = "fpga.intel.com/af-695.d84.aVKNtusxV3qMNmj5-qCB9thCTcSko8QT-J5DNoP5BAs"
	afAb    = "fpga.intel.com/af-695.f7d.aVKNtusxV3qMNmj5-qCB9vffQFy9es9yIvFEsLk6zRg"
	afBb    = "fpga.intel.com/af-934.f7d.k0YRbaUtXKiwaqmjie98jfffQFy9es9yIvFEsLk6zRg"
	regionA = "fpga.intel.com/region-69528db6eb31577a8c3668f9faa081f6"
	regionB = "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d"
)

// otherCard is card B in the slot of card A.
func otherCard() simnode.Card {
	c := cardB
	c.Address = cardA.Address
	return c
}

// inMode is startDaemon in a mode, with short times for the server, too.
func inMode(t *testing.T, mode string, adjust func(*config.Config)) *testDaemon {
	t.Helper()
	d := prepareDaemon(t, func(c *config.Config) {
		c.Mode = mode
		if adjust != nil {
			adjust(c)
		}
	})
	d.shorten()
	d.run()
	return d
}

// shorten sets short intervals.
func (d *testDaemon) shorten() {
	d.timing = func(i *inventory.Config, s *server.Config) {
		i.HoldersInterval = 20 * time.Millisecond
		s.RetireAfter = 200 * time.Millisecond
	}
}

// awaitAsked blocks until the kubelet has answered a request for holders that was sent after this call.
func (d *testDaemon) awaitAsked() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	d.do(d.pods.AwaitAsked(ctx, d.pods.Asked()+2)) // there is one request at a time
}

// awaitRefused blocks until Allocate of a device that is not offered returns an error with this
// text.
func (d *testDaemon) awaitRefused(when, resource, id, why string) {
	d.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		_, err := d.kubelet.Allocate(d.t.Context(), resource, id)
		if err != nil && strings.Contains(err.Error(), why) {
			return
		}
		select {
		case <-deadline:
			d.t.Fatalf("%s: Allocate of %s %s = %v, want an error with %q", when, resource, id, err, why)
		case <-time.After(time.Millisecond):
		}
	}
}

// nodesOf returns the nodes of an answer.
func nodesOf(names ...string) []string {
	var nodes []string
	for _, name := range names {
		nodes = append(nodes, "/dev/"+name+":/dev/"+name+":rw")
	}
	return nodes
}

// perMode has the resources, in each mode, of card A, with two ports, and card B, with one.
var perMode = []struct {
	mode        string
	a, b        string // their resources
	ids         []string
	nodes       []string // of a container with ids[0], if card A was plugged first
	annotations map[string]string
}{
	{"af", afAa, afBb, []string{"3b:00.0", "3b:00.0-p1"}, nodesOf("dfl-port.0"), nil},
	{"region", regionA, regionB, []string{"3b:00.0"}, nodesOf("dfl-port.0", "dfl-port.1"),
		map[string]string{"com.intel.fpga.mode": "fpga.intel.com/region"}},
	{"regiondevel", regionA, regionB, []string{"3b:00.0"}, nodesOf("dfl-port.0", "dfl-port.1", "dfl-fme.0"), nil},
}

// all returns a list of these ids, all healthy or all unhealthy.
func all(ids []string, healthy bool) health {
	h := health{}
	for _, id := range ids {
		h[id] = healthy
	}
	return h
}

// A resource is registered with its first device. Without devices its list is empty, and after the
// retire time it ends. A container gets the nodes that the mode gives.
func TestHotPlugOfModes(t *testing.T) {
	for _, test := range perMode {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			d := inMode(t, test.mode, nil)
			in, b := all(test.ids, true), health{"5e:00.0": true}
			d.do(d.node.Plug(cardA))
			d.awaitOffers("first card in", offers{test.a: in})
			d.do(d.node.Plug(cardB))
			d.awaitOffers("second card in", offers{test.a: in, test.b: b})

			got, err := d.kubelet.Allocate(t.Context(), test.a, test.ids[0])
			if err != nil {
				t.Fatal(err)
			}
			want := simkubelet.Given{
				Envs:  map[string]string{"ACCELERATOR_UNITS": test.ids[0], "ACCELERATOR_DEVICES": test.ids[0]},
				Nodes: test.nodes, Annotations: test.annotations,
			}
			if diff := cmp.Diff(want, simkubelet.GivenBy(got)); diff != "" {
				t.Errorf("Allocate (-want +got):\n%s", diff)
			}

			d.do(d.node.Unplug(cardB.Address))
			d.awaitOffers("second card out", offers{test.a: in, test.b: {}})
			d.awaitOffers("its resource retired", offers{test.a: in})
			d.awaitLine("resource.retired", test.b)
			if _, err := d.kubelet.Allocate(t.Context(), test.b, "5e:00.0"); err == nil {
				t.Errorf("Allocate of a resource that is retired succeeded")
			}
			d.do(d.node.Plug(cardB))
			d.awaitOffers("second card back", offers{test.a: in, test.b: b})
		})
	}
}

// A card is pulled and replaced by another one while a pod holds it. The device of the pod stays in its
// resource until the pod has ended.
func TestReplacedInUseOfModes(t *testing.T) {
	for _, test := range perMode {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			d := inMode(t, test.mode, nil)
			id := test.ids[0]
			d.do(d.node.Plug(cardA))
			d.awaitOffers("card in", offers{test.a: all(test.ids, true)})
			d.hold("job", test.a, id)
			d.do(d.node.Unplug(cardA.Address))
			d.awaitOffers("card out", offers{test.a: {id: false}})
			d.do(d.node.Plug(otherCard()))
			d.awaitRefused("another card in its place", test.a, id, "replaced-in-use")
			d.awaitAsked()
			d.awaitOffers("asked again who holds it", offers{test.a: {id: false}})
			d.pods.Release("default", "job")
			d.awaitOffers("the pod has ended, the old resource retired", offers{test.b: {id: true}})

			d.hold("next", test.b, id)
			d.do(d.node.Unplug(cardA.Address))
			d.awaitOffers("other card out", offers{test.b: {id: false}})
			d.do(d.node.Plug(otherCard()))
			d.awaitOffers("the same card back, still held", offers{test.b: {id: true}})
		})
	}
}

// In modes in which pods program cards, a card with another AFU is the same device, even if the
// AFU changed while the card was out.
func TestAFUChangesInRegionModes(t *testing.T) {
	for _, test := range perMode[1:] {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			d := inMode(t, test.mode, nil)
			d.do(d.node.Plug(cardA))
			want := offers{test.a: {"3b:00.0": true}}
			d.awaitOffers("card in", want)
			d.hold("job", test.a, "3b:00.0")
			d.do(d.node.Reprogram(cardA.Address, 1, cardB.AFUID))
			d.do(d.node.Set(cardA.Address, 0, "errors/errors", "0x4000000000000"))
			d.awaitOffers("reprogrammed, and one port breaks", offers{test.a: {"3b:00.0": false}})
			d.do(d.node.Set(cardA.Address, 0, "errors/errors", "0x0"))
			d.awaitOffers("mended", want)
			d.do(d.node.Unplug(cardA.Address))
			d.awaitOffers("pulled", offers{test.a: {"3b:00.0": false}})
			c := cardA
			c.AFUID = cardB.AFUID
			d.do(d.node.Plug(c))
			d.awaitOffers("back with another AFU", want)
			if n := d.kubelet.Registrations(test.a); n != 1 {
				t.Errorf("%d registrations, want 1", n)
			}
		})
	}
}

// A device without the id that its mode needs for the name is not offered, and that is logged
// once.
func TestWithoutName(t *testing.T) {
	vf := simnode.Card{Address: "0000:3b:00.1", PhysFn: cardA.Address, Ports: 1, AFUID: cardA.AFUID, NUMANode: -1}
	for _, test := range perMode {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			d := inMode(t, test.mode, func(c *config.Config) { c.HealthInterval = 500 * time.Millisecond })
			d.do(d.node.Plug(vf))
			d.awaitLine("device.unoffered", "3b:00.1", "interface")
			in := all(test.ids, true)
			if test.mode == "af" {
				in["3b:00.1"] = true // its interface is that of the physical function
			}
			d.do(d.node.Plug(cardA))
			d.awaitOffers("the physical function in", offers{test.a: in})
			if n := len(d.lines("device.unoffered")); n != 1 {
				t.Errorf("logged %d times: %s", n, fmt.Sprint(d.lines("device.unoffered")))
			}
		})
	}
}
