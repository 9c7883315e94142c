package metrics

// State is where gauges are read from at the time of a scrape. Its functions must
// be safe for concurrent use and may not block.
type State struct {
	// Mode returns the present mode.
	Mode func() string
	// Devices returns the newest list of devices and its number, 0 when nothing is
	// known yet.
	Devices func() (version uint64, devices []Device)
	// Resources returns what is offered to the kubelet.
	Resources func() []Resource
}

// Device is a device as it is shown.
type Device struct {
	ID        string
	PCI       string // DDDD:BB:DD.F; "": a unit that stands in no slot
	PCIID     string // VVVV:DDDD:SSSS:SSSS, or ""
	Family    string
	Resource  string   // that it is offered as; "": none
	Health    string   // healthy, degraded or unhealthy
	Reasons   []string // NAME or NAME=VALUE
	Tombstone string   // of the reasons the one that says that somebody holds, or may hold, what left or moves; "": none
	AFU       string
	Interface string
	NUMANode  int // -1: none
}

// Resource is how the kubelet is served one resource.
type Resource struct {
	Name    string
	Streams int  // that are open
	Ready   bool // registered with a stream open, or without devices
}
