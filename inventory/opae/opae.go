package opae

import (
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// Family reads cards of the intel-fpga driver.
type Family struct{}

const class = "fpga"

var layout = port.Layout{
	Class: class,
	Entry: "intel-fpga-dev.",
	Port:  "intel-fpga-port.",
	FME:   "intel-fpga-fme.",
	Table: port.OPAE,
}

// Name returns opae.
func (Family) Name() string { return "opae" }

// Signals names the class, whose entries carry the events of cards, and the
// nodes.
func (Family) Signals() inventory.Signals {
	return inventory.Signals{Subsystems: []string{class}, Nodes: []string{"intel-fpga-"}}
}

// Cards lists the PCI addresses of the class entries.
func (Family) Cards(host sysfs.Host) ([]string, error) { return layout.Cards(host) }

// Read reads the ports of the function with this PCI address.
func (Family) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	return layout.Read(host, card)
}

// Outline lists the same ports without asking the card.
func (Family) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	return layout.Outline(host, card)
}
