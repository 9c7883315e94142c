package aws

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// slot describes a card by its two PCI functions.
type slot struct {
	number      int    // as numbered by AWS's tools (fpga_pci_get_all_slot_specs)
	management  string // address of the management function
	application string // address of the application function, which may be missing
	dir         string // of the management function
	incarnation uint64 // of dir
}

// PCI id prefixes of management functions (fpga_common.h in AWS's SDK).
const (
	managementF2 = "1d0f:9248:"
	managementF1 = "1d0f:1041:"
)

// list returns all slots, sorted and numbered by the addresses of their management functions. The error reports
// functions that couldn't be read.
func list(host sysfs.Host) (all []slot, err error) {
	entries, err := os.ReadDir(host.Sys + "/bus/pci/devices")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	// An image may use a management function's ids. If an application function with such ids were mistaken for a
	// management function, the PCI device before it would be mistaken for a card. A card's application function comes
	// before its management function, so the loop runs backwards.
	applications := make(map[string]bool)
	for _, e := range slices.Backward(entries) { // entries are sorted
		if applications[e.Name()] {
			continue
		}
		s, serr := managedBy(host, e.Name())
		switch {
		case serr == nil && !applications[s.application]:
			applications[s.application] = true
			all = append(all, s)
		case serr != nil && !sysfs.Gone(serr):
			err = errors.Join(err, serr)
		}
	}
	slices.Reverse(all)
	for i := range all {
		all[i].number = i
	}
	return all, err
}

// slotOf returns the slot that has a function at this address. The error wraps fs.ErrNotExist if there is none.
func slotOf(host sysfs.Host, address string) (slot, error) {
	slots, err := list(host)
	if sysfs.IsShortage(err) { // the other slots' numbers may be wrong
		return slot{}, err
	}
	for _, s := range slots {
		if s.management == address || s.application == address {
			return s, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("%s: found no management function of a card: %w", address, fs.ErrNotExist)
	}
	return slot{}, err
}

// managedBy returns the slot whose management function is at this address, but doesn't set the slot's number. A
// management function is recognized by its PCI ids; for any other function, the error wraps fs.ErrNotExist.
func managedBy(host sysfs.Host, address string) (s slot, err error) {
	dir, err := host.PCIDir(address)
	if err != nil {
		return s, err
	}
	id, err := sysfs.PCIID(dir)
	if err != nil {
		return s, err
	}
	application, ok := applicationOf(address, id)
	if !ok {
		return s, fmt.Errorf("%s: found the ids %q, want those of a management function: %w", dir, id, fs.ErrNotExist)
	}
	s = slot{management: address, application: application, dir: dir}
	s.incarnation, err = sysfs.Inode(dir)
	return s, err
}

// applicationOf returns the address of the application function that belongs to the management function with this
// address and id. ok is false if the id isn't a management function's.
func applicationOf(address, id string) (application string, ok bool) {
	if _, err := sysfs.ParsePCIAddress(address); err != nil {
		return "", false
	}
	front, function, _ := strings.Cut(address, ".") // DDDD:BB:DD
	switch {
	case strings.HasPrefix(id, managementF2):
		return front + ".0", function != "0"
	case strings.HasPrefix(id, managementF1):
		bus, device := front[:len(front)-2], front[len(front)-2:]
		n, err := strconv.ParseUint(device, 16, 8)
		if err != nil || n == 0 {
			return "", false
		}
		return fmt.Sprintf("%s%02x.%s", bus, n-1, function), true
	}
	return "", false
}
