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

// Row is one device in the output. Programs rely on its JSON keys: keys may be added, but never
// renamed or removed.
type Row struct {
	ID          string   `json:"id" yaml:"id"`
	Resource    string   `json:"resource" yaml:"resource"` // "" if the mode does not advertise it
	Family      string   `json:"family" yaml:"family"`
	Health      string   `json:"health" yaml:"health"` // healthy, degraded, unhealthy
	Reasons     []string `json:"reasons" yaml:"reasons"`
	PCIAddress  string   `json:"pciAddress" yaml:"pciAddress"` // with domain; "": none
	PCIVendor   string   `json:"pciVendor" yaml:"pciVendor"`   // four hex digits, as lspci -nn shows them; "": not known
	PCIDevice   string   `json:"pciDevice" yaml:"pciDevice"`   // in the same form as PCIVendor
	NUMANode    *int     `json:"numaNode" yaml:"numaNode"`
	PortID      *int     `json:"portId" yaml:"portId"`
	AFUID       string   `json:"afuId" yaml:"afuId"`                               // 32 hex digits or ""
	InterfaceID string   `json:"interfaceId" yaml:"interfaceId"`                   // 32 hex digits or ""
	DeviceNodes []string `json:"deviceNodes" yaml:"deviceNodes"`                   // paths on the host
	Parent      string   `json:"parent" yaml:"parent"`                             // name of the FME or ""
	Holder      []string `json:"holder" yaml:"holder"`                             // namespace/pod/container
	HolderUIDs  []string `json:"holderUids,omitempty" yaml:"holderUids,omitempty"` // of the pods in Holder, "" if not known; missing if none is known
	HolderKnown bool     `json:"holderKnown" yaml:"holderKnown"`                   // false: the device may have a holder although Holder is empty

	// Held is true if the device was given to a container, even if that is not named yet. nil: not known.
	Held        *bool          `json:"held" yaml:"held"`
	NodeNumbers []string       `json:"nodeNumbers" yaml:"nodeNumbers"` // MAJOR:MINOR of the nodes
	ParentNodes []string       `json:"parentNodes" yaml:"parentNodes"` // of the FME, names below the device root
	Cordon      *cordon.Cordon `json:"cordon" yaml:"cordon"`           // nil: none

	// MissingSince is when the daemon first missed a card that was present before. nil: the device is not missing.
	MissingSince *time.Time `json:"missingSince,omitempty" yaml:"missingSince,omitempty"`

	Sensors []sensors.Reading `json:"sensors,omitempty" yaml:"sensors,omitempty"` // of its card, the summary first; missing if none is read

	PCIID       string            `json:"pciId" yaml:"pciId"`             // VVVV:DDDD: PCIVendor and PCIDevice; "": not known
	Subsystem   string            `json:"subsystem" yaml:"subsystem"`     // VVVV:DDDD of the subsystem
	Attributes  map[string]string `json:"attributes" yaml:"attributes"`   // facts of the family
	Members     []string          `json:"members" yaml:"members"`         // addresses of its other functions, with domain
	SharedNodes []string          `json:"sharedNodes" yaml:"sharedNodes"` // paths on the host
	Mounts      []string          `json:"mounts" yaml:"mounts"`           // paths on the host
}

// List contains the devices at one time, and their holders.
type List struct {
	Devices []*inventory.Device
	HostDev string             // the device root on the host
	HostSys string             // the root of sysfs on the host
	Use     inventory.Holdings // the zero value: not known
	Cordons []cordon.Cordon
	Missing []ledger.Missing
	Sensors map[string]measured.Card // by PCI address of the card
}

// Rows returns one row for each device, in their order, and then one for each missing card of which no device is
// listed.
func (l List) Rows() []Row {
	rows := make([]Row, len(l.Devices), len(l.Devices)+len(l.Missing))
	for i, d := range l.Devices {
		rows[i] = l.row(d)
	}
	for _, m := range l.Missing {
		if slices.ContainsFunc(l.Devices, func(d *inventory.Device) bool { return d.ID == m.Card || strings.HasPrefix(d.ID, m.Card+"-p") }) {
			continue // a container still holds it
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
		Cordon:     cordon.Of(l.Cordons, d.ID, d.Members...),
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
			if !slices.Contains(r.Holder, name) { // it may hold the device under two names
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

// holders returns the holders as one text: "?" if they are not known, "" if there are none.
func (r Row) holders() string {
	switch {
	case !r.HolderKnown:
		return "?"
	case len(r.Holder) == 0 && r.Held != nil && *r.Held:
		return "not named yet"
	}
	return strings.Join(r.Holder, ",")
}

// paths returns the paths of nodes on the host.
func (l List) paths(names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = filepath.Join(l.HostDev, name)
	}
	return paths
}

// known returns a pointer to n, or nil for -1, which means that the number is not known.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
