package simnode

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// pciID contains a card's and its subsystem's PCI IDs.
type pciID struct{ vendor, device, subVendor, subDevice uint16 }

// defaultID returns the IDs of a card whose PCIID is "".
func (c Card) defaultID() string {
	switch {
	case c.Slot == Application:
		return "1d0f:9048:1d0f:1d51" // for a slot without an image
	case c.Slot == Management:
		return "1d0f:9248:1d0f:1d51"
	case c.Group != "" && c.PhysFn == "":
		return "8086:bcce:8086:1771"
	case c.Group != "":
		return "8086:bccf:8086:1771"
	case c.PhysFn == "":
		return "8086:09c4:8086:0000"
	}
	return "8086:09c5:8086:0000"
}

func (c Card) pciID() (pciID, error) {
	text := cmp.Or(c.PCIID, c.defaultID())
	parts := strings.Split(text, ":")
	var v [4]uint16
	ok := len(parts) == len(v)
	for i := 0; ok && i < len(v); i++ {
		n, err := strconv.ParseUint(parts[i], 16, 16)
		v[i], ok = uint16(n), err == nil && len(parts[i]) == 4
	}
	if !ok {
		return pciID{}, fmt.Errorf("PCI id: found %q, want VVVV:DDDD:SSSS:SSSS in hexadecimal", text)
	}
	return pciID{v[0], v[1], v[2], v[3]}, nil
}

// plugPCI creates the PCI core's files for a card, in the format of drivers/pci/pci-sysfs.c and drivers/pci/pcie/aer.c
// in Linux 6.1.
func plugPCI(t *tree, dir string, c *plugged, id pciID) {
	hex := func(v uint16) string { return fmt.Sprintf("0x%04x", v) }
	t.attributes(dir,
		attribute{"vendor", hex(id.vendor)}, attribute{"device", hex(id.device)},
		attribute{"subsystem_vendor", hex(id.subVendor)}, attribute{"subsystem_device", hex(id.subDevice)},
		attribute{"class", "0x120000"},
		attribute{"modalias", fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc12sc00i00", id.vendor, id.device, id.subVendor, id.subDevice)},
		attribute{"numa_node", strconv.Itoa(c.NUMANode)})
	t.file(filepath.Join(dir, "config"), header(id, c.PhysFn != ""))
	if c.PhysFn != "" {
		// A virtual function has its physical function's capabilities, but doesn't have a link of its own or, on these
		// cards, error reporting.
		t.attributes(dir, link("Unknown", "0")...)
		return
	}
	t.attributes(dir, link("8.0 GT/s PCIe", "8")...)
	t.attributes(dir, aerNone...)
}

// lastOfBridge is the file that plugBridge creates last.
const lastOfBridge = "aer_rootport_total_err_nonfatal"

// plugBridge creates the PCI core's files for the root port, but only the ones that matter for a card.
func plugBridge(t *tree, dir string) {
	t.attributes(dir, link("8.0 GT/s PCIe", "8")...)
	t.attributes(dir, aerNone...)
	t.attributes(dir, attribute{"aer_rootport_total_err_cor", "0"},
		attribute{"aer_rootport_total_err_fatal", "0"}, attribute{lastOfBridge, "0"})
}

// header returns the first 64 bytes of config space, which all users can read. In a virtual function's header, all bits
// of the IDs are ones (PCIe 9.3.4.1).
func header(id pciID, virtual bool) string {
	h := make([]byte, 64)
	put := func(at int, v uint16) { h[at], h[at+1] = byte(v), byte(v>>8) }
	put(0x00, id.vendor)
	put(0x02, id.device)
	if virtual {
		put(0x00, 0xffff)
		put(0x02, 0xffff)
	}
	put(0x04, 0x0006) // command: memory, bus master
	put(0x06, 0x0010) // status: has a capabilities list
	h[0x0b] = 0x12    // class: processing accelerator
	if !virtual {
		put(0x10, 0x000c) // BAR 0: 64 bits, prefetchable
		put(0x12, 0xb000)
	}
	put(0x2c, id.subVendor)
	put(0x2e, id.subDevice)
	h[0x34] = 0x40 // first capability
	return string(h)
}

// link returns a link's attributes, with the given current speed and width, and a maximum of eight lanes at 8 GT/s.
func link(speed, width string) []attribute {
	return []attribute{
		{"current_link_speed", speed}, {"current_link_width", width},
		{"max_link_speed", "8.0 GT/s PCIe"}, {"max_link_width", "8"},
	}
}

// Types of errors that AER counts, in the order of the lines in AER's files on an N6000.
var (
	correctable   = []string{"RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF"}
	uncorrectable = []string{
		"Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC",
		"UnsupReq", "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr",
	}
)

// aerNone contains the AER files for a device that hasn't had any errors.
var aerNone = []attribute{
	{"aer_dev_correctable", AER("COR", 0)}, {"aer_dev_fatal", AER("FATAL", 0)}, {"aer_dev_nonfatal", AER("NONFATAL", 0)},
}

// AER returns the contents of a function's AER counter file after the given number of errors. severity selects the
// file: aer_dev_correctable (COR), aer_dev_fatal (FATAL) or aer_dev_nonfatal (NONFATAL). The errors are bad DLLPs in
// the first file, and surprise downs in the others.
func AER(severity string, errors uint64) string {
	lines := slices.Clone(uncorrectable)
	if severity == "COR" {
		lines = slices.Clone(correctable)
	}
	for i := range lines {
		if i == 2 {
			lines[i] += fmt.Sprintf(" %d", errors)
			continue
		}
		lines[i] += " 0"
	}
	return strings.Join(append(lines, fmt.Sprintf("TOTAL_ERR_%s %d", severity, errors)), "\n")
}
