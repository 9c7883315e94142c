package watcher

import (
	"bytes"
	"strings"
)

// filter is the set of subsystems whose uevents matter.
type filter map[string]bool

func newFilter(more []string) filter {
	f := filter{"platform": true, "pci": true, "fpga_region": true, "fpga_manager": true, "fpga": true}
	for _, s := range more {
		f[s] = true
	}
	return f
}

// match says where something may have changed, or that nothing did that matters
// here (false). Source and At are left to the caller.
//
// An event of a subsystem of FPGAs that names no card may concern any. One of
// platform does not: every UART and regulator is a platform device, and ports
// and FMEs hang below their card. It allocates nothing but the address.
func (f filter) match(ev *uevent) (Hint, bool) {
	if !f[string(ev.env.subsystem)] {
		return Hint{}, false
	}
	card := cardOf(ev.devpath)
	if card == "" {
		card = cardOf(ev.env.slotName)
	}
	if card == "" && string(ev.env.subsystem) == "platform" {
		return Hint{}, false
	}
	return Hint{Card: card}, true
}

// cardOf returns the deepest component of path that is a PCI address, in lower
// case, or "". What stands above it are bridges.
func cardOf(path []byte) string {
	for len(path) > 0 {
		slash := bytes.LastIndexByte(path, '/')
		if last := path[slash+1:]; isAddress(last) {
			return strings.ToLower(string(last))
		}
		path = path[:max(slash, 0)]
	}
	return ""
}

// isAddress says whether s is DDDD:BB:DD.F in hex. The domain has four digits or
// more: behind a VMD it starts at 10000 (drivers/pci/controller/vmd.c).
func isAddress(s []byte) bool {
	const tail = len(":BB:DD.F")
	domain := len(s) - tail
	if domain < 4 || domain > 8 || !isHex(s[:domain]) {
		return false
	}
	s = s[domain:]
	return s[0] == ':' && isHex(s[1:3]) && s[3] == ':' && isHex(s[4:6]) && s[4] < '2' &&
		s[6] == '.' && '0' <= s[7] && s[7] <= '7'
}

func isHex(s []byte) bool {
	for _, c := range s {
		if ('0' > c || c > '9') && ('a' > c || c > 'f') && ('A' > c || c > 'F') {
			return false
		}
	}
	return true
}
