package dfl

import (
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// Family reads DFL cards, by ports or by regions.
type Family struct {
	Kind port.Kind // the kind of the units
}

var layout = port.Layout{
	Class: "fpga_region",
	Entry: "region",
	Port:  "dfl-port.",
	FME:   "dfl-fme.",
	Table: port.DFL,
}

// layout returns the place of the driver's cards in sysfs, and the kind of unit.
func (f Family) layout() port.Layout {
	l := layout
	l.Kind = f.Kind
	return l
}

// Name returns dfl.
func (Family) Name() string { return "dfl" }

// Signals returns the prefix of the nodes. The subsystems of the driver are always used.
func (Family) Signals() inventory.Signals {
	return inventory.Signals{Nodes: []string{"dfl-"}}
}

// Rows returns the health table of the cards.
func (Family) Rows() []inventory.Row { return layout.Rows() }

// Cards lists the PCI addresses of base regions.
func (Family) Cards(host sysfs.Host) ([]string, error) { return layout.Cards(host) }

// Read reads the ports or regions of the function with this PCI address.
func (f Family) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	return f.layout().Read(host, card)
}

// Outline returns the same units from directories and links only.
func (f Family) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	return f.layout().Outline(host, card)
}
