package daemon

import (
	"slices"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/aws"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/pool"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/inventory/vfio"
	"b-com.com/accelerator-device-plugin/inventory/xrt"
	"b-com.com/accelerator-device-plugin/offer"
)

// Families returns the families that are enabled in cfg and used in its mode.
func Families(cfg config.Config) []inventory.Family {
	if cfg.Mode == offer.Pool {
		return []inventory.Family{pool.Pool{Units: cfg.AccelNbUnits}}
	}
	return slices.DeleteFunc(AllFamilies(cfg), func(f inventory.Family) bool { return !slices.Contains(cfg.Families, f.Name()) })
}

// AllFamilies returns all card families, even those that are disabled. To add a family, add a line here.
func AllFamilies(cfg config.Config) []inventory.Family {
	return []inventory.Family{
		dfl.Family(kindOf[cfg.Mode]),
		opae.Family(kindOf[cfg.Mode]),
		vfio.Family{Cdev: cfg.VFIOCdev},
		xrt.Family{Management: cfg.XRTManagement},
		aws.Family{},
	}
}

// kindOf maps a mode to the kind of unit that a device is in this mode. In modes that aren't listed, a device is a
// port.
var kindOf = map[string]port.Kind{offer.Region: port.PerFME, offer.RegionDevel: port.PerFMEWithNode}

// signals returns the signals for all families that are enabled in any mode, because the mode may change while the
// watcher is running.
func signals(cfg config.Config) (all inventory.Signals) {
	for _, cfg.Mode = range offer.Modes() {
		for _, f := range Families(cfg) {
			s := f.Signals()
			all.Subsystems, all.Nodes = append(all.Subsystems, s.Subsystems...), append(all.Nodes, s.Nodes...)
		}
	}
	slices.Sort(all.Nodes)
	all.Nodes = slices.Compact(all.Nodes)
	return all
}
