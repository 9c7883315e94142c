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
	Unhealthy               // listed, but given to no container
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

// Condition is one problem of a device, found by a reading.
type Condition struct {
	Reason string // NAME or NAME=VALUE
	Health Health // severity: Degraded or Unhealthy
	// Row is the name of the [Row] that Health comes from. An administrator may overrule Health by
	// this name ([Policy.Severity]). If Row is "", Health cannot be overruled.
	Row string
	// Passing marks a condition that is normal for some time. Until it has lasted for [Config.ReprogramTimeout], it is
	// not a fault and does not count as a turn ([Config.FlapLimit]), even if Health is Unhealthy. After that, the
	// device is unhealthy. The times of conditions that are Unhealthy from the start are added up over the last
	// [Config.FlapWindow].
	Passing bool
	// Dead means that the card, or this part of it, does not answer at all.
	Dead bool
	// Err is the error of a file that could not be read, or whose value is not valid. It is logged
	// and is not part of the device.
	Err error
}

// Device is one FPGA port, one FME with all its ports, the functions of one IOMMU group, or one unit of a
// pool. It is immutable once published.
type Device struct {
	// ID is unique on the node and stable over re-enumeration: the PCI address
	// as lspci prints it, with -pN for hardware port N > 0. The devices of a pool have numbers.
	ID     string
	Family string // name of the family that reads it

	Health  Health
	Reasons []string // worst first; empty if the device is healthy
	// Fault means that the device is unhealthy because of a present problem of the hardware. It is false if the only
	// reasons are administrative or passing, the recovery hold, the quarantine, or that the device has left.
	Fault bool
	// Cause is the reason of a fault, or why the device is degraded: the worst present problem of the hardware. It is
	// "" if all reasons are administrative, passing or over. A card that is being pulled also has some reasons for a
	// moment ([IsRemovalStep]). Such a reason is the cause only if no other reason is as bad, or was within the
	// recovery hold.
	Cause string

	// Memory is what a later daemon must know to judge the device as this one does ([Config.Remembered]); nil: nothing.
	Memory *Memory

	// OfferedAs is the name of the resource that the device belongs to, from [Policy.Name], or ""
	// if the device is not offered. A device that is held under another name keeps that name,
	// unhealthy, until it is free.
	OfferedAs string

	PCIAddress string // DDDD:BB:DD.F in lower-case hex; "" if there is none
	Facts
}

// Facts are what a reading finds out about a unit, and what is published about its device.
type Facts struct {
	PCIID string // VVVV:DDDD:SSSS:SSSS, vendor, device and subsystem in lower-case hex; "" if not known
	// AnyPCIID means that the device remains the same when its PCIID changes, because the image that is loaded into it
	// determines the ids.
	AnyPCIID    bool
	NUMANode    int    // -1: none
	PortID      int    // hardware port number; -1: not known
	AFUID       string // 32 lower-case hex digits; "" if there is none
	InterfaceID string // 32 lower-case hex digits; "" if there is none

	Nodes       []string // names of its nodes below the device root, those of the ports first
	NodeNumbers []string // MAJOR:MINOR of the nodes whose numbers are known
	SharedNodes []string // names of nodes that several devices have, such as vfio/vfio
	Mounts      []string // files that a container gets at their path on the host; these are paths below the root of sysfs
	Parent      string   // name of the FME; "" if there is none
	ParentNodes []string // names of the FME's nodes below the device root
	// ProgramAtStart means that the device is programmed before each start of a container that has it.
	ProgramAtStart bool

	// Members lists the addresses of the device's other functions, sorted, in the form of PCIAddress.
	Members []string
	// Attributes contains the family's own facts about the device, by names in lowerCamelCase. They are not part of its
	// identity.
	Attributes map[string]string
	// OnlyByRule means that the device is offered only if a rule of the administrator names its resource.
	OnlyByRule bool
	// AddressEnv lists the names of environment variables that get the PCI addresses of a container's devices. A name
	// that ends with _ is completed by the name of the resource.
	AddressEnv []string
	// NamedByShell means that the device is offered under the name of its shell, by its attributes vbnv and timestamp, in
	// all modes, unless a rule of the administrator names its resource.
	NamedByShell bool
}

// left returns the facts about a device that has left: all but those about what a container gets.
func (f Facts) left() Facts {
	f.Nodes, f.NodeNumbers, f.SharedNodes, f.Mounts, f.Parent, f.ParentNodes, f.ProgramAtStart = nil, nil, nil, nil, "", nil, false
	return f
}

// Unwanted reports whether d is offered only by a rule and no rule names it. Such a device may be the NIC of a virtual
// machine, so its health needs no attention.
func (d *Device) Unwanted() bool { return d.OnlyByRule && d.OfferedAs == "" }

// MountsOf returns the paths of the device's mounts on a host with this root of sysfs.
func (d *Device) MountsOf(sysRoot string) (paths []string) {
	for _, file := range d.Mounts {
		paths = append(paths, filepath.Join(sysRoot, file))
	}
	return paths
}

// The names of attributes that are used outside of their family.
const (
	AttributeBitstreamID      = "bitstreamId"      // of the static region of a card with an FME, as 0x and up to 16 hex digits
	AttributeSerialNumber     = "serialNumber"     // of the card
	AttributePhysicalFunction = "physicalFunction" // PCI address in the form of [Device.PCIAddress]
	AttributeVirtualFunction  = "virtualFunction"  // index of the virtual function, from 0
	AttributeVBNV             = "vbnv"             // name of the shell: vendor, board, name and version, such as xilinx_u250_gen3x16_xdma_shell_4_1
	AttributeTimestamp        = "timestamp"        // of the build of the shell, in seconds, decimal; "0" for shells that are identified by UUIDs
)

// equal reports whether all fields of d and o are equal.
func (d *Device) equal(o *Device) bool { return reflect.DeepEqual(d, o) }

// deviceID returns the id of a hardware port: the address of the card, without domain 0, followed by
// -pN if N is not 0.
func deviceID(card string, port int) string {
	id := strings.TrimPrefix(card, "0000:")
	if port > 0 {
		id = fmt.Sprintf("%s-p%d", id, port)
	}
	return id
}

// IsAddress reports whether id is the id of a device in a PCI slot.
func IsAddress(id string) bool { return addressOf(id) != "" }

// addressOf returns the PCI address in an id, or "" if there is none.
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

// portOf returns the number of the hardware port in an id, or 0 if there is none.
func portOf(id string) int {
	_, n, _ := strings.Cut(id, "-p")
	port, err := strconv.Atoi(n)
	if err != nil || port < 0 {
		return 0
	}
	return port
}
