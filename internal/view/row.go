package view

import (
	"path/filepath"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Row is one device as it is shown. Its JSON keys are an interface: keys may be
// added, none is renamed or dropped.
type Row struct {
	ID          string   `json:"id" yaml:"id"`
	Resource    string   `json:"resource" yaml:"resource"` // "" when the mode does not offer it
	Family      string   `json:"family" yaml:"family"`
	Health      string   `json:"health" yaml:"health"` // healthy, degraded, unhealthy
	Reasons     []string `json:"reasons" yaml:"reasons"`
	PCIAddress  string   `json:"pciAddress" yaml:"pciAddress"` // with domain; "" where there is none
	PCIVendor   string   `json:"pciVendor" yaml:"pciVendor"`   // four hex digits, as lspci -nn shows them; "" where not known
	PCIDevice   string   `json:"pciDevice" yaml:"pciDevice"`   // the same
	NUMANode    *int     `json:"numaNode" yaml:"numaNode"`
	PortID      *int     `json:"portId" yaml:"portId"`
	AFUID       string   `json:"afuId" yaml:"afuId"`             // 32 hex digits or ""
	InterfaceID string   `json:"interfaceId" yaml:"interfaceId"` // 32 hex digits or ""
	DeviceNodes []string `json:"deviceNodes" yaml:"deviceNodes"` // paths on the host
	Parent      string   `json:"parent" yaml:"parent"`           // name of the FME or ""
	Holder      []string `json:"holder" yaml:"holder"`           // namespace/pod/container
	HolderKnown bool     `json:"holderKnown" yaml:"holderKnown"` // somebody was asked; else an empty holder says nothing
}

// Rows shows devices, in their order.
//
// holders lists who holds a device, and may be nil where that is not known.
func Rows(devices []*inventory.Device, hostDev string, holders func(resource, id string) []string) []Row {
	rows := make([]Row, 0, len(devices))
	for _, d := range devices {
		r := Row{
			ID: d.ID, Resource: d.OfferedAs, Family: d.Family,
			Health: d.Health.String(), Reasons: append([]string{}, d.Reasons...),
			PCIAddress: d.PCIAddress, NUMANode: known(d.NUMANode), PortID: known(d.PortID),
			AFUID: d.AFUID, InterfaceID: d.InterfaceID,
			DeviceNodes: []string{}, Parent: d.Parent, Holder: []string{}, HolderKnown: holders != nil,
		}
		r.PCIVendor, r.PCIDevice = vendorAndDevice(d.PCIID)
		for _, name := range d.Nodes {
			r.DeviceNodes = append(r.DeviceNodes, filepath.Join(hostDev, name))
		}
		if holders != nil {
			r.Holder = append(r.Holder, holders(r.Resource, r.ID)...)
		}
		rows = append(rows, r)
	}
	return rows
}

// vendorAndDevice takes the first two of the four numbers of a PCI id.
func vendorAndDevice(pciID string) (vendor, device string) {
	vendor, rest, _ := strings.Cut(pciID, ":")
	device, _, _ = strings.Cut(rest, ":")
	return vendor, device
}

// known turns -1, not known, into null.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
