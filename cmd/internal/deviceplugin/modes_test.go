package deviceplugin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
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

// inMode is startDaemon in a mode. It also uses short times for the server.
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
	ctx, cancel := context.WithTimeout(d.t.Context(), patient.Limit)
	defer cancel()
	d.do(d.pods.AwaitAsked(ctx, d.pods.Asked()+2)) // there is one request at a time
}

// awaitRefused blocks until Allocate of a device that is not advertised returns an error with this text.
func (d *testDaemon) awaitRefused(when, resource, id, why string) {
	d.t.Helper()
	patient.Await(d.t, when, func() error {
		if _, err := d.kubelet.Allocate(d.t.Context(), resource, id); err == nil || !strings.Contains(err.Error(), why) {
			return fmt.Errorf("allocate of %s %s: %v, want an error with %q", resource, id, err, why)
		}
		return nil
	})
}

// nodesOf returns the nodes of an answer.
func nodesOf(names ...string) []string {
	var nodes []string
	for _, name := range names {
		nodes = append(nodes, "/dev/"+name+":/dev/"+name+":rw")
	}
	return nodes
}

// perMode lists the resources, in each mode, of card A with two ports, and card B with one.
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
			d.plug(cardA)
			d.awaitLists("first card in", resourceLists{test.a: in})
			d.plug(cardB)
			d.awaitLists("second card in", resourceLists{test.a: in, test.b: b})

			got := must.Value(d.kubelet.Allocate(t.Context(), test.a, test.ids[0]))(t)
			want := given{
				Envs:  map[string]string{"ACCELERATOR_UNITS": test.ids[0], "ACCELERATOR_DEVICES": test.ids[0]},
				Nodes: test.nodes, Annotations: test.annotations,
			}
			compare.Values(t, "Allocate", want, givenBy(got))

			d.do(d.node.Unplug(cardB.Address))
			d.awaitLists("second card out", resourceLists{test.a: in, test.b: {}})
			d.awaitLists("its resource retired", resourceLists{test.a: in})
			d.awaitLine("resource.retired", test.b)
			compare.Error(t, "Allocate of a resource that is retired", "", compare.ErrorOf(d.kubelet.Allocate(t.Context(), test.b, "5e:00.0")))
			d.plug(cardB)
			d.awaitLists("second card back", resourceLists{test.a: in, test.b: b})
		})
	}
}

// given is the answer to Allocate for one container, without types of the kubelet.
type given struct {
	Envs, Annotations map[string]string // without the annotations that repeat Nodes for the kubelet's checkpoint
	Nodes             []string          // HOST:CONTAINER:PERMISSIONS
	CDI               []string          // names
}

// givenBy converts an answer of [simkubelet.Kubelet.Allocate].
func givenBy(answer *v1beta1.ContainerAllocateResponse) given {
	g := given{Envs: answer.Envs}
	for key, value := range answer.Annotations {
		if strings.HasPrefix(key, "nodes.accelerator.b-com.com/") {
			continue
		}
		if g.Annotations == nil {
			g.Annotations = map[string]string{}
		}
		g.Annotations[key] = value
	}
	for _, node := range answer.Devices {
		g.Nodes = append(g.Nodes, node.HostPath+":"+node.ContainerPath+":"+node.Permissions)
	}
	for _, device := range answer.CdiDevices {
		g.CDI = append(g.CDI, device.Name)
	}
	return g
}
