package deviceplugin_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/sim/board"
)

// recordingsDir has trees recorded from real cards and kernels. It is not a part of the source tree, but may be
// beside it.
const recordingsDir = "../../../shared/recordings"

// recordings has the devices of each recording in each mode, written by hand. The recordings of
// the kernel have no device directory: the nodes that the kernel made are added first. VF
// recordings have no physfn, because the rig has no SR-IOV.
var recordings = map[string]byMode{
	"dfl-d5005": {
		single:      []offered{well("05:00.0", testResource, "dfl-port.0")},
		af:          []offered{well("05:00.0", "fpga.intel.com/af-934.f7d.k0YRbaUtXKiwaqmjie98jfffQFy9es9yIvFEsLk6zRg", "dfl-port.0")},
		region:      []offered{well("05:00.0", "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d", "dfl-port.0")},
		regiondevel: []offered{well("05:00.0", "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d", "dfl-port.0", "dfl-fme.0")},
	},
	"dfl-n3000": {
		single:      []offered{well("05:00.0", testResource, "dfl-port.0")},
		af:          []offered{well("05:00.0", "fpga.intel.com/af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI", "dfl-port.0")},
		region:      []offered{well("05:00.0", "fpga.intel.com/region-a5d72a3cc8b04939912cf715e5dc10ca", "dfl-port.0")},
		regiondevel: []offered{well("05:00.0", "fpga.intel.com/region-a5d72a3cc8b04939912cf715e5dc10ca", "dfl-port.0", "dfl-fme.0")},
	},
	// No afu_id. Its other functions have neither port nor FME. The link is slower than the
	// card allows, but the slot was not recorded.
	"dfl-n6000-ofs": {
		single:      []offered{slow(well("01:00.0", testResource, "dfl-port.0"))},
		af:          []offered{slow(well("01:00.0", notOffered, "dfl-port.0"))},
		region:      []offered{slow(well("01:00.0", "fpga.intel.com/region-98b4d5bc98ba5f4b98d9a2841ccf11b0", "dfl-port.0"))},
		regiondevel: []offered{slow(well("01:00.0", "fpga.intel.com/region-98b4d5bc98ba5f4b98d9a2841ccf11b0", "dfl-port.0", "dfl-fme.0"))},
	},
	// Its compat_id is in capitals.
	"dfl-pac-a10":  pacA10("dfl-port.0", "dfl-fme.0"),
	"opae-pac-a10": pacA10("intel-fpga-port.0", "intel-fpga-fme.0"),

	"kernel-6.1/sysfs/one-card":       pacWith(),
	"kernel-6.1/sysfs/one-card-again": pacWith(),
	"kernel-6.1/sysfs/two-cards": {
		single:      []offered{well("01:00.0", testResource, "dfl-port.0"), well("02:00.0", testResource, "dfl-port.1")},
		af:          []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", nlbOnPAC, "dfl-port.1")},
		region:      []offered{well("01:00.0", regionPAC, "dfl-port.0"), well("02:00.0", regionPAC, "dfl-port.1")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), well("02:00.0", regionPAC, "dfl-port.1", "dfl-fme.1")},
	},
	"kernel-6.1/sysfs/port1-released": {
		single: []offered{well("01:00.0", testResource, "dfl-port.0")},
		af:     []offered{well("01:00.0", nlbOnPAC, "dfl-port.0")},
		region: []offered{well("01:00.0", regionPAC, "dfl-port.0"), bad(well("02:00.0", regionPAC), "no-port")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"),
			bad(well("02:00.0", regionPAC, "dfl-fme.1"), "no-port")},
	},
	// The port of the second card was released and assigned: it is unbound.
	"kernel-6.1/sysfs/port0-error-ap6": {
		single: []offered{throttled(well("01:00.0", testResource, "dfl-port.0")),
			bad(well("02:00.0", testResource, "dfl-port.1"), "driver-unbound")},
		af: []offered{throttled(well("01:00.0", nlbOnPAC, "dfl-port.0")),
			bad(well("02:00.0", notOffered, "dfl-port.1"), "driver-unbound")},
		region: []offered{throttled(well("01:00.0", regionPAC, "dfl-port.0")),
			bad(well("02:00.0", regionPAC, "dfl-port.1"), "driver-unbound")},
		regiondevel: []offered{throttled(well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0")),
			bad(well("02:00.0", regionPAC, "dfl-port.1", "dfl-fme.1"), "driver-unbound")},
	},
	"kernel-6.1/sysfs/card-and-vf": withVirtual("03:00.0", notOffered),
	"kernel-6.1/sysfs/three-cards-and-vf": {
		single: []offered{well("01:00.0", testResource, "dfl-port.0"), well("02:00.0", testResource, "dfl-port.2"),
			well("03:00.0", testResource, "dfl-port.1"), well("04:00.0", testResource, "dfl-port.3")},
		af: []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", dmaOnD5005, "dfl-port.2"),
			well("03:00.0", notOffered, "dfl-port.1"), well("04:00.0", nlbOnPAC, "dfl-port.3")},
		region: []offered{well("01:00.0", regionPAC, "dfl-port.0"), well("02:00.0", regionD5005, "dfl-port.2"),
			well("03:00.0", notOffered, "dfl-port.1"), well("04:00.0", regionPAC, "dfl-port.3")},
		regiondevel: []offered{well("01:00.0", regionPAC, "dfl-port.0", "dfl-fme.0"), well("02:00.0", regionD5005, "dfl-port.2", "dfl-fme.1"),
			well("03:00.0", notOffered, "dfl-port.1"), well("04:00.0", regionPAC, "dfl-port.3", "dfl-fme.2")},
	},
	"kernel-6.1/sysfs/after-reload": {
		single: []offered{well("02:00.0", testResource, "dfl-port.1"), well("03:00.0", testResource, "dfl-port.0"),
			well("04:00.0", testResource, "dfl-port.2")},
		af: []offered{well("02:00.0", dmaOnD5005, "dfl-port.1"), well("03:00.0", notOffered, "dfl-port.0"),
			well("04:00.0", nlbOnPAC, "dfl-port.2")},
		region: []offered{well("02:00.0", regionD5005, "dfl-port.1"), well("03:00.0", notOffered, "dfl-port.0"),
			well("04:00.0", regionPAC, "dfl-port.2")},
		regiondevel: []offered{well("02:00.0", regionD5005, "dfl-port.1", "dfl-fme.0"), well("03:00.0", notOffered, "dfl-port.0"),
			well("04:00.0", regionPAC, "dfl-port.2", "dfl-fme.1")},
	},
}

func slow(d offered) offered      { return poor(d, "link-speed=8.0", "link-width=8") }
func throttled(d offered) offered { return bad(d, "power-throttled=6", "port-tx=ch0-overflow") }

// pacA10 returns the same card with either driver.
func pacA10(port, fme string) byMode {
	return byMode{
		single:      []offered{well("05:00.0", testResource, port)},
		af:          []offered{well("05:00.0", "fpga.intel.com/af-f64.d84.9k5Zi-oRUX-ijnvGXYhRBNhCTcSko8QT-J5DNoP5BAs", port)},
		region:      []offered{well("05:00.0", "fpga.intel.com/region-f64e598bea11517fa28e7bc65d885104", port)},
		regiondevel: []offered{well("05:00.0", "fpga.intel.com/region-f64e598bea11517fa28e7bc65d885104", port, fme)},
	}
}

// TestOfferedRecordings prints every recording in every mode. It is skipped only
// if there are no recordings beside the source tree.
func TestOfferedRecordings(t *testing.T) {
	if _, err := os.Stat(recordingsDir); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no recordings in %s beside the source", recordingsDir)
	}
	names := archives(t)
	if len(names) < len(recordings) {
		t.Errorf("%d recordings, want %d", len(names), len(recordings))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			want, ok := recordings[name]
			if !ok {
				t.Fatal("the test has no devices for this recording")
			}
			root, err := board.Unpack(t.TempDir(), filepath.Join(recordingsDir, name+".tar.gz"))
			if err != nil {
				t.Fatal(err)
			}
			makeNodes(t, root)
			want.check(t, root)
		})
	}
}

// archives returns the names of the recorded trees, without their suffix.
func archives(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(recordingsDir, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, ".tar.gz"); err == nil && ok {
			name, err = filepath.Rel(recordingsDir, name)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// nodeName matches the name of a device that has a node of the same name, bound or not.
var nodeName = regexp.MustCompile(`^(dfl|intel-fpga)-(port|fme)\.[0-9]+$`)

// makeNodes makes the nodes that the recorded kernel had made. In a simulated tree a regular file counts as a
// node.
func makeNodes(t *testing.T, root string) {
	t.Helper()
	if err := os.MkdirAll(root+"/dev", 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root+"/sys/devices", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && nodeName.MatchString(d.Name()) {
			err = os.WriteFile(filepath.Join(root, "dev", d.Name()), nil, 0o644)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Without nodes, no device is offered, and each device keeps its resource.
func TestOfferedWithoutNodes(t *testing.T) {
	root := unfold(t, "kernel-6.1-one-card")
	if err := os.RemoveAll(root + "/dev"); err != nil {
		t.Fatal(err)
	}
	pacWith("node-missing").check(t, root)
}
