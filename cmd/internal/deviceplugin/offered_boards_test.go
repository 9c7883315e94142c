package deviceplugin_test

import (
	"fmt"
	"os"
	"testing"

	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/must"
)

const boardsDir = "../../../testdata/sysfs/"

// boards lists the devices on these boards in each mode, written by hand. They show how modes, rules and families work
// together. The families' own tests read all boards.
var boards = map[string]byMode{
	"kernel-6.1-one-card":  onPAC(),
	"kernel-6.1-two-cards": join(onPAC(), onePort("02:00.0", "dfl", 1, dmaOnD5005, regionD5005)),
	// Two AFUs on one card make two resources, but one region.
	"dfl-two-ports": {
		single:      []offered{well("0001:3b:00.0", testResource, "dfl-port.9"), well("0001:3b:00.0-p1", testResource, "dfl-port.10")},
		af:          []offered{well("0001:3b:00.0", nlbOnPAC, "dfl-port.9"), well("0001:3b:00.0-p1", dmaOnPAC, "dfl-port.10")},
		region:      []offered{well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10")},
		regiondevel: []offered{well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10", "dfl-fme.0")},
	},
	"opae-one-card": onePort("82:00.0", "intel-fpga", 0, countsOnOPAE, regionOPAE),

	// A port without an AFU ID doesn't get a name in af mode. A function without a port isn't a device.
	"dfl-multi-function": onePort("17:00.0", "dfl", 0, notOffered, regionMulti),
	// A virtual function has no FME, so it isn't a region. Its port belongs to its physical function's FME, if the
	// physfn link leads there.
	"kernel-6.1-virtual-function": withVirtual("02:00.0", notOffered),
	"dfl-vf":                      withVirtual("03:00.0", nlbOnPAC),

	"kernel-6.1-two-ports": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.0"), well("01:00.0-p1", testResource, "dfl-port.1")},
		af:          []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("01:00.0-p1", otherOnPAC, "dfl-port.1")},
		region:      []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-port.1")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-port.1", "dfl-fme.0")},
	},
	// Only one of the five functions has a port, and the port has no AFU ID.
	"kernel-6.1-several-functions": onePort("01:00.0", "dfl", 0, notOffered, regionN6000),

	"kernel-6.1-no-driver": {},
	"kernel-6.12-xrt-card": inEach(well("01:00.1", shellU250, "dri/renderD128")),
	"kernel-6.1-port-released": {
		region:      []offered{bad(well("01:00.0", regionPAC), "no-port")},
		regiondevel: []offered{bad(well("01:00.0", regionPAC, "dfl-fme.0"), "no-port")},
	},
	"kernel-6.1-port-unbound": onePort("01:00.0", "dfl", 0, notOffered, regionPAC, isBad("driver-unbound")),
	// Without its driver, an FME has no interface ID.
	"kernel-6.1-fme-unbound": onePort("01:00.0", "dfl", 0, notOffered, notOffered, isBad("fme-unbound")),
	// Its AFU is all f, which doesn't make a name, and a single scan doesn't know an earlier resource. The driver has
	// kept the interface ID that it read before the card died.
	"kernel-6.1-dead-card": onePort("01:00.0", "dfl", 0, notOffered, regionPAC, isBad("afu-dead", "fme-dead", "pci-gone")),

	"kernel-6.1-vfio-function": inEach(well("01:00.0", function, "vfio/6")),

	"kernel-6.1-aws-card": inSingle(),

	// The first function is on dfl-pci, and the next two are on vfio-pci.
	"kernel-6.1-vfio-group-not-viable": join(onePort("01:00.0", "dfl", 0, notOffered, regionN6000),
		inEach(bad(well("01:00.1", function, "vfio/6"), "group-not-viable=dfl-pci"))),
}

// shellU250 is the resource of the recorded XRT cards, in every mode.
const shellU250 = "amd.com/xilinx_u250_xdma_201830_2-1561465320"

// function is the resource of functions on vfio-pci, in every mode.
const function = "example.com/function"

func inEach(all ...offered) byMode { return byMode{all, all, all, all} }

func join(a, b byMode) byMode {
	return byMode{append(a.single, b.single...), append(a.af, b.af...), append(a.region, b.region...), append(a.regiondevel, b.regiondevel...)}
}

// onePort returns a card with one port and an FME, which have these names in af mode and in the region modes.
func onePort(id, driver string, number int, af, region string, change ...func(offered) offered) byMode {
	port, fme := fmt.Sprintf("%s-port.%d", driver, number), fmt.Sprintf("%s-fme.%d", driver, number)
	is := func(d offered) []offered {
		for _, c := range change {
			d = c(d)
		}
		return []offered{d}
	}
	return byMode{is(well(id, testResource, port)), is(well(id, af, port)), is(well(id, region, port)), is(well(id, region, port, fme))}
}

func isBad(reasons ...string) func(offered) offered {
	return func(d offered) offered { return bad(d, reasons...) }
}

// onPAC returns the card in the rig's first slot.
func onPAC(change ...func(offered) offered) byMode {
	return onePort("01:00.0", "dfl", 0, nlbOnPAC, regionPAC, change...)
}

// inSingle returns the rig's AWS card, which is advertised in single mode.
func inSingle() byMode {
	all := inEach(well("01:00.0", notOffered))
	all.single = []offered{well("01:00.0", testResource)}
	return all
}

// withVirtual returns the rig's card with a virtual function, which is advertised in af mode under this name.
func withVirtual(id, af string) byMode {
	is := func(resource string) []offered { return []offered{well(id, resource, "dfl-port.1")} }
	return join(onPAC(), byMode{is(testResource), is(af), is(notOffered), is(notOffered)})
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

// unfold creates a board's tree. It leaves out files that can't be read.
func unfold(t *testing.T, name string) (root string) {
	t.Helper()
	root = t.TempDir()
	must.Value(board.UnfoldRecorded(root, boardsDir+name+".txtar"))(t)
	return root
}

// Without device nodes, no device is advertised, and each device keeps its resource.
func TestOfferedWithoutNodes(t *testing.T) {
	t.Parallel()
	root := unfold(t, "kernel-6.1-one-card")
	must.Succeed(t, os.RemoveAll(root+"/dev"))
	onPAC(isBad("node-missing")).check(t, root, settings(t, ""))
}
