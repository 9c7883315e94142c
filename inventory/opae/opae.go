package opae

import (
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// Family reads cards of the intel-fpga driver, by ports or by regions.
type Family struct {
	Kind port.Kind // the kind of the units
}

const class = "fpga"

var layout = port.Layout{
	Class: class,
	Entry: "intel-fpga-dev.",
	Port:  "intel-fpga-port.",
	FME:   "intel-fpga-fme.",
	Table: port.OPAE,
}

// layout returns the place of the driver's cards in sysfs, and the kind of unit.
func (f Family) layout() port.Layout {
	l := layout
	l.Kind = f.Kind
	return l
}

// Name returns opae.
func (Family) Name() string { return "opae" }

// Signals returns the class as a subsystem, because cards have their events in it, and the prefix
// of the nodes.
func (Family) Signals() inventory.Signals {
	return inventory.Signals{Subsystems: []string{class}, Nodes: []string{"intel-fpga-"}}
}

// Rows returns the health table of the cards.
func (Family) Rows() []inventory.Row { return layout.Rows() }

// Cards lists the PCI addresses of the class entries.
func (Family) Cards(host sysfs.Host) ([]string, error) { return layout.Cards(host) }

// Read reads the ports or regions of the function with this PCI address.
func (f Family) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	return f.layout().Read(host, card)
}

// Outline returns the same units from directories and links only.
func (f Family) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	return f.layout().Outline(host, card)
}
