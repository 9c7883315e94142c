package opae

import "b-com.com/accelerator-device-plugin/inventory/port"

// Family returns the family, which reads cards of the driver intel-fpga-pci in units of this kind. The class is also
// the subsystem of the cards' uevents.
func Family(kind port.Kind) port.Layout {
	return port.Layout{
		Family: "opae", Kind: kind, Table: &port.OPAE,
		Class: "fpga", Subsystem: "fpga", Entry: "intel-fpga-dev.", Port: "intel-fpga-port.", FME: "intel-fpga-fme.", Nodes: "intel-fpga-",
	}
}
