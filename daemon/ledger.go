package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// openLedger opens the ledger. If the daemon is a guest, the ledger isn't stored on disk, because the file belongs to
// the daemon that owns the node.
func (r *run) openLedger(ctx context.Context) {
	cfg := ledger.Config{
		Dir: r.cfg.StateDir, Machine: machine(r.cfg.SysfsRoot), Metrics: r.Metrics,
		Exempt: func(address, family, pciID string) bool {
			inForce, _ := r.inForce.Load()
			return exempt(inForce, r.book.List(), address, family) || onVFIO(r.cfg.SysfsRoot, address, pciID)
		},
		Changed: func() (cordons, settings <-chan struct{}) {
			_, settings = r.inForce.Load()
			return r.book.Changed(), settings
		},
		OnBus: func(address, pciID string) bool { return onBus(r.cfg.SysfsRoot, address, pciID) },
	}
	if r.Guest {
		cfg.Dir = ""
	}
	r.ledger = ledger.Open(context.WithoutCancel(ctx), cfg, r.Log)
}

// exempt reports whether a card is allowed to be absent because it is cordoned or excluded, or because its family isn't
// in use.
func exempt(cfg config.Config, cordons []cordon.Cordon, address, family string) bool {
	return cordon.Find(cordons, address) != nil || cfg.Exclude[address] ||
		!slices.ContainsFunc(Families(cfg), func(f inventory.Family) bool { return f.Name() == family })
}

// onBus reports whether there is a PCI function with this PCI ID at the address. An empty pciID matches any function.
// If onBus can't tell because the process is out of memory or file descriptors, it returns true.
func onBus(sysfsRoot, address, pciID string) bool {
	dir := functionAt(sysfsRoot, address)
	if dir == "" {
		return false
	}
	id, err := sysfs.PCIID(dir)
	return err != nil || id != "" && (pciID == "" || id == pciID)
}

// onVFIO reports whether the PCI function at the address is bound to vfio-pci, for use by a virtual machine.
func onVFIO(sysfsRoot, address, pciID string) bool {
	if !onBus(sysfsRoot, address, pciID) {
		return false
	}
	driver, err := pci.DriverOf(functionAt(sysfsRoot, address))
	return err == nil && driver == "vfio-pci"
}

// functionAt returns the sysfs directory of the PCI function at the address, or "" if the address isn't valid.
func functionAt(sysfsRoot, address string) string {
	address, err := sysfs.ParseAddress(address)
	if err != nil {
		return ""
	}
	return filepath.Join(sysfsRoot, "bus/pci/devices", address)
}

// machine returns the machine's ID from the firmware, or "" if there is none. Unlike the host's machine-id, it can be
// read in a container and doesn't move to another machine with the disk.
func machine(sysfsRoot string) string {
	text, err := os.ReadFile(filepath.Join(sysfsRoot, "class/dmi/id/product_uuid"))
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(string(text)))
}
