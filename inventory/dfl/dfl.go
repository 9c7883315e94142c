package dfl

import (
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// Family reads DFL cards.
type Family struct{}

var layout = port.Layout{
	Class: "fpga_region",
	Entry: "region",
	Port:  "dfl-port.",
	FME:   "dfl-fme.",
	Table: port.DFL,
}

// Name returns dfl.
func (Family) Name() string { return "dfl" }

// Signals names the nodes; the subsystems are among those always listened to.
func (Family) Signals() inventory.Signals {
	return inventory.Signals{Nodes: []string{"dfl-"}}
}

// Cards lists the PCI addresses of base regions.
func (Family) Cards(host sysfs.Host) ([]string, error) { return layout.Cards(host) }

// Read reads the ports of the function with this PCI address.
func (Family) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	return layout.Read(host, card)
}

// Outline lists the same ports without asking the card.
func (Family) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	return layout.Outline(host, card)
}
