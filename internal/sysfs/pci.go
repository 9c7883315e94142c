package sysfs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Upstream returns the directories of two PCI devices above the device at dir: slot is the bridge or root port directly
// above it, and root is the topmost one. The two differ if the device is below a switch, and both are "" if the device
// is on the root bus. Upstream only looks at the path and doesn't read any files.
func Upstream(dir string) (slot, root string) {
	for up := filepath.Dir(dir); isAddress(filepath.Base(up)); up = filepath.Dir(up) {
		if slot == "" {
			slot = up
		}
		root = up
	}
	return slot, root
}

// PCIID returns the ids of the PCI device at dir as VVVV:DDDD:SSSS:SSSS (vendor, device, subsystem vendor, subsystem
// device) in lower-case hex. It returns "" if they can't be read, which says nothing about the device's health. Reading
// them doesn't access the device, because the kernel cached them when it enumerated the device. PCIID only returns
// errors for which [IsShortage] reports true.
func PCIID(dir string) (string, error) {
	id, err := ReadAs(dir+"/modalias", ParsePCIModalias)
	return id, onlyShortage(err)
}

// ParsePCIModalias parses a PCI device's modalias, pci:vVVVVVVVVdDDDDDDDDsvSSSSSSSSsdSSSSSSSSbc…, and returns
// VVVV:DDDD:SSSS:SSSS in lower case.
func ParsePCIModalias(s string) (string, error) {
	rest := s
	var ids [4]string
	for i, label := range []string{"pci:v", "d", "sv", "sd"} {
		value, ok := strings.CutPrefix(rest, label+"0000")
		if !ok || len(value) < 4 || !isHex(value[:4]) {
			return "", fmt.Errorf("found %s, want a modalias pci:v…d…sv…sd… with 8 hex digits each", Quote(s))
		}
		ids[i], rest = value[:4], value[4:]
	}
	return strings.ToLower(strings.Join(ids[:], ":")), nil
}

// ParseLinkSpeed parses the speed of a PCIe link, "8.0 GT/s PCIe" or, in older kernels, "8 GT/s", and returns it in
// tenths of GT/s. It returns 0 for "Unknown" or, in older kernels, "Unknown speed" (pci_speed_string,
// drivers/pci/probe.c).
func ParseLinkSpeed(s string) (tenths int, err error) {
	if s == "Unknown" || s == "Unknown speed" {
		return 0, nil
	}
	number, ok := strings.CutSuffix(strings.TrimSuffix(s, " PCIe"), " GT/s")
	whole, tenth, point := strings.Cut(number, ".")
	if !point {
		tenth = "0"
	}
	if ok && len(tenth) == 1 {
		v, err := strconv.ParseUint(whole+tenth, 10, 16)
		if err == nil && v > 0 && whole != "" {
			return int(v), nil
		}
	}
	return 0, fmt.Errorf("found %s, want a link speed N.N GT/s or Unknown", Quote(s))
}
