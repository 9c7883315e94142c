package dfl

import "b-com.com/accelerator-device-plugin/inventory/port"

// Family returns the family that reads DFL cards, with units of the given kind.
func Family(kind port.Kind) port.Layout {
	return port.Layout{
		Family: "dfl", Kind: kind, Table: &port.DFL,
		Class: "fpga_region", Entry: "region", Port: "dfl-port.", FME: "dfl-fme.", Nodes: "dfl-",
	}
}
