package view

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	measured "b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Row is one device in the output. Programs rely on its JSON keys, so keys can be added but must never be renamed or
// removed.
type Row struct {
	ID          string   `json:"id" yaml:"id"`
	Resource    string   `json:"resource" yaml:"resource"` // "" if the mode doesn't advertise the device
	Family      string   `json:"family" yaml:"family"`
	Health      string   `json:"health" yaml:"health"` // healthy, degraded or unhealthy
	Reasons     []string `json:"reasons" yaml:"reasons"`
	PCIAddress  string   `json:"pciAddress" yaml:"pciAddress"` // with domain; "" if the device doesn't have one
	PCIVendor   string   `json:"pciVendor" yaml:"pciVendor"`   // four hex digits, as shown by lspci -nn; "" if not known
	PCIDevice   string   `json:"pciDevice" yaml:"pciDevice"`   // in the same format as PCIVendor
	NUMANode    *int     `json:"numaNode" yaml:"numaNode"`
	PortID      *int     `json:"portId" yaml:"portId"`
	AFUID       string   `json:"afuId" yaml:"afuId"`             // 32 hex digits or ""
	InterfaceID string   `json:"interfaceId" yaml:"interfaceId"` // 32 hex digits or ""
	DeviceNodes []string `json:"deviceNodes" yaml:"deviceNodes"` // paths on the host
	Parent      string   `json:"parent" yaml:"parent"`           // name of the FME or ""
	Holder      []string `json:"holder" yaml:"holder"`           // namespace/pod/container
	// HolderUIDs contains the UIDs of the pods in Holder, or "" for those that aren't known. It is omitted if none are
	// known.
	HolderUIDs  []string `json:"holderUids,omitempty" yaml:"holderUids,omitempty"`
	HolderKnown bool     `json:"holderKnown" yaml:"holderKnown"` // if false, the device may have a holder even though Holder is empty

	// Held is true if the device has been allocated to a container, even if the container's name isn't known yet. It is
	// nil if it isn't known whether the device has been allocated.
	Held        *bool          `json:"held" yaml:"held"`
	NodeNumbers []string       `json:"nodeNumbers" yaml:"nodeNumbers"` // MAJOR:MINOR of the device nodes
	ParentNodes []string       `json:"parentNodes" yaml:"parentNodes"` // the FME's device nodes, as names below the device root
	Cordon      *cordon.Cordon `json:"cordon" yaml:"cordon"`           // nil if there is none

	// MissingSince is when the daemon first noticed that a previously present card was missing. It is nil if the device
	// isn't missing.
	MissingSince *time.Time `json:"missingSince,omitempty" yaml:"missingSince,omitempty"`

	Sensors []sensors.Reading `json:"sensors,omitempty" yaml:"sensors,omitempty"` // the card's sensors, summary first; omitted if none are read

	PCIID       string            `json:"pciId" yaml:"pciId"`             // VVVV:DDDD, from PCIVendor and PCIDevice; "" if unknown
	Subsystem   string            `json:"subsystem" yaml:"subsystem"`     // VVVV:DDDD of the subsystem
	Attributes  map[string]string `json:"attributes" yaml:"attributes"`   // family-specific facts
	Members     []string          `json:"members" yaml:"members"`         // addresses of the device's other functions, with domain
	SharedNodes []string          `json:"sharedNodes" yaml:"sharedNodes"` // paths on the host
	Mounts      []string          `json:"mounts" yaml:"mounts"`           // paths on the host
}

// List holds the devices and their holders at one point in time.
type List struct {
	Devices []*inventory.Device
	HostDev string             // the device root on the host
	HostSys string             // the sysfs root on the host
	Use     inventory.Holdings // zero if not known
	Cordons []cordon.Cordon
	Missing []ledger.Missing
	Sensors map[string]measured.Card // by the card's PCI address
}

// Rows returns a row for each device, in order, followed by a row for each missing card that has no listed device.
func (l List) Rows() []Row {
	rows := make([]Row, len(l.Devices), len(l.Devices)+len(l.Missing))
	for i, d := range l.Devices {
		rows[i] = l.row(d)
	}
	for _, m := range l.Missing {
		if slices.ContainsFunc(l.Devices, func(d *inventory.Device) bool { return d.ID == m.Card || strings.HasPrefix(d.ID, m.Card+"-p") }) {
			continue // still listed because a container holds it
		}
		address, _ := sysfs.ParseAddress(m.Card)
		r := l.row(&inventory.Device{
			ID: m.Card, PCIAddress: address, Health: inventory.Unhealthy, Reasons: []string{inventory.ReasonMissing},
			Facts: inventory.Facts{PCIID: m.Model, NUMANode: -1, PortID: -1},
		})
		r.MissingSince = &m.Since
		rows = append(rows, r)
	}
	return rows
}

func (l List) row(d *inventory.Device) Row {
	r := Row{
		ID: d.ID, Resource: d.OfferedAs, Family: d.Family,
		Health: d.Health.String(), Reasons: append([]string{}, d.Reasons...),
		PCIAddress: d.PCIAddress, NUMANode: known(d.NUMANode), PortID: known(d.PortID),
		AFUID: d.AFUID, InterfaceID: d.InterfaceID,
		DeviceNodes: l.paths(d.Nodes), Parent: d.Parent, Holder: []string{},
		NodeNumbers: append([]string{}, d.NodeNumbers...), ParentNodes: append([]string{}, d.ParentNodes...),
		Cordon:     cordon.Find(l.Cordons, d.ID, d.Members...),
		Attributes: map[string]string{}, Members: append([]string{}, d.Members...), SharedNodes: l.paths(d.SharedNodes),
		Mounts: append([]string{}, d.MountsOf(l.HostSys)...),
	}
	maps.Copy(r.Attributes, d.Attributes)
	card := l.Sensors[measured.CardOf(d)]
	r.Sensors = slices.Concat(card.Summary, card.All)
	if ids := strings.Split(d.PCIID, ":"); len(ids) == 4 {
		r.PCIVendor, r.PCIDevice = ids[0], ids[1]
		r.PCIID, r.Subsystem = ids[0]+":"+ids[1], ids[2]+":"+ids[3]
	}
	for _, h := range l.Use.Of[r.ID] {
		for _, name := range h.Holders {
			if !slices.Contains(r.Holder, name) { // a container may hold the device under two resource names
				r.Holder = append(r.Holder, name)
				r.HolderUIDs = append(r.HolderUIDs, h.PodUID())
			}
		}
	}
	if slices.Equal(r.HolderUIDs, make([]string, len(r.Holder))) {
		r.HolderUIDs = nil
	}
	held := len(l.Use.Of[r.ID]) > 0
	asked := !l.Use.Asked.IsZero()
	if r.HolderKnown = held || asked && l.Use.Problem() == nil && !l.Use.Awaiting; r.HolderKnown {
		r.Held = &held
	}
	return r
}

// holders returns the holders as a single string: "?" if they aren't known, or "" if there are none.
func (r Row) holders() string {
	switch {
	case !r.HolderKnown:
		return "?"
	case len(r.Holder) == 0 && r.Held != nil && *r.Held:
		return "not named yet"
	}
	return strings.Join(r.Holder, ",")
}

// paths returns the paths of device nodes on the host.
func (l List) paths(names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = filepath.Join(l.HostDev, name)
	}
	return paths
}

// known returns a pointer to n, or nil if n is -1, which stands for an unknown number.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
