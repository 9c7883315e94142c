package cluster

import (
	"errors"
	"net"

	"github.com/vishvananda/netlink"
)

// The networks are those for benchmarks of devices (RFC 2544), which no network
// that is in use has.
const (
	bridge     = "adp-e2e"
	nodeIP     = "198.18.0.1" // the pods' gateway, and where everything listens
	podNet     = "198.18.0.0/24"
	serviceIP  = "198.18.1.1" // of the API server, for pods; it listens there
	serviceNet = "198.18.1.0/24"
)

// addBridge makes the bridge that the pods are connected to, with both addresses.
func addBridge() error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridge
	// Without an address of its own it takes that of a port, and another one when that port
	// goes: pods then answer an address that is not there, for half a minute.
	attributes.HardwareAddr = net.HardwareAddr{0x02, 0, 198, 18, 0, 1}
	link := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	for _, address := range []net.IPNet{
		{IP: net.ParseIP(nodeIP), Mask: net.CIDRMask(24, 32)},
		{IP: net.ParseIP(serviceIP), Mask: net.CIDRMask(32, 32)},
	} {
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &address}); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

// removeBridge takes it away, if it is there.
func removeBridge() error {
	link, err := netlink.LinkByName(bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
