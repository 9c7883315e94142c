package pci

import (
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// The health table of a PCI function. File names begin with pci/ (the physical function), slot/ (the PCI device above
// it) or root/ (the topmost PCI device), so that they don't contain any numbers that the kernel assigns.

const (
	degraded = inventory.Degraded
	fatal    = inventory.Unhealthy
)

func row(name string, h inventory.Health) inventory.Row { return inventory.Row{Name: name, Health: h} }

// rowPCIGone is the row for a function that has left the bus: pci/config is ff ff ff ff, or pci/current_link_* can't be
// read, is all ones, or is no longer known.
var rowPCIGone = row("pci-gone", fatal)

// links lists the properties of a PCIe link.
var links = []link{
	{
		now: "pci/current_link_speed", most: "pci/max_link_speed", slot: "slot/max_link_speed",
		slow: row("link-speed", degraded), parse: sysfs.ParseLinkSpeed, show: showSpeed,
	},
	{
		now: "pci/current_link_width", most: "pci/max_link_width", slot: "slot/max_link_width",
		slow: row("link-width", degraded), parse: sysfs.ParseUint8, show: showWidth,
		gone: 0x3f, // the register field, all ones
		none: 0xff, // PCIE_LNK_WIDTH_UNKNOWN (include/linux/pci.h)
	},
}

// aerCounters lists the PCI error reporting counters (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats). A
// device's total is in the same file as the counts for each kind of error, while a root port's total is in a separate
// file.
var aerCounters = []aerCounter{
	{ofCard, "pci/aer_dev_fatal", "TOTAL_ERR_FATAL", row("aer-fatal", fatal)},
	{ofCard, "pci/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", row("aer-nonfatal", degraded)},
	{ofSlot, "slot/aer_dev_fatal", "TOTAL_ERR_FATAL", row("slot-aer-fatal", fatal)},
	{ofSlot, "slot/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", row("slot-aer-nonfatal", degraded)},
	{ofRoot, "root/aer_rootport_total_err_fatal", "", row("root-aer-fatal", fatal)},
	{ofRoot, "root/aer_rootport_total_err_nonfatal", "", row("root-aer-nonfatal", degraded)},
}

// Rows returns the health table.
func Rows() []inventory.Row {
	rows := []inventory.Row{rowPCIGone}
	for _, l := range links {
		rows = append(rows, l.slow)
	}
	for _, a := range aerCounters {
		rows = append(rows, a.row)
	}
	return rows
}
