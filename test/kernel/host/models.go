package main

// model describes a card that can be plugged in: its PCI functions, starting with function 0.
type model []functionModel

// qemuModels contains the cards that qemu emulates, with device_add's arguments for each.
var qemuModels = map[string]map[string]any{
	// A network card that supports error reporting (AER) and function-level reset (FLR).
	"e1000e": {"driver": "e1000e"},
	// Up to four virtual functions.
	"nvme-vfs": {
		"driver": "nvme", "serial": "rig", "subsys": "subsystem", "sriov_max_vfs": 4,
		"sriov_vq_flexible": 8, "sriov_vi_flexible": 4, "max_ioqpairs": 12, "msix_qsize": 9,
	},
}

// functionModel describes a PCI function. A function that has neither an FME nor a port is foreign: its BAR contains
// only zeros, and no driver in the guest binds to it.
type functionModel struct {
	vendor, device, subsystem uint16 // vendor 0 means 8086
	fme                       *fmeModel
	ports                     []portModel // a single port without an FME makes this a virtual function
	xrt                       *xrtModel
}

type fmeModel struct {
	iface               string // its regions' interface ID
	bitstream, metadata uint64
	capability          uint64 // capability register, without the number of ports
	throttle            uint64 // 1 if the sensor doesn't have thresholds
	features            []feature
}

type portModel struct {
	revision uint64
	afu      string // GUID; "" if the port doesn't identify its AFU
	features []feature
}

var u250 = xrtModel{vbnv: "xilinx_u250_xdma_201830_2", fpga: "xcu250-figd2104-2L-e", timestamp: 1561465320}

// feature is a private feature of an FME or a port. at is its offset from the FME's or port's header.
type feature struct{ at, id, revision uint64 }

var (
	// The kernel doesn't have a driver for feature 6, but creates a device for it on the dfl bus.
	a10Features  = []feature{{fmeThermal, 1, 0}, {fmePower, 2, 0}, {fmePerf, 3, 0}, {fmeErrors, 4, 1}, {fmePR, 5, 0}, {0x6000, 6, 0}}
	portFeatures = []feature{{portErrors, 0x10, 2}, {0x2000, 0x13, 2}}

	a10 = fmeModel{
		iface: "69528db6eb31577a8c3668f9faa081f6", bitstream: 0x0123000200000185, metadata: 0x18052500,
		capability: 48<<24 | 1<<12, features: a10Features, // 48 address bits, first PCIe link
	}
	d5005 = fmeModel{
		iface: "9346116d4e4cb66ea1cbe92e1e1f8f5e", bitstream: 0x0123000200000185, metadata: 0x18052500,
		capability: 48<<24 | 1<<12, features: a10Features,
	}
	// The values are taken from a recording of a real card. The card lacks the power and performance features, and most
	// of the features it has need separate drivers (a BMC behind SPI, HSSI, memory).
	n6000 = fmeModel{
		iface: "98b4d5bc98ba5f4b98d9a2841ccf11b0", bitstream: 0x0501020222df1b7a, metadata: 0x02110055, throttle: 1,
		features: []feature{{fmeThermal, 1, 0}, {fmeErrors, 4, 1}, {fmePR, 5, 0}, {0x6000, 0x20, 0}, {0x7000, 0x13, 0},
			{0x8000, 0x13, 0}, {0x9000, 0x12, 0}, {0xa000, 0x14, 0}, {0xb000, 0x15, 0}, {0xc000, 9, 0}, {0xd000, 0x24, 0}},
	}
)

const (
	nlb     = "d8424dc4a4a3c413f89e433683f9040b" // native loopback
	nlb2    = "f7df405cbd7acf7222f144b0b93acd18"
	hello   = "bfaf2ae94a5246e382fe38f0f9e17764"
	fmeGUID = "bfaf2ae94a5246e382fe38f0f9e17764"
)

var models = map[string]model{
	"a10":    {{device: 0x09c4, fme: &a10, ports: []portModel{{afu: nlb, features: portFeatures}}}},
	"a10-2p": {{device: 0x09c4, fme: &a10, ports: []portModel{{afu: nlb, features: portFeatures}, {afu: nlb2, features: portFeatures}}}},
	"a10-vf": {{device: 0x09c5, ports: []portModel{{afu: nlb, features: portFeatures}}}},
	"d5005":  {{device: 0x0b2b, subsystem: 0x138d, fme: &d5005, ports: []portModel{{afu: hello, revision: 1, features: portFeatures}}}},
	// Cards for vfio-pci. n6001-vf has one function, like an N6001's virtual function. ofs-3fn has three functions,
	// which share an IOMMU group because they don't support ACS.
	"n6001-vf": {{device: 0xbccf, subsystem: 0x1771}},
	"ofs-3fn":  {{device: 0xbcce, subsystem: 0x1771}, {device: 0xbcce, subsystem: 0x1771}, {device: 0xbcce, subsystem: 0x1771}},
	// A card for xocl: a management function, which doesn't have a driver, and a user function.
	"u250": {{vendor: 0x10ee, device: 0x5004, subsystem: 0x000e}, {vendor: 0x10ee, device: 0x5005, subsystem: 0x000e, xrt: &u250}},
	// An AWS F2 card: the application function, with a cleared slot's IDs, and the management function.
	"aws-f2": {{vendor: 0x1d0f, device: 0x9048, subsystem: 0x1d51}, {vendor: 0x1d0f, device: 0x9248, subsystem: 0x1d51}},
	// Function 0 has the FME, and a port with neither an AFU nor the error feature. Of the other functions, one is a
	// virtio network card, and those with Intel's IDs don't have a feature list. (On real cards, their feature list is
	// empty. It is found through a PCI Express capability, which devices behind qemu's proxy don't have.)
	"n6000": {
		{device: 0xbcce, subsystem: 0x1770, fme: &n6000, ports: []portModel{{revision: 1, features: []feature{{0x2000, 0x14, 1}}}}},
		{device: 0xbcce, subsystem: 0x1770},
		{device: 0xbcce, subsystem: 0x1770},
		{vendor: 0x1af4, device: 0x1000, subsystem: 0x1770},
		{device: 0xbcce, subsystem: 0x1770},
	},
}
