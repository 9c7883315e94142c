package metrics

// State has the functions that gauges are read from at the time of a scrape. They must be safe
// for concurrent use and must not block.
type State struct {
	// Mode returns the present mode.
	Mode func() string
	// Devices returns the newest list of devices and its version, which is 0 before the first
	// list.
	Devices func() (version uint64, devices []Device)
	// Resources returns the resources that are offered to the kubelet.
	Resources func() []Resource
}

// Device is a device as it is shown.
type Device struct {
	ID        string
	PCI       string // DDDD:BB:DD.F; "": a unit that is in no slot
	PCIID     string // VVVV:DDDD:SSSS:SSSS, or ""
	Family    string
	Resource  string   // that it is offered as; "": none
	Health    string   // healthy, degraded or unhealthy
	Reasons   []string // NAME or NAME=VALUE
	Tombstone string   // the first of the reasons with [inventory.Reason.Tombstone]; "": none
	AFU       string
	Interface string
	NUMANode  int // -1: none
}

// Resource is the state of one resource.
type Resource struct {
	Name    string
	Streams int  // that are open
	Ready   bool // registered with a stream open, or without devices
}
