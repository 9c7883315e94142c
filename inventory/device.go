package inventory

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Health is the health of a device. The zero value is Healthy; a larger value is worse.
type Health uint8

const (
	Healthy   Health = iota // offered
	Degraded                // offered; shown in logs, metrics and listings
	Unhealthy               // listed, but not allocated
)

// String returns healthy, degraded or unhealthy.
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Degraded:
		return "degraded"
	case Unhealthy:
		return "unhealthy"
	}
	return fmt.Sprintf("health(%d)", uint8(h))
}

// Condition is a problem that a reading has found with a device.
type Condition struct {
	Reason string // NAME or NAME=VALUE
	Health Health // severity: Degraded or Unhealthy
	// Row is the name of the [Row] that Health comes from. An administrator can use this name to override Health
	// ([Policy.Severity]). If Row is "", Health can't be overridden.
	Row string
	// Passing marks a condition that is normal for a limited time. Until it has lasted for [Config.ReprogramTimeout],
	// it isn't a fault and doesn't count as a turn ([Config.FlapLimit]), even if Health is Unhealthy. After that, the
	// device is unhealthy. For conditions that are Unhealthy from the start, the limit applies to their total duration
	// within [Config.FlapWindow].
	Passing bool
	// Dead means that the card, or the part that the condition is about, doesn't respond at all.
	Dead bool
	// Err is non-nil if a file couldn't be read or its value isn't valid. It is logged but not published with the
	// device.
	Err error
}

// Device is an FPGA port, an FME with all its ports, the functions in an IOMMU group, or one unit of a pool. It is
// immutable once published.
type Device struct {
	// ID is unique on the node and stays the same across re-enumeration. It is the PCI address as lspci prints it, with
	// -pN appended for hardware port N > 0. Pool devices have numbers instead.
	ID     string
	Family string // name of the family that reads the device

	Health  Health
	Reasons []string // worst first; empty if the device is healthy
	// Fault means that the device is unhealthy because of a current hardware problem. Administrative and passing
	// reasons, the recovery hold, the quarantine and removal of the device aren't faults.
	Fault bool
	// Cause is the worst current hardware problem: the one that makes the device faulty or degraded. It is "" if every
	// reason is administrative, transient or no longer present. A card that is being pulled briefly has extra reasons
	// ([IsRemovalStep]). These become the cause only if they are worse than every other reason, including the reasons
	// in the recovery hold.
	Cause string

	// Memory is what the next daemon needs in order to judge the device the same way ([Config.Remembered]). It is nil
	// if there is nothing to remember.
	Memory *Memory

	// OfferedAs is the name of the resource that the device belongs to, from [Policy.Name], or "" if the device isn't
	// offered. A device that is still held under another name keeps that name and is unhealthy until it is free.
	OfferedAs string

	PCIAddress string // DDDD:BB:DD.F in lower-case hex; "" if there is none
	Facts
}

// Facts is what a reading finds out about a unit. It is published as part of the unit's device.
type Facts struct {
	PCIID string // VVVV:DDDD:SSSS:SSSS, vendor, device and subsystem in lower-case hex; "" if not known
	// AnyPCIID means that a device whose PCIID changes is still the same device, because its PCI ids depend on the
	// image that is loaded into it.
	AnyPCIID    bool
	NUMANode    int    // -1: none
	PortID      int    // hardware port number; -1: not known
	AFUID       string // 32 lower-case hex digits; "" if there is none
	InterfaceID string // 32 lower-case hex digits; "" if there is none

	Nodes       []string // names of its device nodes below the device root; the ports' nodes come first
	NodeNumbers []string // MAJOR:MINOR of those nodes whose numbers are known
	SharedNodes []string // names of nodes that are shared by several devices, such as vfio/vfio
	Mounts      []string // files, relative to the sysfs root, that are mounted into a container at the same path as on the host
	Parent      string   // name of the FME; "" if there is none
	ParentNodes []string // names of the FME's nodes below the device root
	// ProgramAtStart means that the device is programmed each time a container that uses it starts.
	ProgramAtStart bool

	// Members lists the addresses of the device's other functions, sorted, in the same format as PCIAddress.
	Members []string
	// Attributes contains family-specific facts, with keys in lowerCamelCase. They aren't part of the device's
	// identity.
	Attributes map[string]string
	// OnlyByRule means that the device is offered only if one of the administrator's rules gives it a resource name.
	OnlyByRule bool
	// AddressEnv lists the environment variables that are set to the PCI addresses of a container's devices. If a name
	// ends in _, the resource name is appended to it.
	AddressEnv []string
	// NamedByShell means that the device is offered under its shell's name in every mode. The shell's name is made up
	// of the vbnv and timestamp attributes. A resource name from one of the administrator's rules takes precedence.
	NamedByShell bool
}

// afterRemoval returns the facts to keep about a device that has left: all except those that determine what a container
// gets.
func (f Facts) afterRemoval() Facts {
	f.Nodes, f.NodeNumbers, f.SharedNodes, f.Mounts, f.Parent, f.ParentNodes, f.ProgramAtStart = nil, nil, nil, nil, "", nil, false
	return f
}

// Unwanted reports whether d can only be offered by a rule, but no rule matches it. The health of such a device doesn't
// matter to us, because it may well be a virtual machine's NIC.
func (d *Device) Unwanted() bool { return d.OnlyByRule && d.OfferedAs == "" }

// MountsOf returns the paths of the device's mounts on a host whose sysfs is at sysRoot.
func (d *Device) MountsOf(sysRoot string) (paths []string) {
	for _, file := range d.Mounts {
		paths = append(paths, filepath.Join(sysRoot, file))
	}
	return paths
}

// Names of attributes that are used outside their family.
const (
	AttributeBitstreamID      = "bitstreamId"      // the card's static region, for cards with an FME: 0x and up to 16 hex digits
	AttributeSerialNumber     = "serialNumber"     // of the card
	AttributePhysicalFunction = "physicalFunction" // PCI address in the same format as [Device.PCIAddress]
	AttributeVirtualFunction  = "virtualFunction"  // index of the virtual function, from 0
	AttributeVBNV             = "vbnv"             // the shell's name: vendor, board, name and version, such as xilinx_u250_gen3x16_xdma_shell_4_1
	AttributeTimestamp        = "timestamp"        // when the shell was built, in seconds, decimal; "0" for shells that are identified by UUIDs
)

// equal reports whether all fields of d and o are equal.
func (d *Device) equal(o *Device) bool { return reflect.DeepEqual(d, o) }

// deviceID returns the id of a hardware port: the card's address without domain 0, followed by -pN for a port N > 0.
func deviceID(card string, port int) string {
	id := strings.TrimPrefix(card, "0000:")
	if port > 0 {
		id = fmt.Sprintf("%s-p%d", id, port)
	}
	return id
}

// IsAddress reports whether id belongs to a device in a PCI slot.
func IsAddress(id string) bool { return addressOf(id) != "" }

// AddressOf returns the PCI address in a device id, including the domain, or "" if the id doesn't contain one.
func AddressOf(id string) string { return addressOf(id) }

// addressOf returns the PCI address in a device id, or "" if the id doesn't contain one.
func addressOf(id string) string {
	card := cardOf(id)
	if strings.Count(card, ":") == 1 {
		card = "0000:" + card
	}
	address, err := sysfs.ParsePCIAddress(card)
	if err != nil || deviceID(address, portOf(id)) != id {
		return ""
	}
	return address
}

// portOf returns the hardware port number in a device id, or 0 if the id doesn't contain one.
func portOf(id string) int {
	_, n, _ := strings.Cut(id, "-p")
	port, err := strconv.Atoi(n)
	if err != nil || port < 0 {
		return 0
	}
	return port
}
