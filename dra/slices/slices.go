package slices

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

// Attributes of a device. Attributes in the driver's own domain don't need a prefix.
const (
	attributeDriver      = "driver"
	attributeFamily      = "family"
	attributeAFUID       = "afuId"
	attributeInterfaceID = "interfaceId"
	attributePortID      = "portId"
	attributePCIID       = "pciId"
	attributeMembers     = "members"
	attributeDegraded    = "degraded"
	attributeBitstream   = "bitstream" // only for bitstreams
)

// fixed lists the attributes that device families can't set.
var fixed = []string{attributeDriver, attributeFamily, attributeAFUID, attributeInterfaceID, attributePortID, attributePCIID, attributeMembers, attributeDegraded, attributeBitstream}

// maxDevices is the maximum number of devices in a slice. The API allows more if none of them has a taint, but with a
// fixed limit, a new taint never moves devices to other slices.
const maxDevices = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures

// Options are the options for [Of].
type Options struct {
	Node string // name of the node and its pool
	// Effect is the taint effect for a device that has failed or that its holder has lost. NoExecute evicts the holder.
	// All other taints have the effect NoSchedule.
	Effect resourceapi.DeviceTaintEffect
	// NoTaints means that the API server doesn't store taints. Slices then omit unhealthy devices.
	NoTaints bool
	// Bitstreams lists the bitstreams in the node's store, which are published as devices too.
	Bitstreams []programming.Stored
	// PCI returns the root complex and driver name of the card with the given address, each "" if unknown. The field
	// may be nil. [PCI] returns a function that can be used here.
	PCI func(address string) (root, driver string)
}

// PCI returns a function for [Options.PCI] that looks up root complexes and drivers in the sysfs tree at root. It only
// reads links, so it never blocks on a card.
func PCI(root string) func(address string) (root, driver string) {
	tree := deviceattribute.WithFSFromRoot(root)
	return func(address string) (string, string) {
		driver, err := os.Readlink(filepath.Join(root, "bus/pci/devices", address, "driver"))
		if err == nil {
			driver = filepath.Base(driver)
		}
		attribute, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(address, tree)
		if err != nil || attribute.Value.StringValue == nil {
			return "", driver
		}
		return *attribute.Value.StringValue, driver
	}
}

// Of returns the node's slices for these devices. It omits devices that don't have a name in the API or that the
// inventory doesn't advertise. For a node without devices, the pool consists of one empty slice, which shows that the
// driver is running. Bitstreams are in slices of their own at the end, so a new bitstream never moves a card to another
// slice.
func Of(devices []*inventory.Device, o Options) resourceslice.DriverResources {
	var published []resourceapi.Device
	for _, d := range devices {
		if name := nameOf(d); name != "" && !(o.NoTaints && d.Health == inventory.Unhealthy) {
			published = append(published, resourceapi.Device{Name: name, Attributes: o.Attributes(d), Taints: o.Taints(d)})
		}
	}
	pool := resourceslice.Pool{}
	for part := range slices.Chunk(published, maxDevices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
	}
	if len(pool.Slices) == 0 {
		pool.Slices = []resourceslice.Slice{{}}
	}
	for part := range slices.Chunk(bitstreams(o.Bitstreams), maxDevices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{o.Node: pool}}
}

// bitstreams returns a device for each bitstream. Any number of claims can have such a device at the same time. Its
// interfaceId attribute is the same as that of the cards that the bitstream fits, so claims can require that the two
// match. If several bitstreams would have the same name, only the first is returned, because the API server would
// reject all of the node's slices if a name occurred twice.
func bitstreams(stored []programming.Stored) (devices []resourceapi.Device) {
	names := map[string]bool{}
	for _, b := range stored {
		if name := draname.Bitstream(b.InterfaceID, b.ID); name != "" && !names[name] {
			names[name] = true
			devices = append(devices, resourceapi.Device{Name: name, AllowMultipleAllocations: new(true), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				attributeBitstream: {BoolValue: new(true)}, attributeAFUID: {StringValue: &b.ID}, attributeInterfaceID: {StringValue: &b.InterfaceID},
			}})
		}
	}
	return devices
}

// Health returns the devices' health for the kubelet. It includes devices that [Of] omits because the API server
// doesn't store taints.
func Health(devices []*inventory.Device, node string) []kubeletplugin.DeviceHealth {
	var all []kubeletplugin.DeviceHealth
	for _, d := range devices {
		name := nameOf(d)
		if name == "" {
			continue
		}
		health := kubeletplugin.HealthStatusHealthy
		if d.Health == inventory.Unhealthy {
			health = kubeletplugin.HealthStatusUnhealthy
		}
		all = append(all, kubeletplugin.DeviceHealth{
			PoolName: node, DeviceName: name, Health: health, Message: strings.Join(d.Reasons, ", "),
		})
	}
	return all
}

// nameOf returns a device's name in the API, or "" if the device isn't published.
func nameOf(d *inventory.Device) string {
	if d.OfferedAs == "" {
		return ""
	}
	return draname.Device(d.ID)
}

// Attributes returns a device's attributes. It omits unknown values, and values that the API server doesn't allow,
// because the server would reject the whole slice.
func (o Options) Attributes(d *inventory.Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	text := func(name resourceapi.QualifiedName, value string) {
		if value != "" && len(value) <= resourceapi.DeviceAttributeMaxValueLength && utf8.ValidString(value) {
			all[name] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	}
	standard := func(a deviceattribute.DeviceAttribute, err error) {
		if err == nil {
			all[a.Name] = a.Value
		}
	}
	text(attributeFamily, d.Family)
	text(attributeAFUID, d.AFUID)
	text(attributeInterfaceID, d.InterfaceID)
	text(attributePCIID, d.PCIID)
	text(attributeMembers, strings.Join(d.Members, ","))
	if d.PortID >= 0 {
		all[attributePortID] = resourceapi.DeviceAttribute{IntValue: new(int64(d.PortID))}
	}
	if d.Health == inventory.Degraded {
		all[attributeDegraded] = resourceapi.DeviceAttribute{BoolValue: new(true)}
	}
	standard(deviceattribute.GetPCIBusIDAttribute(d.PCIAddress))
	standard(deviceattribute.GetNUMANodeAttribute(d.NUMANode, deviceattribute.ScalarAttribute))
	if o.PCI != nil {
		root, driver := o.PCI(d.PCIAddress)
		text(deviceattribute.StandardDeviceAttributePCIeRoot, root)
		text(attributeDriver, driver)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		if len(all) == resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			break
		}
		if len(name) <= resourceapi.DeviceMaxIDLength && len(validation.IsCIdentifier(name)) == 0 && !slices.Contains(fixed, name) {
			text(resourceapi.QualifiedName(name), d.Attributes[name])
		}
	}
	return all
}

// Taints returns an unhealthy device's taint, and nil for other devices. The taint's effect depends on Options.Effect
// and on the device's reasons.
func (o Options) Taints(d *inventory.Device) []resourceapi.DeviceTaint {
	if d.Health != inventory.Unhealthy {
		return nil
	}
	taint := resourceapi.DeviceTaint{Key: draname.Taint, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if len(d.Reasons) > 0 {
		taint.Value = labelValue(d.Reasons[0])
	}
	if o.Effect == resourceapi.DeviceTaintEffectNoExecute && (d.Fault || slices.ContainsFunc(d.Reasons, lost)) {
		taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	}
	return []resourceapi.DeviceTaint{taint}
}

// lost reports whether reason means that a device's holder has lost its card.
func lost(reason string) bool {
	switch reason {
	case inventory.ReasonRemoved, inventory.ReasonRemovedInUse, inventory.ReasonReplacedInUse, inventory.ReasonNodeChanged:
		return true
	}
	return false
}

// labelValue converts a health reason to a label value: recovering=removed becomes recovering.removed, for example.
func labelValue(reason string) string {
	const marks = "-_."
	value := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(marks, r) {
			return r
		}
		return '.'
	}, reason)
	value = strings.TrimLeft(value, marks)
	return strings.TrimRight(value[:min(len(value), validation.LabelValueMaxLength)], marks)
}
