package opae

import "b-com.com/accelerator-device-plugin/inventory/port"

// Family returns the family that reads intel-fpga-pci cards, with units of the given kind. The class name is also the
// SUBSYSTEM of the cards' uevents.
func Family(kind port.Kind) port.Layout {
	return port.Layout{
		Family: "opae", Kind: kind, Table: &port.OPAE,
		Class: "fpga", Subsystem: "fpga", Entry: "intel-fpga-dev.", Port: "intel-fpga-port.", FME: "intel-fpga-fme.", Nodes: "intel-fpga-",
	}
}
