package watcher_test

import (
	"fmt"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/watcher"
)

// message returns a uevent with the variables that the kernel always sends.
func message(action, devpath, subsystem string, more ...string) []byte {
	raw := action + "@" + devpath + "\x00ACTION=" + action + "\x00DEVPATH=" + devpath + "\x00SUBSYSTEM=" + subsystem + "\x00"
	for _, variable := range append(more, "SEQNUM=1") {
		raw += variable + "\x00"
	}
	return []byte(raw)
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name     string
		raw      []byte
		more     []string // subsystems
		relevant bool
		want     watcher.Hint
	}{
		{"pci add", []byte(pciAdd), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"port bind", []byte(portBind), nil, true, watcher.Hint{Card: "0000:01:00.0"}},
		{"region add", []byte(regionAdd), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"error recovery begun", message("change", "/devices/0000:02:00.0", "pci", "ERROR_EVENT=BEGIN_RECOVERY", "DEVICE_ONLINE=0"), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"error recovered", message("change", "/devices/0000:02:00.0", "pci", "ERROR_EVENT=SUCCESSFUL_RECOVERY", "DEVICE_ONLINE=1"), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"recovery failed", []byte(pciError), nil, true, watcher.Hint{Card: "0000:02:00.0", RecoveryFailed: true}},
		{"recovery failed, device below a card", message("change", "/devices/0000:02:00.0/x", "fpga_region", "ERROR_EVENT=FAILED_RECOVERY"), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"recovery failed, action remove", message("remove", "/devices/0000:02:00.0", "pci", "ERROR_EVENT=FAILED_RECOVERY"), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"recovery failed, no card", message("change", "/devices/virtual/x", "pci", "ERROR_EVENT=FAILED_RECOVERY"), nil, true, watcher.Hint{}},
		{"wakeup", []byte(wakeupAdd), nil, false, watcher.Hint{}},
		{"opae class", message("add", "/devices/pci0000:ae/0000:af:00.0/fpga/intel-fpga-dev.0", "fpga"), nil, true, watcher.Hint{Card: "0000:af:00.0"}},
		{"fpga manager of a SoC", []byte(socChange), nil, true, watcher.Hint{}},
		{"fpga region of a SoC", message("add", "/devices/platform/soc@0/base/fpga_region/region0", "fpga_region"), nil, true, watcher.Hint{}},
		{"platform without card", message("add", "/devices/platform/serial8250", "platform"), nil, false, watcher.Hint{}},
		{"pci by slot name only", message("remove", "/devices/virtual/x", "pci", "PCI_SLOT_NAME=0000:02:00.0"), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"pci without address", message("add", "/devices/virtual/x", "pci"), nil, true, watcher.Hint{}},
		{"unknown action", message("reset", "/devices/0000:02:00.0", "pci"), nil, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"hwmon below a card", message("add", "/devices/0000:02:00.0/hwmon/hwmon0", "hwmon"), nil, false, watcher.Hint{}},
		{"module", message("add", "/module/dfl_pci", "module"), nil, false, watcher.Hint{}},
		{"subsystem of a family", message("add", "/devices/0000:02:00.0/drm/renderD128", "drm"), []string{"drm"}, true, watcher.Hint{Card: "0000:02:00.0"}},
		{"subsystem of a family, no card", message("change", "/devices/virtual/mem/null", "mem"), []string{"mem"}, true, watcher.Hint{}},
		{"subsystem is not a prefix", message("add", "/devices/0000:02:00.0/x", "pci_bus"), nil, false, watcher.Hint{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, relevant, err := watcher.Judge(tt.more...)(tt.raw)
			if err != nil {
				t.Fatalf("malformed: %v", err)
			}
			compare.Equal(t, "relevant", tt.relevant, relevant)
			compare.Values(t, "hint", tt.want, got)
		})
	}
}

// Filtering out a uevent doesn't allocate.
func TestJudgeAllocatesNothing(t *testing.T) {
	judge := watcher.Judge("drm")
	for _, raw := range [][]byte{[]byte(wakeupAdd), message("add", "/devices/platform/serial8250", "platform"), []byte("add@/x")} {
		compare.Equal(t, fmt.Sprintf("%q: allocations", raw), 0, testing.AllocsPerRun(1000, func() { _, _, _ = judge(raw) }))
	}
}

func BenchmarkJudge(b *testing.B) {
	for _, bb := range []struct {
		name, raw string
	}{{"irrelevant", wakeupAdd}, {"relevant", portBind}} {
		b.Run(bb.name, func(b *testing.B) {
			judge, raw := watcher.Judge(), []byte(bb.raw)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := judge(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
