package watcher

import "b-com.com/accelerator-device-plugin/internal/sysfs"

// filter is the set of subsystems whose uevents matter.
type filter map[string]bool

func newFilter(more []string) filter {
	f := filter{"platform": true, "pci": true, "fpga_region": true, "fpga_manager": true, "fpga": true}
	for _, s := range more {
		f[s] = true
	}
	return f
}

// match returns the hint for an event, without Source and At. It returns false if the event can't be about a card.
//
// An event from one of f's subsystems that doesn't name a card may be about any card. The exception is platform: every
// UART and regulator is a platform device, but the path of a port or an FME always contains its card's address. The
// only thing that match allocates is the address.
func (f filter) match(ev *uevent) (Hint, bool) {
	if !f[string(ev.env.subsystem)] {
		return Hint{}, false
	}
	card := sysfs.PCIAddressOf(ev.devpath)
	if card == "" {
		card = sysfs.PCIAddressOf(ev.env.slotName)
	}
	if card == "" && string(ev.env.subsystem) == "platform" {
		return Hint{}, false
	}
	return Hint{Card: card, RecoveryFailed: card != "" && isFailedRecovery(ev)}, true
}

// isFailedRecovery reports whether the event says that the kernel failed to recover a PCI device from an error
// (pci_uevent_ers, drivers/pci/pci-driver.c).
func isFailedRecovery(ev *uevent) bool {
	return string(ev.env.errorEvent) == "FAILED_RECOVERY" &&
		string(ev.env.subsystem) == "pci" && string(ev.action) == "change"
}
