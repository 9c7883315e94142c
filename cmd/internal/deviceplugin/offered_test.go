package deviceplugin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The resources of the boards and recordings. These names were not made by our code, but as Intel's plugin
// documents them. For the interface id I and the AFU id A it is the output of
//
//	printf $I$A | xxd -r -p | base64 -w0 | tr +/ -_ | tr -d =
//
// after the first three digits of each. A constant for a name of mode af has a short name for the AFU and for
// the card's interface.
const (
	nlbOnPAC     = "fpga.intel.com/af-695.d84.aVKNtusxV3qMNmj5-qCB9thCTcSko8QT-J5DNoP5BAs" // 69528db6eb31577a8c3668f9faa081f6 d8424dc4a4a3c413f89e433683f9040b
	dmaOnPAC     = "fpga.intel.com/af-695.bfa.aVKNtusxV3qMNmj5-qCB9r-vKulKUkbjgv448Pnhd2Q" // 69528db6eb31577a8c3668f9faa081f6 bfaf2ae94a5246e382fe38f0f9e17764
	dmaOnD5005   = "fpga.intel.com/af-934.bfa.k0YRbU5Mtm6hy-kuHh-PXr-vKulKUkbjgv448Pnhd2Q" // 9346116d4e4cb66ea1cbe92e1e1f8f5e bfaf2ae94a5246e382fe38f0f9e17764
	otherOnPAC   = "fpga.intel.com/af-695.f7d.aVKNtusxV3qMNmj5-qCB9vffQFy9es9yIvFEsLk6zRg" // 69528db6eb31577a8c3668f9faa081f6 f7df405cbd7acf7222f144b0b93acd18
	countsOnOPAE = "fpga.intel.com/af-a1b.001.obLD1OX2BxgpOktcbX6PkAARIjNEVWZ3iJmqu8zd7v8" // a1b2c3d4e5f60718293a4b5c6d7e8f90 00112233445566778899aabbccddeeff

	regionPAC   = "fpga.intel.com/region-69528db6eb31577a8c3668f9faa081f6"
	regionD5005 = "fpga.intel.com/region-9346116d4e4cb66ea1cbe92e1e1f8f5e"
	regionOPAE  = "fpga.intel.com/region-a1b2c3d4e5f60718293a4b5c6d7e8f90"
	regionN6000 = "fpga.intel.com/region-98b4d5bc98ba5f4b98d9a2841ccf11b0"
	regionMulti = "fpga.intel.com/region-0c1d2e3f405162738495a6b7c8d9eafb"

	notOffered = ""
)

// offered is a device as `devices` prints it, with only those fields that the kubelet also gets.
type offered struct {
	ID, Resource, Health string
	Reasons, DeviceNodes []string
	Holder               []string
}

// well returns a healthy device; the nodes are names below /dev.
func well(id, resource string, nodes ...string) offered {
	d := offered{ID: id, Resource: resource, Health: "healthy", Reasons: []string{}, DeviceNodes: []string{}, Holder: []string{}}
	for _, n := range nodes {
		d.DeviceNodes = append(d.DeviceNodes, "/dev/"+n)
	}
	return d
}

// bad returns d unhealthy for these reasons.
func bad(d offered, reasons ...string) offered { d.Health, d.Reasons = "unhealthy", reasons; return d }

// heldBy returns d, held by one container.
func heldBy(d offered, holder string) offered { d.Holder = []string{holder}; return d }

// byMode lists the devices of a node in each mode.
type byMode struct{ single, af, region, regiondevel []offered }

// check scans the node below root in every mode. Its devices are free.
func (want byMode) check(t *testing.T, root string, cfg config.Config) {
	t.Helper()
	_, cfg.PodResourcesSocket = servePods(t)
	for _, tt := range []struct {
		mode string
		want []offered
	}{{"single", want.single}, {"af", want.af}, {"region", want.region}, {"regiondevel", want.regiondevel}} {
		cfg.Mode = tt.mode
		compare.Values(t, fmt.Sprintf("mode %s", tt.mode), append([]offered{}, tt.want...), rowsOf(t, scan(t, root, cfg)))
	}
}

// settings returns the settings of a file with this text.
func settings(t *testing.T, text string) config.Config {
	t.Helper()
	loader := daemon.NewLoader()
	loader.Config.File = filepath.Join(t.TempDir(), "config.yaml")
	err := os.WriteFile(loader.Config.File, []byte(text), 0o600)
	must.Succeed(t, err, loader.Load(func(string) (string, bool) { return "", false }))
	cfg := loader.Config
	cfg.HostDevRoot, cfg.KubeletDir = "/dev", "/nonexistent"
	return cfg
}

// scan returns what `devices --scan` prints on the node below root, whose holders are known.
func scan(t *testing.T, root string, cfg config.Config) control.State {
	t.Helper()
	cfg.SysfsRoot, cfg.DevRoot = root+"/sys", root+"/dev"
	state, err := deviceplugin.Scan(t.Context(), cfg, true)
	if err != nil || state.HoldersError != "" {
		t.Fatalf("scan: %v, holders: %q; want no error", err, state.HoldersError)
	}
	return state
}

// rowsOf returns the devices as in the JSON output.
func rowsOf(t *testing.T, state control.State) (rows []offered) {
	t.Helper()
	text, err := json.Marshal(state.Devices)
	must.Succeed(t, err, json.Unmarshal(text, &rows))
	return append([]offered{}, rows...)
}

// servePods starts a kubelet that answers requests for holders, without holders at first.
func servePods(t *testing.T) (pods *simkubelet.PodResources, socket string) {
	t.Helper()
	socket = filepath.Join(cmdtest.ShortDir(t), "pods.sock")
	pods = must.Value(simkubelet.StartPodResources(t.Context(), socket))(t)
	t.Cleanup(pods.Stop)
	return pods, socket
}

// A kubelet that hangs delays a scan for a short time, and the holders are not known.
func TestScanWhileTheKubeletHangs(t *testing.T) {
	t.Parallel()
	pods, socket := servePods(t)
	pods.Behave(simkubelet.PodBehaviour{Stall: true})
	cfg, root := settings(t, ""), unfold(t, "kernel-6.1-one-card")
	cfg.SysfsRoot, cfg.DevRoot, cfg.PodResourcesSocket = root+"/sys", root+"/dev", socket
	state, err := deviceplugin.Scan(t.Context(), cfg, false)
	if err != nil || len(state.Devices) != 1 || state.Devices[0].HolderKnown || !strings.Contains(state.HoldersError, "DeadlineExceeded") {
		t.Errorf("scan: %+v, error %v; want a device with an unknown holder", state, err)
	}
}

// Rules of the settings, on a board in a mode. The tests of package offer have all kinds of rules. Rules that match no
// device are listed.
func TestOfferedByRules(t *testing.T) {
	for _, tt := range []struct {
		name, board, mode string
		rules             string // below resources:
		want              []offered
		idle              []string
	}{
		{"first match wins", "dfl-two-ports", "af", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "0001:3b:00.0"}}
- {name: example.com/dma, match: {afuId: bfaf2ae94a5246e382fe38f0f9e17764}}
- {name: example.com/gone, match: {pciVendor: "1234", pciDevice: abcd}}
`, []offered{
			well("0001:3b:00.0", "example.com/nlb", "dfl-port.9"), well("0001:3b:00.0-p1", "example.com/card", "dfl-port.10"),
		}, []string{"rule 3 of resources: example.com/dma for afuId=bfaf2ae94a5246e382fe38f0f9e17764",
			"rule 4 of resources: example.com/gone for pciVendor=1234 pciDevice=abcd"}},
		{"the mode names the rest", "kernel-6.1-two-cards", "af", `
- {name: example.com/big, match: {pciVendor: "8086", pciDevice: 0b2b}}
`, []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", "example.com/big", "dfl-port.1")}, []string{}},
		{"pods change the AFU of a region", "kernel-6.1-one-card", "region", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "01:00.0", afuId: d8424dc4a4a3c413f89e433683f9040b}}
`, []offered{well("01:00.0", regionPAC, "dfl-port.0")},
			[]string{"rule 1 of resources: example.com/nlb for afuId=d8424dc4a4a3c413f89e433683f9040b",
				"rule 2 of resources: example.com/card for pciAddress=01:00.0 afuId=d8424dc4a4a3c413f89e433683f9040b"}},
		{"what the mode cannot name", "kernel-6.1-virtual-function", "af", `
- {name: example.com/vf, match: {pciAddress: "0000:02:00.0", family: dfl}}
`, []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", "example.com/vf", "dfl-port.1")}, []string{}},
		{"rules have no effect in mode pool", "kernel-6.1-one-card", "pool", `
- {name: example.com/any, match: {family: dfl}}
accelNbunits: 2
`, []offered{well("0", testResource), well("1", testResource)}, []string{"rule 1 of resources: example.com/any for family=dfl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := settings(t, "resources:"+tt.rules)
			cfg.Mode = tt.mode
			_, cfg.PodResourcesSocket = servePods(t)
			state := scan(t, unfold(t, tt.board), cfg)
			compare.Values(t, "devices", tt.want, rowsOf(t, state))
			compare.Values(t, "rules that apply to no device", tt.idle, state.IdleRules)
		})
	}
}
