package view_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	measured "b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var devices = []*inventory.Device{
	{
		ID: "3b:00.0", OfferedAs: "b-com.com/accelerator", Family: "dfl", PCIAddress: "0000:3b:00.0", Facts: inventory.Facts{PCIID: "8086:09c4:8086:0000", NUMANode: 1, PortID: 0,
			AFUID: "d8424dc4a4a3c413f89e433683f9040b", InterfaceID: "69528db6eb31577a8c3668f9faa081f6",
			Nodes: []string{"dfl-port.0"}, Parent: "dfl-fme.0", ParentNodes: []string{"dfl-fme.0"},
			Members: []string{"0000:3b:00.1"}, Attributes: map[string]string{"iommuGroup": "12", "a": "b"}, SharedNodes: []string{"vfio/vfio"},
			Mounts: []string{"devices/x/resource0"}},
	},
	{
		ID: "3b:00.0-p1", Family: "dfl", Health: inventory.Unhealthy, Reasons: []string{"port-ap6", "recovering=node-missing"},
		PCIAddress: "0000:3b:00.0", Facts: inventory.Facts{NUMANode: -1, PortID: -1},
	},
}

// list returns a list with these devices. The first one is held, the second one was allocated, and their card is
// cordoned.
func list(devices ...*inventory.Device) view.List {
	return view.List{
		Devices: devices, HostDev: "/dev", HostSys: "/sys", Use: inventory.Holdings{Asked: time.Unix(1, 0), Of: map[string][]inventory.Holding{
			"3b:00.0": {{As: "b-com.com/accelerator", Holders: []string{"default/pod/main"}}}, "3b:00.0-p1": {{As: "b-com.com/accelerator"}},
		}},
		Sensors: map[string]measured.Card{"0000:3b:00.0": { // for both ports
			Summary: []sensors.Reading{
				{Name: sensors.Die, Kind: sensors.Temperature, Value: 43.5, Limits: sensors.Limits{Max: 90, Crit: 100}, Of: "FPGA Core Temperature"},
				{Name: sensors.Board, Kind: sensors.Power, Value: 50.909, Of: "Board Power"},
			},
			All: []sensors.Reading{{Chip: "bmc", Name: "Board Power", Kind: sensors.Power, Value: 50.909}},
		}},
		Cordons: []cordon.Cordon{{Device: "3b:00.0", By: "jo", Why: "fan", Since: time.Date(2026, 11, 22, 10, 22, 13, 0, time.UTC)}},
	}
}

func rows() []view.Row { return list(devices...).Rows() }

// A pod's UID is known if it is the only holder and the checkpoint has exactly one entry.
func TestHolderUIDs(t *testing.T) {
	for _, test := range []struct {
		name                string
		holders, containers []string
		want                []string
	}{
		{"one", []string{"default/pod/main"}, []string{"uid-1/main"}, []string{"uid-1"}},
		{"no checkpoint", []string{"default/pod/main"}, nil, nil},
		{"two entries", []string{"default/pod/main"}, []string{"uid-1/main", "uid-2/main"}, nil},
		{"two holders", []string{"default/a/main", "default/b/main"}, []string{"uid-1/main"}, nil},
		{"another container", []string{"default/pod/main"}, []string{"uid-1/init"}, nil},
		{"no holder", nil, []string{"uid-1/main"}, nil},
	} {
		l := list(devices[0])
		l.Use.Of["3b:00.0"] = []inventory.Holding{{As: "b-com.com/accelerator", Holders: test.holders, Containers: test.containers}}
		compare.Values(t, test.name, test.want, l.Rows()[0].HolderUIDs)
	}
}

// Missing cards are rows after the devices.
func TestMissing(t *testing.T) {
	l := list(devices[0])
	since := time.Date(2026, 11, 20, 3, 12, 9, 0, time.UTC)
	// A container still holds a device on the first card, which is therefore listed.
	l.Missing = []ledger.Missing{{Card: "3b:00.0", Since: since}, {Card: "0001:5e:00.0", Since: since, Model: "8086:09c4:8086:0001"}}
	all := l.Rows()
	want := view.Row{
		ID: "0001:5e:00.0", Health: "unhealthy", Reasons: []string{"missing"}, PCIAddress: "0001:5e:00.0", MissingSince: &since,
		PCIVendor: "8086", PCIDevice: "09c4", PCIID: "8086:09c4", Subsystem: "8086:0001", HolderKnown: true, Held: new(bool),
	}
	if diff := cmp.Diff(want, all[len(all)-1], cmpopts.EquateEmpty()); diff != "" || len(all) != 2 {
		t.Errorf("%d rows, the last one (-want +got):\n%s", len(all), diff)
	}
}

func TestPrint(t *testing.T) {
	for _, test := range []struct {
		name, format string
		rows         []view.Row
		colour       bool
		want         string
	}{
		{"table", "", rows(), false, `ID          HEALTH     HOLDER            REASONS                           NODES            RESOURCE
3b:00.0     healthy    default/pod/main  -                                 /dev/dfl-port.0  b-com.com/accelerator
3b:00.0-p1  unhealthy  not named yet     port-ap6,recovering=node-missing  -                -
`},
		{"table in colour", "", rows()[:1], true, "ID       \x1b[39mHEALTH\x1b[0m   HOLDER            REASONS  NODES            RESOURCE\n" +
			"3b:00.0  \x1b[32mhealthy\x1b[0m  default/pod/main  -        /dev/dfl-port.0  b-com.com/accelerator\n"},
		{"empty table", "wide", nil, false, "no devices\n"},
		{"empty JSON", "json", view.List{}.Rows(), false, "[]\n"},
		{"empty YAML", "yaml", view.List{}.Rows(), false, "[]\n"},
		{"JSON", "json", rows()[:1], false, `[
  {
    "id": "3b:00.0",
    "resource": "b-com.com/accelerator",
    "family": "dfl",
    "health": "healthy",
    "reasons": [],
    "pciAddress": "0000:3b:00.0",
    "pciVendor": "8086",
    "pciDevice": "09c4",
    "numaNode": 1,
    "portId": 0,
    "afuId": "d8424dc4a4a3c413f89e433683f9040b",
    "interfaceId": "69528db6eb31577a8c3668f9faa081f6",
    "deviceNodes": [
      "/dev/dfl-port.0"
    ],
    "parent": "dfl-fme.0",
    "holder": [
      "default/pod/main"
    ],
    "holderKnown": true,
    "held": true,
    "nodeNumbers": [],
    "parentNodes": [
      "dfl-fme.0"
    ],
    "cordon": {
      "device": "3b:00.0",
      "by": "jo",
      "why": "fan",
      "since": "2026-11-22T10:22:13Z"
    },
    "sensors": [
      {
        "chip": "",
        "sensor": "die",
        "kind": "temperature",
        "value": 43.5,
        "max": 90,
        "crit": 100,
        "of": "FPGA Core Temperature"
      },
      {
        "chip": "",
        "sensor": "board",
        "kind": "power",
        "value": 50.909,
        "of": "Board Power"
      },
      {
        "chip": "bmc",
        "sensor": "Board Power",
        "kind": "power",
        "value": 50.909
      }
    ],
    "pciId": "8086:09c4",
    "subsystem": "8086:0000",
    "attributes": {
      "a": "b",
      "iommuGroup": "12"
    },
    "members": [
      "0000:3b:00.1"
    ],
    "sharedNodes": [
      "/dev/vfio/vfio"
    ],
    "mounts": [
      "/sys/devices/x/resource0"
    ]
  }
]
`},
		{"wide table", "wide", rows(), false, `ID          HEALTH     HOLDER            REASONS                           NODES            FAMILY  PCI           NUMA  PORT  PARENT     AFU                               INTERFACE                         PCI-ID     SUBSYSTEM  MEMBERS       ATTRIBUTES         SENSORS                  RESOURCE
3b:00.0     healthy    default/pod/main  -                                 /dev/dfl-port.0  dfl     0000:3b:00.0  1     0     dfl-fme.0  d8424dc4a4a3c413f89e433683f9040b  69528db6eb31577a8c3668f9faa081f6  8086:09c4  8086:0000  0000:3b:00.1  a=b,iommuGroup=12  die=43.5°C,board=50.91W  b-com.com/accelerator
3b:00.0-p1  unhealthy  not named yet     port-ap6,recovering=node-missing  -                dfl     0000:3b:00.0  -     -     -          -                                 -                                 -          -          -             -                  die=43.5°C,board=50.91W  -
`},
		{"holders not requested", "", view.List{Devices: []*inventory.Device{{ID: "3b:00.0", OfferedAs: "r"}}}.Rows(), false,
			"ID       HEALTH   HOLDER  REASONS  NODES  RESOURCE\n3b:00.0  healthy  ?       -        -      r\n"},
	} {
		var got strings.Builder
		must.Succeed(t, view.Print(&got, test.rows, test.format, test.colour))
		compare.Values(t, test.name+": output", test.want, got.String())
	}
}

// YAML has the same content as JSON, including its types.
func TestPrintYAML(t *testing.T) {
	var asYAML, asJSON strings.Builder
	must.Succeed(t, view.Print(&asYAML, rows(), "yaml", false), view.Print(&asJSON, rows(), "json", false))
	compare.Contains(t, "YAML", "  deviceNodes:\n    - /dev/dfl-port.0\n  parent: dfl-fme.0\n", asYAML.String())
	var read any
	must.Succeed(t, yaml.Unmarshal([]byte(asYAML.String()), &read))
	text := must.Value(json.MarshalIndent(read, "", "  "))(t)
	var want, got any
	must.Succeed(t, json.Unmarshal([]byte(asJSON.String()), &want), json.Unmarshal(text, &got))
	compare.Values(t, "content", want, got)
}

// Names come from the kubelet and the kernel, and must not be able to control a terminal.
func TestNamesWithControlCharacters(t *testing.T) {
	const csi = "\u009b" // the same as ESC [, but in one character
	row := view.Row{
		ID: "3b\x1b[2J", Resource: "r\x7f", Health: "healthy", Reasons: []string{"a" + csi + "b"}, DeviceNodes: []string{"/dev/\a"},
		PCIAddress: "0000\b", Parent: "fme\x00", AFUID: "\r", Family: "f\t", Holder: []string{"ns/pod\x1b]0;title\a/main\u0085"}, HolderKnown: true,
	}
	change := view.Change{Time: "T", What: "added", Row: row}
	outputs := map[string]string{"line": change.Line(false)}
	text := must.Value(change.JSON())(t)
	outputs["JSON line"] = string(text)
	for _, format := range append(view.Formats, "") {
		var out strings.Builder
		must.Succeed(t, view.Print(&out, []view.Row{row}, format, false))
		outputs["format "+format] = out.String()
	}
	for name, out := range outputs {
		for line := range strings.Lines(out) {
			if line = strings.TrimSuffix(line, "\n"); strings.IndexFunc(line, unicode.IsControl) >= 0 {
				t.Errorf("%s: found a control character in %q", name, line)
			}
		}
	}
	want := `T  added    3b\x1b[2J       healthy    r\x7f  reasons=a\u009bb nodes=/dev/\a afu=\r holder=ns/pod\x1b]0;title\a/main\u0085`
	compare.Values(t, "line", want, outputs["line"])
	var got view.Change
	if err := json.Unmarshal(text, &got); err != nil || cmp.Diff(change, got) != "" {
		t.Errorf("JSON line: %v (-want +got):\n%s", err, cmp.Diff(change, got))
	}
}

func TestChanges(t *testing.T) {
	a, b := devices[0], devices[1]
	broken, renumbered := *a, *a
	broken.Health, broken.Reasons = inventory.Unhealthy, []string{"port-ap6"}
	renumbered.NodeNumbers = []string{"245:0"}
	freed, unknown := list(a, b), list(a, b)
	freed.Use.Of = map[string][]inventory.Holding{"3b:00.0-p1": {{As: "b-com.com/accelerator"}}}
	unknown.Use = inventory.Holdings{Missing: []inventory.MissingSource{{Name: "pod-resources", Err: errors.New("no answer")}}}
	cool := list(a, b)
	cool.Sensors = nil
	unsure := freed // a device without a named holder is still known to be held
	unsure.Use.Awaiting = true
	for _, test := range []struct {
		name        string
		before, now view.List
		want        []string
	}{
		{"nothing", list(a, b), list(a, b), nil},
		{"values of sensors", list(a, b), cool, nil},
		{"another node", list(a, b), list(&renumbered, b), []string{
			"T  changed  3b:00.0         healthy    b-com.com/accelerator  nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b holder=default/pod/main"}},
		{"added", view.List{}, list(a), []string{
			"T  added    3b:00.0         healthy    b-com.com/accelerator  nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b holder=default/pod/main"}},
		{"removed and added", list(b), list(a), []string{
			"T  removed  3b:00.0-p1      -          -  reasons=port-ap6,recovering=node-missing holder=not named yet",
			"T  added    3b:00.0         healthy    b-com.com/accelerator  nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b holder=default/pod/main"}},
		{"removed while held", list(a, b), list(b), []string{
			"T  removed  3b:00.0         -          b-com.com/accelerator  nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b holder=default/pod/main"}},
		{"changed", list(a, b), list(&broken, b), []string{
			"T  changed  3b:00.0         unhealthy  b-com.com/accelerator  reasons=port-ap6 nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b holder=default/pod/main"}},
		{"held no longer", list(a, b), freed, []string{
			"T  changed  3b:00.0         healthy    b-com.com/accelerator  nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b"}},
		{"holders not known any more", list(a, b), unknown, []string{
			"T  changed  3b:00.0         healthy    b-com.com/accelerator  nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b holder=?",
			"T  changed  3b:00.0-p1      unhealthy  -  reasons=port-ap6,recovering=node-missing holder=?"}},
		{"the kubelet restarts", freed, unsure, []string{
			"T  changed  3b:00.0         healthy    b-com.com/accelerator  nodes=/dev/dfl-port.0 afu=d8424dc4a4a3c413f89e433683f9040b holder=?"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, c := range view.Changes(test.before.Rows(), test.now.Rows(), "T") {
				got = append(got, c.Line(false))
			}
			compare.Values(t, "lines", test.want, got)
		})
	}
}
