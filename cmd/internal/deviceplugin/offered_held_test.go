package deviceplugin_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// holding is a device that is held by a container in the pod default/job.
type holding struct{ resource, id string }

// job is the container that holds all held devices.
const job = "default/job/main"

// kept returns a device that a container holds under another resource.
func kept(id, resource string, nodes ...string) offered {
	return heldBy(bad(well(id, resource, nodes...), "replaced-in-use"), job)
}

// heldCase is a board with devices that were allocated either by us, before a restart in another mode or with other
// rules, or by another plugin.
type heldCase struct {
	name, board, mode string
	rules             string // goes into resources: []
	holds             []holding
	want              []offered
}

var heldCases = []heldCase{
	{"as what it is", "kernel-6.1-one-card", "af", "", []holding{{nlbOnPAC, "01:00.0"}},
		[]offered{heldBy(well("01:00.0", nlbOnPAC, "dfl-port.0"), job)}},
	{"single became af", "kernel-6.1-one-card", "af", "", []holding{{testResource, "01:00.0"}},
		[]offered{kept("01:00.0", testResource, "dfl-port.0")}},
	{"region became regiondevel: the same name", "kernel-6.1-one-card", "regiondevel", "", []holding{{regionPAC, "01:00.0"}},
		[]offered{heldBy(well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), job)}},
	{"held with another AFU", "kernel-6.1-one-card", "af", "", []holding{{dmaOnPAC, "01:00.0"}},
		[]offered{kept("01:00.0", dmaOnPAC, "dfl-port.0")}},
	{"one of two cards", "kernel-6.1-two-cards", "af", "", []holding{{testResource, "02:00.0"}},
		[]offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), kept("02:00.0", testResource, "dfl-port.1")}},
	{"under two names, one of them its own", "kernel-6.1-one-card", "af", "", []holding{{testResource, "01:00.0"}, {nlbOnPAC, "01:00.0"}},
		[]offered{kept("01:00.0", testResource, "dfl-port.0")}},
	{"bad beside it", "kernel-6.1-port-unbound", "region", "", []holding{{testResource, "01:00.0"}},
		[]offered{heldBy(bad(well("01:00.0", testResource, "dfl-port.0"), "driver-unbound", "replaced-in-use"), job)}},

	// A card has the same ID as its first port.
	{"region became af, two ports", "dfl-two-ports", "af", "", []holding{{regionPAC, "0001:3b:00.0"}},
		[]offered{kept("0001:3b:00.0", regionPAC, "dfl-port.9"), well("0001:3b:00.0-p1", dmaOnPAC, "dfl-port.10")}},
	{"af became region, two ports", "dfl-two-ports", "region", "", []holding{{dmaOnPAC, "0001:3b:00.0-p1"}},
		[]offered{bad(well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10"), "node-in-use"),
			heldBy(bad(well("0001:3b:00.0-p1", dmaOnPAC, "dfl-port.10"), "former-mode"), job)}},
	{"pulled, under the name of another mode", "kernel-6.1-no-driver", "single", "", []holding{{regionPAC, "01:00.0"}},
		[]offered{heldBy(bad(well("01:00.0", regionPAC), "removed-in-use"), job)}},

	// A claim for the DRA driver. The kubelet doesn't list its device.
	{"by a claim", "kernel-6.1-two-cards", "single", "", []holding{{draname.Driver, "pci-0000-02-00-0"}},
		[]offered{well("01:00.0", testResource, "dfl-port.0"), heldBy(bad(well("02:00.0", draname.Driver, "dfl-port.1"), "held-other-api"), job)}},
	{"by a claim on a port that is part of the card now", "dfl-two-ports", "region", "", []holding{{draname.Driver, "pci-0001-3b-00-0-p1"}},
		[]offered{bad(well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10"), "node-in-use")}},
	{"by a claim, not on the node", "kernel-6.1-one-card", "single", "", []holding{{draname.Driver, "pci-0000-02-00-0"}},
		[]offered{bad(well("01:00.0", testResource, "dfl-port.0"), "node-in-use")}},
	{"by a claim with a name that is none", "kernel-6.1-one-card", "single", "", []holding{{draname.Driver, "gpu-0"}, {draname.Driver, ""}, {"gpu.example.com", "pci-0000-01-00-0"}},
		[]offered{well("01:00.0", testResource, "dfl-port.0")}},

	{"a rule came", "kernel-6.1-one-card", "single", "{name: example.com/nlb, match: {family: dfl}}", []holding{{testResource, "01:00.0"}},
		[]offered{kept("01:00.0", testResource, "dfl-port.0")}},
	{"a rule matches no more", "kernel-6.1-one-card", "single", "{name: example.com/nlb, match: {family: opae}}", []holding{{"example.com/nlb", "01:00.0"}},
		[]offered{kept("01:00.0", "example.com/nlb", "dfl-port.0")}},
	// Another plugin may use such a name too. Its containers have the node.
	{"a rule went", "kernel-6.1-one-card", "single", "", []holding{{"example.com/nlb", "01:00.0"}},
		[]offered{bad(well("01:00.0", testResource, "dfl-port.0"), "node-in-use")}},

	// A device that doesn't have a name in the new mode may still get one.
	{"a virtual function, single became af", "kernel-6.1-virtual-function", "af", "", []holding{{testResource, "02:00.0"}},
		[]offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), heldBy(bad(well("02:00.0", testResource, "dfl-port.1"), "moving"), job)}},

	// Intel's plugin on the same node, with its own names and IDs.
	{"Intel's port, while we have mode single", "kernel-6.1-one-card", "single", "", []holding{{nlbOnPAC, "dfl-port.0"}},
		[]offered{well("01:00.0", testResource, "dfl-port.0")}},
	{"Intel's regions", "kernel-6.1-one-card", "region", "", []holding{{regionPAC, "region0"}, {regionPAC, "dfl-fme.0"}},
		[]offered{well("01:00.0", regionPAC, "dfl-port.0")}},
	{"another plugin's, by our id", "kernel-6.1-one-card", "af", "", []holding{{"example.com/nic", "01:00.0"}, {"fpga.intel.com/fpga", "01:00.0"}},
		[]offered{bad(well("01:00.0", nlbOnPAC, "dfl-port.0"), "node-in-use")}}, // it has allocated the port's node
}

// nodesOnBoards lists the device nodes that a port's holders were given, on any board.
var nodesOnBoards = map[string][]string{
	"01:00.0": {"dfl-port.0"}, "02:00.0": {"dfl-port.1"}, "0001:3b:00.0": {"dfl-port.9"}, "0001:3b:00.0-p1": {"dfl-port.10"},
}

// prepare creates the board and a kubelet that reports the devices' holders, and returns the settings. end ends the
// pod.
func (c heldCase) prepare(t *testing.T) (end func(), root string, cfg config.Config) {
	t.Helper()
	root, cfg = unfold(t, c.board), settings(t, "sensors: none\nresources: ["+c.rules+"]") // scans don't read sensors
	pods, socket := servePods(t)
	cfg.Mode, cfg.PodResourcesSocket, cfg.KubeletDir = c.mode, socket, filepath.Join(cmdtest.ShortDir(t), "kubelet")
	kubelet := must.Value(simkubelet.Start(t.Context(), cfg.KubeletDir, simkubelet.Behaviour{}))(t)
	t.Cleanup(kubelet.Stop)
	for _, h := range c.holds {
		pods.Hold("default", "job", "main", h.resource, h.id)
		must.Succeed(t, kubelet.AllocatedByOldDaemon(h.resource, nodesOnBoards[h.id], h.id))
	}
	end = func() { // like a kubelet that writes its checkpoint afterwards
		pods.Release("default", "job")
		for _, h := range c.holds {
			kubelet.End(h.resource, h.id)
		}
		must.Succeed(t, kubelet.AllocatedByOldDaemon("example.com/other", nil, "0"))
	}
	return end, root, cfg
}

// A device that a container holds under another of our resources stays in that resource, unhealthy, until it is free. A
// scan, which has never read the device before, shows the same as a daemon that starts. Another plugin's devices don't
// count.
func TestOfferedWhileHeld(t *testing.T) {
	for _, tt := range heldCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end, root, cfg := tt.prepare(t)
			scanned := scan(t, root, cfg)
			compare.Values(t, "held", tt.want, rowsOf(t, scanned))

			dir := cmdtest.ShortDir(t)
			d := &testDaemon{t: t, cfg: cfg, loader: daemon.NewLoader()}
			d.cfg.SysfsRoot, d.cfg.DevRoot, d.cfg.HTTPAddress = root+"/sys", root+"/dev", ""
			d.cfg.Socket, d.cfg.StateDir = filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "state")
			d.loader.Config = d.cfg
			d.run()
			patient.Await(t, "a daemon has started", func() error {
				state, err := control.Dial(d.cfg.Socket).State(t.Context())
				if diff := cmp.Diff(scanned.Devices, state.Devices); err == nil && diff != "" {
					err = fmt.Errorf("devices (-scan +daemon):\n%s", diff)
				}
				return err
			})
			d.do(d.stop())

			end()
			for _, d := range rowsOf(t, scan(t, root, cfg)) {
				for _, reason := range []string{"replaced-in-use", "removed-in-use", "moving"} {
					if slices.Contains(d.Reasons, reason) || len(d.Holder) > 0 {
						t.Errorf("released, and still %+v", d)
					}
				}
			}
		})
	}
}
