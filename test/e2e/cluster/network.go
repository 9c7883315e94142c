package cluster

import (
	"errors"
	"net"

	"github.com/vishvananda/netlink"
)

// The networks are in the range reserved for benchmarks (RFC 2544), which no real network uses.
const (
	bridge     = "adp-e2e"
	nodeIP     = "198.18.0.1" // the pods' gateway; all parts listen on it
	podNet     = "198.18.0.0/24"
	serviceIP  = "198.18.1.1" // address of the API server's service; the API server itself listens on it
	serviceNet = "198.18.1.0/24"
)

// addBridge adds the bridge for the pods, and gives it the addresses of the node and of the API server's service.
func addBridge() error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridge
	// Without a fixed MAC address, a bridge takes on one of its ports' addresses, and changes it when that port is
	// removed. Pods would then keep sending to the old address for half a minute.
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

// removeBridge removes the bridge if it exists.
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
