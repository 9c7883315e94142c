package sysfs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Upstream returns the directories of the PCI device above the one at dir (the
// bridge or root port that it is plugged into) and of the topmost one above it
// (the root port, of a device below switches). Both are "" where the device is on
// the root bus. Only the path is looked at.
func Upstream(dir string) (slot, root string) {
	for up := filepath.Dir(dir); isAddress(filepath.Base(up)); up = filepath.Dir(up) {
		if slot == "" {
			slot = up
		}
		root = up
	}
	return slot, root
}

// PCIID returns the ids of the PCI device at dir as VVVV:DDDD:SSSS:SSSS (vendor,
// device, and those of the subsystem) in lower-case hex, or "" where they cannot
// be read: they say who a device is, not how. The kernel keeps them from
// enumeration on: nothing is asked of the device. The only errors are those of
// [OwnTrouble].
func PCIID(dir string) (string, error) {
	if id, err := ReadAs(dir+"/modalias", ParsePCIModalias); err == nil || OwnTrouble(err) {
		return id, err
	}
	var id strings.Builder
	for i, name := range []string{"vendor", "device", "subsystem_vendor", "subsystem_device"} {
		v, err := ReadAs(dir+"/"+name, ParseMask)
		if err != nil || v > 0xffff {
			return "", ownOnly(err)
		}
		if i > 0 {
			id.WriteByte(':')
		}
		fmt.Fprintf(&id, "%04x", v)
	}
	return id.String(), nil
}

// ParsePCIModalias takes VVVV:DDDD:SSSS:SSSS, in lower case, out of the modalias
// of a PCI device: pci:vVVVVVVVVdDDDDDDDDsvSSSSSSSSsdSSSSSSSSbc…
func ParsePCIModalias(s string) (string, error) {
	rest := s
	var ids [4]string
	for i, label := range []string{"pci:v", "d", "sv", "sd"} {
		value, ok := strings.CutPrefix(rest, label+"0000")
		if !ok || len(value) < 4 || !isHex(value[:4]) {
			return "", fmt.Errorf("%s is not the modalias of a PCI device, want pci:v…d…sv…sd… with 8 hex digits each", Quote(s))
		}
		ids[i], rest = value[:4], value[4:]
	}
	return strings.ToLower(strings.Join(ids[:], ":")), nil
}

// ParseLinkSpeed parses the speed of a PCIe link and returns it in tenths of
// GT/s: "8.0 GT/s PCIe", in older kernels "8 GT/s". "Unknown", in older kernels
// "Unknown speed", is 0 (pci_speed_string, drivers/pci/probe.c).
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
	return 0, fmt.Errorf("%s is not the speed of a link, want N.N GT/s or Unknown", Quote(s))
}
