package port

import (
	"b-com.com/accelerator-device-plugin/inventory"
)

// The health table: every health file, the meaning of its values, and their severities. This file contains just the
// table; its rows are applied in decode.go and fme.go. The PCI device's rows are in package pci.
//
// File names, both in the table and in readings, are relative to the port, or begin with fme/ (the FME), pci/ (the
// physical function), slot/ (the PCI device above it) or root/ (the topmost PCI device). They never contain a number
// assigned by the driver.
//
// A file may have several rows. If the file can't be read, it gets the severity of its worst row. If the configuration
// changes the severity of that row, the change applies here too.

// Severities, named as in the configuration.
const (
	degraded = inventory.Degraded
	fatal    = inventory.Unhealthy
)

// row returns a row of the table. If there are too many possible values to list, the row's name doesn't include a
// value, and only the condition's reason contains the value that was found.
func row(name string, h inventory.Health) inventory.Row { return inventory.Row{Name: name, Health: h} }

// Rows that don't come from the value of a single file.
var (
	rowAFUDead       = row("afu-dead", fatal)                 // afu_id: all ones
	rowReprogramming = row("reprogramming", degraded)         // afu_id: fails with EBUSY; unhealthy after a while
	rowPortDead      = row("port-dead", fatal)                // errors/errors: all ones; power_state: 0xf
	rowFMEDead       = row("fme-dead", fatal)                 // fme/errors/* or the interface id: all ones
	rowFMEUnbound    = row(inventory.ReasonFMEUnbound, fatal) // fme/driver is absent, or the FME no longer exists

	// rowInterface is the row for an interface id that can't be read. Its severity is degraded rather than fatal,
	// because the FME may still be alive.
	rowInterface = row(rowFMEDead.Name, degraded)
)

// otherRows lists the rows above, except rowInterface, which has the same name as rowFMEDead.
var otherRows = []inventory.Row{rowAFUDead, rowReprogramming, rowPortDead, rowFMEDead, rowFMEUnbound}

// portFiles lists the health files of a port with a driver. The bits of errors/errors are defined in the kernel's
// drivers/fpga/dfl-afu-error.c and listed in the OPAE daemon's table (tools/fpgad/errtable.c). power_state is a field
// of PORT_STS (drivers/fpga/dfl-afu.h): 1 and 2 are AP1 and AP2, throttled by 50% and 90%; 6 is AP6, throttled
// completely.
var portFiles = []file{
	{"errors/errors", mask{other: row("port-error", degraded), bits: []field{
		{1 << 50, "port-ap6", fatal},
		{1 << 0, "port-tx=ch0-overflow", degraded},
		{1 << 1, "port-tx=ch0-encoding", degraded},
		{1 << 2, "port-tx=ch0-len3", degraded},
		{1 << 3, "port-tx=ch0-len2", degraded},
		{1 << 4, "port-tx=ch0-len4", degraded},
		{1 << 9, "port-mmio-in-reset=read", degraded},
		{1 << 10, "port-mmio-in-reset=write", degraded},
		{1 << 16, "port-tx=ch1-overflow", degraded},
		{1 << 17, "port-tx=ch1-encoding", degraded},
		{1 << 18, "port-tx=ch1-len3", degraded},
		{1 << 19, "port-tx=ch1-len2", degraded},
		{1 << 20, "port-tx=ch1-len4", degraded},
		{1 << 21, "port-tx=ch1-short", degraded},
		{1 << 22, "port-tx=ch1-overrun", degraded},
		{1 << 23, "port-tx=ch1-address", degraded},
		{1 << 24, "port-tx=ch1-sop", degraded},
		{1 << 25, "port-tx=ch1-vc", degraded},
		{1 << 32, "port-mmio-timeout", degraded},
		{1 << 33, "port-tx=ch2-overflow", degraded},
		{1 << 34, "port-mmio-unexpected", degraded},
		{1 << 40, "port-tx=request-overflow", degraded},
		{1 << 41, "port-address=smrr", degraded},
		{1 << 42, "port-address=smrr2", degraded},
		{1 << 43, "port-address=me", degraded},
		{1 << 44, "port-address=protected", degraded},
		{1 << 45, "port-address=legacy-low", degraded},
		{1 << 46, "port-address=legacy-high", degraded},
		{1 << 47, "port-address=vga", degraded},
		{1 << 48, "port-page-fault", degraded},
		{1 << 49, "port-pmr", degraded},
		{1 << 51, "port-vf-flr", degraded},
	}}},
	{"power_state", values{good: 0, dead: 0xf, bad: []field{
		{1, "power-throttled=1", degraded},
		{2, "power-throttled=2", degraded},
		{6, "power-throttled=6", fatal},
	}}},
}

// Masks of an FME's error files. The bits are defined in drivers/fpga/dfl-fme-error.c and listed in the OPAE daemon's
// table.
var (
	fmeFatal = mask{other: row("fme-fatal", fatal), bits: []field{
		{1 << 0, "fme-fatal=link", fatal},
		{1 << 1, "fme-fatal=cache", fatal},
		{1 << 2, "fme-fatal=cci", fatal},
		{1 << 3, "fme-fatal=protocol", fatal},
		{1 << 4, "fme-fatal=dram", fatal},
		{1 << 5, "fme-fatal=iommu", fatal},
		{1 << 6, "fme-fatal=fabric", fatal},
		{1 << 7, "fme-fatal=poison", fatal},
		{1 << 8, "fme-fatal=injected-fatal", fatal},
		{1 << 9, "fme-fatal=crc", fatal},
		{1 << 10, "fme-fatal=thermal", fatal},
		{1 << 11, "fme-fatal=injected-catastrophic", fatal},
	}}
	fmeNonfatal = mask{other: row("fme-nonfatal", degraded), bits: []field{
		{1 << 9, "fme-ap6", fatal},
		{1 << 0, "fme-nonfatal=temperature-ap1", degraded},
		{1 << 1, "fme-nonfatal=temperature-ap2", degraded},
		{1 << 2, "fme-nonfatal=pcie", degraded},
		{1 << 3, "fme-nonfatal=port-fatal", degraded},
		{1 << 4, "fme-nonfatal=proc-hot", degraded},
		{1 << 5, "fme-nonfatal=access-mode", degraded},
		{1 << 6, "fme-nonfatal=injected-warning", degraded},
		{1 << 7, "fme-nonfatal=poison", degraded},
		{1 << 8, "fme-nonfatal=crc", degraded},
		{1 << 10, "fme-nonfatal=power-ap1", degraded},
		{1 << 11, "fme-nonfatal=power-ap2", degraded},
		{1 << 12, "fme-nonfatal=mbp", degraded},
	}}
	fmeError = mask{other: row("fme-error", degraded), bits: []field{
		{1 << 0, "fme-error=fabric", degraded},
		{1 << 1, "fme-error=fabric-fifo", degraded},
		{0x3 << 2, "fme-error=kti-parity", degraded},
		{1 << 4, "fme-error=iommu-parity", degraded},
		{1 << 5, "fme-error=access-mode", degraded},
		{1 << 6, "fme-error=mbp", degraded},
		{0x1f << 7, "fme-error=pcie0-parity", degraded},
		{0x1f << 12, "fme-error=pcie1-parity", degraded},
		{0x7 << 17, "fme-error=memory-parity", degraded},
	}}
	// Ignore bits 62 and 63, because they contain the function number.
	fmePCIe0 = mask{other: row("fme-pcie0", degraded), quiet: 0x3 << 62, bits: []field{
		{1 << 0, "fme-pcie0=format", degraded},
		{1 << 1, "fme-pcie0=write-address", degraded},
		{1 << 2, "fme-pcie0=write-length", degraded},
		{1 << 3, "fme-pcie0=read-address", degraded},
		{1 << 4, "fme-pcie0=read-length", degraded},
		{1 << 5, "fme-pcie0=completion-tag", degraded},
		{1 << 6, "fme-pcie0=completion-status", degraded},
		{1 << 7, "fme-pcie0=completion-timeout", degraded},
		{1 << 8, "fme-pcie0=parity", degraded},
		{1 << 9, "fme-pcie0=poison", degraded},
	}}
	fmePCIe1 = mask{other: row("fme-pcie1", degraded), bits: []field{
		{1 << 0, "fme-pcie1=format", degraded},
		{1 << 1, "fme-pcie1=write-address", degraded},
		{1 << 2, "fme-pcie1=write-length", degraded},
		{1 << 3, "fme-pcie1=read-address", degraded},
		{1 << 4, "fme-pcie1=read-length", degraded},
		{1 << 5, "fme-pcie1=completion-tag", degraded},
		{1 << 6, "fme-pcie1=completion-status", degraded},
		{1 << 7, "fme-pcie1=completion-timeout", degraded},
		{1 << 8, "fme-pcie1=parity", degraded},
		{1 << 9, "fme-pcie1=poison", degraded},
	}}
)

// DFL is the table for the in-tree driver. It has two places for the FPGA manager, because in older versions of the
// driver, the manager is directly below the FME.
var DFL = FMETable{
	interfaceID: pattern{"fme/compat_id", "dfl-fme-region.*/fpga_region/*/compat_id"},
	errors: []file{
		{"fme/errors/catfatal_errors", fmeFatal},
		{"fme/errors/nonfatal_errors", fmeNonfatal},
	},
	locked: []file{
		{"fme/errors/fme_errors", fmeError},
		{"fme/errors/pcie0_errors", fmePCIe0},
		{"fme/errors/pcie1_errors", fmePCIe1},
	},
	managers: []pattern{
		{managerFile.name, "dfl-fme-mgr.*/fpga_manager/*/state"},
		{managerFile.name, "fpga_manager/*/state"},
	},
	hwmon: pattern{"fme/hwmon", "hwmon/hwmon*"},
}

// OPAE is the table for Intel's out-of-tree driver, intel-fpga-pci.
var OPAE = FMETable{
	interfaceID: pattern{"fme/pr/interface_id", "pr/interface_id"},
	errors: []file{
		{"fme/errors/catfatal_errors", fmeFatal},
		{"fme/errors/nonfatal_errors", fmeNonfatal},
	},
	locked: []file{
		{"fme/errors/fme-errors/errors", fmeError},
		{"fme/errors/pcie0_errors", fmePCIe0},
		{"fme/errors/pcie1_errors", fmePCIe1},
	},
	managers: []pattern{{managerFile.name, "fpga_manager/*/state"}},
	alarms: []file{
		{"fme/thermal_mgmt/threshold2_reached", flag{"alarm-crit=thermal", fatal}},
		{"fme/thermal_mgmt/threshold1_reached", flag{"alarm-max=thermal", degraded}},
		{"fme/power_mgmt/threshold2_status", flag{"alarm-crit=power", fatal}},
		{"fme/power_mgmt/threshold1_status", flag{"alarm-max=power", degraded}},
	},
}

// hwmonAlarms lists the kinds of alarms that are read, worst first.
var hwmonAlarms = []hwmonAlarm{
	{"_crit_alarm", row("alarm-crit", fatal)},
	{"_max_alarm", row("alarm-max", degraded)},
}

// managerFile is the FPGA manager's state. The states are defined in drivers/fpga/fpga-mgr.c. A state whose last word
// is error means that programming failed.
var managerFile = file{"fme/manager", managerStates}

var managerStates = states{
	failed: row("programming-failed", degraded),
	known:  []string{"unknown", "power off", "power up", "reset", "operating"},
	busy:   []string{"firmware request", "parse header", "write init", "write", "write complete"},
}
