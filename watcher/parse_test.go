package watcher_test

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/watcher"
	"github.com/pilebones/go-udev/netlink"
)

// Messages from Linux 6.1, byte for byte, and some that a kernel could send.
const (
	pciAdd = "add@/devices/pci0000:00/0000:00:02.0/0000:02:00.0\x00ACTION=add\x00" +
		"DEVPATH=/devices/pci0000:00/0000:00:02.0/0000:02:00.0\x00SUBSYSTEM=pci\x00PCI_CLASS=120000\x00PCI_ID=8086:09C4\x00" +
		"PCI_SUBSYS_ID=8086:0000\x00PCI_SLOT_NAME=0000:02:00.0\x00" +
		"MODALIAS=pci:v00008086d000009C4sv00008086sd00000000bc12sc00i00\x00SEQNUM=682\x00"
	portBind = "bind@/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0/dfl-port.0\x00ACTION=bind\x00" +
		"DEVPATH=/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0/dfl-port.0\x00SUBSYSTEM=platform\x00" +
		"MAJOR=245\x00MINOR=0\x00DEVNAME=dfl-port.0\x00DRIVER=dfl-port\x00MODALIAS=platform:dfl-port\x00SEQNUM=744\x00"
	regionAdd = "add@/devices/pci0000:00/0000:00:02.0/0000:02:00.0/fpga_region/region2\x00ACTION=add\x00" +
		"DEVPATH=/devices/pci0000:00/0000:00:02.0/0000:02:00.0/fpga_region/region2\x00SUBSYSTEM=fpga_region\x00SEQNUM=683\x00"
	wakeupAdd = "add@/devices/LNXSYSTM:00/LNXSYBUS:00/PNP0A08:00/device:03/device:04/wakeup/wakeup11\x00ACTION=add\x00" +
		"DEVPATH=/devices/LNXSYSTM:00/LNXSYBUS:00/PNP0A08:00/device:03/device:04/wakeup/wakeup11\x00SUBSYSTEM=wakeup\x00SEQNUM=681\x00"
	synthetic = "change@/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0\x00ACTION=change\x00" +
		"DEVPATH=/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0\x00SUBSYSTEM=fpga_region\x00SYNTH_UUID=0\x00SEQNUM=743\x00"
	pciError = "change@/devices/pci0000:00/0000:02:00.0\x00ACTION=change\x00DEVPATH=/devices/pci0000:00/0000:02:00.0\x00" +
		"SUBSYSTEM=pci\x00ERROR_EVENT=FAILED_RECOVERY\x00DEVICE_ONLINE=0\x00PCI_SLOT_NAME=0000:02:00.0\x00SEQNUM=9\x00"
	socChange = "change@/devices/platform/soc@0/ffd03000.fpga/fpga_manager/fpga0\x00ACTION=change\x00" +
		"DEVPATH=/devices/platform/soc@0/ffd03000.fpga/fpga_manager/fpga0\x00SUBSYSTEM=fpga_manager\x00ARG=a=b\x00SEQNUM=7\x00"
)

var malformed = []struct{ name, raw string }{
	{"empty", ""},
	{"no NUL", "add@/devices/x"},
	{"only NUL", "\x00"},
	{"no @", "add\x00ACTION=add\x00DEVPATH=/a\x00SUBSYSTEM=pci\x00"},
	{"no action", "@/a\x00ACTION=add\x00DEVPATH=/a\x00SUBSYSTEM=pci\x00"},
	{"header alone", "add@/a\x00"},
	{"without ACTION", "add@/a\x00DEVPATH=/a\x00SUBSYSTEM=pci\x00"},
	{"without DEVPATH", "add@/a\x00ACTION=add\x00SUBSYSTEM=pci\x00"},
	{"without SUBSYSTEM", "add@/a\x00ACTION=add\x00DEVPATH=/a\x00"},
	{"empty SUBSYSTEM", "add@/a\x00ACTION=add\x00DEVPATH=/a\x00SUBSYSTEM=\x00"},
	{"another ACTION", "add@/a\x00ACTION=remove\x00DEVPATH=/a\x00SUBSYSTEM=pci\x00"},
	{"another DEVPATH", "add@/a\x00ACTION=add\x00DEVPATH=/b\x00SUBSYSTEM=pci\x00"},
	{"variable without =", "add@/a\x00ACTION=add\x00DEVPATH=/a\x00SUBSYSTEM=pci\x00SEQNUM\x00"},
	{"two NUL", "add@/a\x00\x00ACTION=add\x00DEVPATH=/a\x00SUBSYSTEM=pci\x00"},
	{"cut", strings.TrimSuffix(pciAdd, "2\x00")},
	{"of udevd", "libudev\x00\xfe\xed\xca\xfe" + pciAdd},
}

func TestMalformed(t *testing.T) {
	judge := watcher.Judge()
	for _, tt := range malformed {
		t.Run(tt.name, func(t *testing.T) {
			if hint, ok, err := judge([]byte(tt.raw)); err == nil {
				t.Errorf("accepted: hint %+v, relevant %v", hint, ok)
			}
		})
	}
}

// goudev calls go-udev's parser. It returns false if the parser fails or panics.
func goudev(raw []byte) (ev *netlink.UEvent, ok bool) {
	defer func() {
		if recover() != nil {
			ev, ok = nil, false
		}
	}()
	ev, err := netlink.ParseUEvent(raw)
	return ev, err == nil
}

// FuzzParse checks that Parse accepts every kernel-format message that go-udev accepts, with the same result, and that
// it never panics.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{pciAdd, portBind, regionAdd, wakeupAdd, synthetic, pciError, socChange} {
		f.Add([]byte(raw))
	}
	for _, m := range malformed {
		f.Add([]byte(m.raw))
	}
	for _, raw := range []string{
		"bind@\x00=\x00", "add@/a\x00DEVNAME=x=y=\x00", "add@/a\x00DEVNAME=x\x00DEVNAME=y\x00", "add@/a\x00SEQNUM=99999999999999999999\x00",
	} {
		f.Add([]byte(raw))
	}
	files := must.Value(filepath.Glob("testdata/uevents/*-card-*.txt"))(f)
	for _, file := range files {
		for _, raw := range quoted(f, file) {
			f.Add(raw)
		}
	}
	judge := watcher.Judge()
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		got, err := watcher.Parse(raw)
		if _, _, judged := judge(raw); judged == nil && err != nil {
			t.Errorf("Judge accepts the message, Parse does not: %v", err)
		}
		if !bytes.Equal(before, raw) {
			t.Errorf("the message was changed")
		}
		theirs, ok := goudev(raw)
		if !ok || bytes.HasPrefix(raw, []byte("libudev\x00")) {
			return
		}
		if err != nil {
			t.Fatalf("refused, go-udev accepts %+v: %v", theirs, err)
		}
		want := watcher.Parsed{Action: string(theirs.Action), Devpath: theirs.KObj, Env: map[string]string{}}
		if number, err := strconv.ParseUint(theirs.Env["SEQNUM"], 10, 64); err == nil {
			want.Seqnum = number
		}
		for _, key := range watcher.Extracted {
			if v := theirs.Env[key]; v != "" {
				want.Env[key] = v
			}
		}
		compare.Values(t, "Parse (-go-udev +ours)", want, got)
	})
}
