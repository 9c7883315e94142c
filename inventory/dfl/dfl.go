package dfl

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// Family reads DFL cards.
type Family struct{}

const class = "fpga_region"

var layout = port.Layout{
	Class:       class,
	Entry:       "region",
	Port:        "dfl-port.",
	FME:         "dfl-fme.",
	InterfaceID: interfaceID,
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

// interfaceID is compat_id of a region below the FME at dir. There is one region
// for each port, but the id is one for the FME (FME_PR_INTFC_ID, dfl-fme-pr.c):
// the first that can be read counts. The regions are looked for through the FME
// because not every recorded tree has them in the class directory.
func interfaceID(dir string) (id string, known bool) {
	children, err := os.ReadDir(dir)
	known = err == nil
	for _, c := range children {
		if !c.IsDir() || !strings.HasPrefix(c.Name(), "dfl-fme-region.") {
			continue
		}
		holder := dir + "/" + c.Name() + "/" + class
		regions, err := os.ReadDir(holder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			known = false
		}
		for _, r := range regions {
			if !r.IsDir() {
				continue
			}
			id, ok := port.ReadInterfaceID(holder + "/" + r.Name() + "/compat_id")
			if ok && id != "" {
				return id, true
			}
			known = known && ok
		}
	}
	return "", known
}
