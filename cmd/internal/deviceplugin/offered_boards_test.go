package deviceplugin_test

import (
	"os"
	"testing"

	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/must"
)

const boardsDir = "../../../testdata/sysfs/"

// boards lists the devices of boards in each mode, written by hand: the combined result of modes, rules and families.
// The families' own tests read all boards.
var boards = map[string]byMode{
	"kernel-6.1-one-card":      pacWith(),
	"kernel-6.1-thermal-alarm": pacWith("alarm-crit=temp1", "alarm-max=temp1"),
	"kernel-6.1-two-cards": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.0"), well("02:00.0", testResource, "dfl-port.1")},
		af:          []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", dmaOnD5005, "dfl-port.1")},
		region:      []offered{well("01:00.0", regionPAC, "dfl-port.0"), well("02:00.0", regionD5005, "dfl-port.1")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), well("02:00.0", regionD5005, "dfl-port.1", "dfl-fme.1")},
	},
	// The driver's numbers are swapped; ids and resources are not.
	"kernel-6.1-two-cards-renumbered": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.1"), well("02:00.0", testResource, "dfl-port.0")},
		af:          []offered{well("01:00.0", nlbOnPAC, "dfl-port.1"), well("02:00.0", dmaOnD5005, "dfl-port.0")},
		region:      []offered{well("01:00.0", regionPAC, "dfl-port.1"), well("02:00.0", regionD5005, "dfl-port.0")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.1", "dfl-fme.1"), well("02:00.0", regionD5005, "dfl-port.0", "dfl-fme.0")},
	},
	// Two AFUs on one card: two resources, and one region.
	"dfl-two-ports": {
		single:      []offered{well("0001:3b:00.0", testResource, "dfl-port.9"), well("0001:3b:00.0-p1", testResource, "dfl-port.10")},
		af:          []offered{well("0001:3b:00.0", nlbOnPAC, "dfl-port.9"), well("0001:3b:00.0-p1", dmaOnPAC, "dfl-port.10")},
		region:      []offered{well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10")},
		regiondevel: []offered{well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10", "dfl-fme.0")},
	},
	"opae-one-card": opaeAt("82:00.0"),

	// A port without AFU id gets no name in mode af. A function without a port is not a device.
	"dfl-multi-function": {
		single:      []offered{well("17:00.0", testResource, "dfl-port.0")},
		af:          []offered{well("17:00.0", notOffered, "dfl-port.0")},
		region:      []offered{well("17:00.0", regionMulti, "dfl-port.0")},
		regiondevel: []offered{well("17:00.0", regionMulti, "dfl-port.0", "dfl-fme.0")},
	},
	// A virtual function has no FME, so it is not a region. Its port belongs to the FME of its physical function, if
	// the link physfn leads there.
	"kernel-6.1-virtual-function": withVirtual("02:00.0", notOffered),
	"dfl-vf":                      withVirtual("03:00.0", nlbOnPAC),

	"kernel-6.1-two-ports": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.0"), well("01:00.0-p1", testResource, "dfl-port.1")},
		af:          []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("01:00.0-p1", otherOnPAC, "dfl-port.1")},
		region:      []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-port.1")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-port.1", "dfl-fme.0")},
	},
	// Only one of the five functions has a port, and the port has no AFU id.
	"kernel-6.1-several-functions": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.0")},
		af:          []offered{well("01:00.0", notOffered, "dfl-port.0")},
		region:      []offered{well("01:00.0", regionN6000, "dfl-port.0")},
		regiondevel: []offered{well("01:00.0", regionN6000, "dfl-port.0", "dfl-fme.0")},
	},

	"kernel-6.1-no-driver": {},
	"kernel-6.12-xrt-card": inEach(well("01:00.1", shellU250, "dri/renderD128")),
	// Without its ROM the card has no shell.
	"kernel-6.12-xrt-resetting": inEach(bad(well("01:00.1", notOffered), "resetting")),
	"kernel-6.1-port-released": {
		region:      []offered{bad(well("01:00.0", regionPAC), "no-port")},
		regiondevel: []offered{bad(well("01:00.0", regionPAC, "dfl-fme.0"), "no-port")},
	},
	"kernel-6.1-port-unbound": portUnbound,
	// Without its driver an FME has no interface id.
	"kernel-6.1-fme-unbound": {
		single:      []offered{bad(well("01:00.0", testResource, "dfl-port.0"), "fme-unbound")},
		af:          []offered{bad(well("01:00.0", notOffered, "dfl-port.0"), "fme-unbound")},
		region:      []offered{bad(well("01:00.0", notOffered, "dfl-port.0"), "fme-unbound")},
		regiondevel: []offered{bad(well("01:00.0", notOffered, "dfl-port.0", "dfl-fme.0"), "fme-unbound")},
	},
	// Its AFU is all f, which gives no name, and a single scan knows no earlier resource. The driver has kept the
	// interface id that it read before the card died.
	"kernel-6.1-dead-card": {
		single:      []offered{bad(well("01:00.0", testResource, "dfl-port.0"), "afu-dead", "fme-dead", "pci-gone")},
		af:          []offered{bad(well("01:00.0", notOffered, "dfl-port.0"), "afu-dead", "fme-dead", "pci-gone")},
		region:      []offered{bad(well("01:00.0", regionPAC, "dfl-port.0"), "afu-dead", "fme-dead", "pci-gone")},
		regiondevel: []offered{bad(well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), "afu-dead", "fme-dead", "pci-gone")},
	},
	// The kernel answered EBUSY for afu_id. A file on a disk cannot, so the file is missing
	// here, and so is the reason "reprogramming". In the modes of regions, programming does
	// not change the device.
	"kernel-6.1-programming": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.0")},
		af:          []offered{well("01:00.0", notOffered, "dfl-port.0")},
		region:      []offered{well("01:00.0", regionPAC, "dfl-port.0")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0")},
	},
	"kernel-6.1-programming-failed": {
		single:      []offered{poor(well("01:00.0", testResource, "dfl-port.0"), "programming-failed")},
		af:          []offered{poor(well("01:00.0", notOffered, "dfl-port.0"), "programming-failed")},
		region:      []offered{poor(well("01:00.0", regionPAC, "dfl-port.0"), "programming-failed")},
		regiondevel: []offered{poor(well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), "programming-failed")},
	},

	"kernel-6.1-vfio-function": inEach(well("01:00.0", function, "vfio/6")),

	"kernel-6.1-aws-card":    inSingle(),
	"kernel-6.1-aws-loading": inSingle("loading"),

	// The first function is on dfl-pci, the next two are on vfio-pci.
	"kernel-6.1-vfio-group-not-viable": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.0"), notViable},
		af:          []offered{well("01:00.0", notOffered, "dfl-port.0"), notViable},
		region:      []offered{well("01:00.0", regionN6000, "dfl-port.0"), notViable},
		regiondevel: []offered{well("01:00.0", regionN6000, "dfl-port.0", "dfl-fme.0"), notViable},
	},
}

// shellU250 is the resource of the recorded cards with XRT, in each mode.
const shellU250 = "amd.com/xilinx_u250_xdma_201830_2-1561465320"

// function is the resource of functions on vfio-pci, in each mode.
const function = "example.com/function"

var notViable = bad(well("01:00.1", function, "vfio/6"), "group-not-viable=dfl-pci")

func inEach(all ...offered) byMode { return byMode{all, all, all, all} }

// inSingle returns the AWS card of the rig, which mode single advertises, unhealthy if there are reasons.
func inSingle(reasons ...string) byMode {
	is := func(resource string) []offered {
		d := well("01:00.0", resource)
		if reasons != nil {
			d = bad(d, reasons...)
		}
		return []offered{d}
	}
	return byMode{single: is(testResource), af: is(notOffered), region: is(notOffered), regiondevel: is(notOffered)}
}

var portUnbound = byMode{
	single:      []offered{bad(well("01:00.0", testResource, "dfl-port.0"), "driver-unbound")},
	af:          []offered{bad(well("01:00.0", notOffered, "dfl-port.0"), "driver-unbound")},
	region:      []offered{bad(well("01:00.0", regionPAC, "dfl-port.0"), "driver-unbound")},
	regiondevel: []offered{bad(well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), "driver-unbound")},
}

// pacWith returns the card in the first slot of the rig, unhealthy if there are reasons.
func pacWith(reasons ...string) byMode {
	is := func(d offered) []offered {
		if reasons != nil {
			d = bad(d, reasons...)
		}
		return []offered{d}
	}
	return byMode{
		single:      is(well("01:00.0", testResource, "dfl-port.0")),
		af:          is(well("01:00.0", nlbOnPAC, "dfl-port.0")),
		region:      is(well("01:00.0", regionPAC, "dfl-port.0")),
		regiondevel: is(well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0")),
	}
}

// withVirtual returns that card with a virtual function, which mode af advertises under this name.
func withVirtual(id, af string) byMode {
	return byMode{
		single:      []offered{well("01:00.0", testResource, "dfl-port.0"), well(id, testResource, "dfl-port.1")},
		af:          []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well(id, af, "dfl-port.1")},
		region:      []offered{well("01:00.0", regionPAC, "dfl-port.0"), well(id, notOffered, "dfl-port.1")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), well(id, notOffered, "dfl-port.1")},
	}
}

func opaeAt(id string) byMode {
	return byMode{
		single:      []offered{well(id, testResource, "intel-fpga-port.0")},
		af:          []offered{well(id, countsOnOPAE, "intel-fpga-port.0")},
		region:      []offered{well(id, regionOPAE, "intel-fpga-port.0")},
		regiondevel: []offered{well(id, regionOPAE, "intel-fpga-port.0", "intel-fpga-fme.0")},
	}
}

// TestOfferedBoards scans these boards in every mode, with all families.
func TestOfferedBoards(t *testing.T) {
	const text = "families: [dfl, opae, vfio, xrt, aws]\nresources: [{name: example.com/function, match: {family: vfio}}]\n"
	for name, want := range boards {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want.check(t, unfold(t, name), settings(t, text))
		})
	}
}

// unfold creates the tree of a board. It leaves out files whose read is an error.
func unfold(t *testing.T, name string) (root string) {
	t.Helper()
	root = t.TempDir()
	must.Value(board.UnfoldRecorded(root, boardsDir+name+".txtar"))(t)
	return root
}

// Without nodes, no device is advertised, and each device keeps its resource.
func TestOfferedWithoutNodes(t *testing.T) {
	t.Parallel()
	root := unfold(t, "kernel-6.1-one-card")
	must.Succeed(t, os.RemoveAll(root+"/dev"))
	pacWith("node-missing").check(t, root, settings(t, ""))
}
