package simnode

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Break is a way for a device to break.
type Break struct {
	Reason string // the health reason in package inventory
	Text   string // a one-line description

	of    kinds // kinds of devices that can break this way
	value value // if do is nil, the value that breaks the device
	do    func(n *Node, c *plugged, port int) error
}

// value is an attribute value that breaks a device.
type value struct {
	file      string // path in the port, the function or the FME
	good, bad string
	fme       bool // whether the file is in the FME, so that all of the card's ports break
}

// kinds is a set of device kinds.
type kinds uint8

const (
	ofPort kinds = 1 << iota
	ofGroup
	ofXRT
	ofSlot
	ofAny = ofPort | ofGroup | ofXRT | ofSlot
)

// kind returns what kind of devices the card has.
func (c *plugged) kind() kinds {
	switch {
	case c.Slot != "":
		return ofSlot
	case c.Function == nil:
		return ofPort
	case c.Function.Driver == XRTDriver:
		return ofXRT
	}
	return ofGroup
}

// Breaks lists the ways for a device to break. By default, a device breaks in the first way that applies to it.
var Breaks = []Break{
	{"port-ap6", "the port was shut down for power or heat", ofPort, value{"errors/errors", "0x0", "0x4000000000000", false}, nil},
	{"port-mmio-timeout", "the AFU did not answer in time (degraded)", ofPort, value{"errors/errors", "0x0", "0x100000000", false}, nil},
	{"power-throttled", "the port is throttled completely", ofPort, value{"power_state", "0x0", "0x6", false}, nil},
	{"fme-fatal", "catastrophic error of the card: all its ports", ofPort, value{"errors/catfatal_errors", "0x0", "0x400", true}, nil},
	{"device-offline", "xocl has taken the card offline", ofXRT, value{"dev_offline", "0", "1", false}, nil},
	{"device-bad-state", "xocl accepts no more commands", ofXRT, value{"device_bad_state", "0", "1", false}, nil},
	{"management-not-ready", "xocl has no connection to the management function", ofXRT, value{"ready", "0x1", "0x0", false}, nil},
	{"firewall-tripped", "a firewall has cut off the program in the card", ofXRT, value{}, (*Node).tripFirewall},
	{"resetting", "the card is being reset, until it is healed", ofXRT, value{}, (*Node).startReset},
	{loading, "an image is loaded, so the application function is missing", ofSlot, value{}, (*Node).loadImage},
	{"not-rescanned", "another image was loaded without a rescan", ofSlot, value{}, (*Node).changeImage},
	{"pci-gone", "the card does not answer: all its devices", ofAny, value{}, (*Node).silence},
	{"aer-fatal", "one more fatal PCI error of the card: all its devices, until no further one is counted", ofAny, value{}, (*Node).countFatal},
	{"driver-unbound", "the port has no driver", ofPort, value{}, (*Node).unbindPort},
	{"group-not-viable", "another function of the group is bound to dfl-pci, so no container can open it", ofGroup, value{}, (*Node).breakGroup},
	{nodeMissing, "the device has no device node", ofPort | ofGroup | ofXRT, value{}, (*Node).removeNode},
}

const (
	loading     = "loading"
	nodeMissing = "node-missing"
)

// Device is a device on the node: a card's port, an IOMMU group with a function bound to vfio-pci, the user function of
// a card with XRT, or an AWS card.
type Device struct {
	ID, Address string
	Port        int
	AFUID       string // "" if the device isn't a port
	Node        string // name below Dev; "" if there currently isn't one
	Partial     bool   // the card has been partly plugged in or pulled
}

// Devices returns all cards' devices, sorted by card. A card that uses the DFL driver has no devices if it has no
// ports.
func (n *Node) Devices() []Device {
	var all []Device
	for _, address := range slices.Sorted(maps.Keys(n.cards)) {
		c := n.cards[address]
		d := Device{ID: strings.TrimPrefix(address, "0000:"), Address: address, Partial: c.Partial}
		switch c.kind() {
		case ofXRT:
			d.Node, _ = n.RenderNode(address)
			all = append(all, d)
		case ofGroup:
			if c.Partial || n.lowest(c) == c {
				d.Node = c.vfioNode()
				all = append(all, d)
			}
		case ofSlot:
			if c.Partial || c.Slot == Application {
				all = append(all, d)
			}
		case ofPort:
			card := d.ID
			for d.Port, d.AFUID = range c.AFUs {
				if d.Port > 0 {
					d.ID = card + "-p" + strconv.Itoa(d.Port)
				}
				d.Node = n.PortNode(address, d.Port)
				all = append(all, d)
			}
		}
	}
	return all
}

// lowest returns the lowest function in c's group that is bound to vfio-pci, or nil if there is none. The group's
// device is named after this function.
func (n *Node) lowest(c *plugged) *plugged {
	for _, m := range n.groupOf(c.Function.IOMMU) {
		if m.Function.Driver == VFIODriver {
			return m
		}
	}
	return nil
}

// device returns a device's card and port. text has the same form as in the exclude setting: the card's address, plus
// -pN for port N.
func (n *Node) device(text string) (*plugged, int, error) {
	card, number, hasPort := strings.Cut(text, "-p")
	address, err := sysfs.ParseAddress(card)
	port := 0
	if err == nil && hasPort {
		port, err = strconv.Atoi(number)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("device: found %q, want a card BB:DD.F, or a port of it BB:DD.F-pN", text)
	}
	c := n.cards[address]
	switch {
	case c == nil:
		return nil, 0, fmt.Errorf("device: found %q, want a device of a plugged card: slot %s is empty", text, address)
	case c.Partial:
		return nil, 0, c.partial()
	case c.Slot == Management:
		return nil, 0, fmt.Errorf("device: found %q, a management function, want the application function", text)
	case c.Driver == ManagementDriver:
		return nil, 0, fmt.Errorf("device: found %q, a management function, want the user function", text)
	case (c.Function != nil || c.Slot != "") && !hasPort:
	case port < 0 || port >= c.Ports:
		return nil, 0, fmt.Errorf("device: found %q, want a port of the card, which has %d", text, c.Ports)
	}
	return c, port, nil
}

// Break makes a device unhealthy for the given reason or, if reason is "", for the first reason that applies to the
// device.
func (n *Node) Break(device, reason string) error {
	c, port, err := n.device(device)
	if err != nil {
		return err
	}
	var names []string
	for _, b := range Breaks {
		if b.of&c.kind() == 0 {
			continue
		}
		if reason == "" || reason == b.Reason {
			return n.breakWith(b, c, port)
		}
		names = append(names, b.Reason)
	}
	return fmt.Errorf("reason: found %q, want one of %s", reason, strings.Join(names, ", "))
}

func (n *Node) breakWith(b Break, c *plugged, port int) error {
	refuse := func(why string) error { return fmt.Errorf("%s: found %s, %s", b.Reason, c.Address, why) }
	switch {
	case c.Removed && b.Reason != loading:
		return refuse("whose application function is missing: heal it first")
	case c.kind() == ofXRT && c.Function.Render == 0 && (b.of == ofXRT || b.Reason == nodeMissing):
		return refuse("which is being reset, want it healed")
	case b.value.fme && c.PhysFn != "":
		return refuse("a virtual function, which has no FME, want " + c.PhysFn)
	}
	if b.do != nil {
		if err := b.do(n, c, port); err != nil {
			return fmt.Errorf("%s: %w", b.Reason, err)
		}
		return nil
	}
	return n.SetFile(n.valueFile(b.value, c, port), b.value.bad+"\n")
}

// valueFile returns the path of the attribute that holds v, in the given card's port, function or FME.
func (n *Node) valueFile(v value, c *plugged, port int) string {
	dir := n.CardDir(c.Address)
	switch {
	case v.fme:
		dir = n.FMEDir(c.Address)
	case c.kind() == ofPort:
		dir = n.PortDir(c.Address, port)
	}
	return filepath.Join(dir, v.file)
}

// tripFirewall trips a firewall in the management function.
func (n *Node) tripFirewall(c *plugged, _ int) error {
	m := n.management(c)
	if m == nil {
		return fmt.Errorf("found %s without management function, want one with it", c.Address)
	}
	return n.SetFile(filepath.Join(n.CardDir(m.Address), privileged, "status"), "524288\n")
}

func (n *Node) startReset(c *plugged, _ int) error { return n.BeginReset(c.Address) }

func (n *Node) loadImage(c *plugged, _ int) error { return n.Remove(c.Address) }

// silence makes every read from config space return all ones.
func (n *Node) silence(c *plugged, _ int) error {
	return n.SetFile(n.config(c), strings.Repeat("\xff", 64))
}

func (n *Node) unbindPort(c *plugged, port int) error {
	return errors.Join(n.Unbind(c.Address, port), n.save()) // saves the inode numbers of the deleted directories
}

func (n *Node) removeNode(c *plugged, port int) error {
	name, _, _ := n.deviceNode(c, port)
	return os.RemoveAll(filepath.Join(n.Dev, name))
}

// deviceNode returns the name and numbers of the device node of a port, a group or a function bound to xocl.
func (n *Node) deviceNode(c *plugged, port int) (name string, major, minor int) {
	switch c.kind() {
	case ofXRT:
		return c.renderNode(), n.renderMajor(), c.Function.Render
	case ofGroup:
		return c.vfioNode(), n.vfioMajor(), c.Function.Minor
	}
	major, _ = n.majors()
	return n.PortNode(c.Address, port), major, c.PortNumbers[port]
}

// config returns the path of the physical function's config space, which determines the health of c's card.
func (n *Node) config(c *plugged) string { return filepath.Join(n.physical(c), "config") }

func (n *Node) physical(c *plugged) string { return n.CardDir(cmp.Or(c.PhysFn, c.Address)) }

// countFatal counts one more fatal error for the physical function.
func (n *Node) countFatal(c *plugged, _ int) error {
	file := filepath.Join(n.physical(c), "aer_dev_fatal")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	words := strings.Fields(string(text))
	count, err := strconv.ParseUint(words[len(words)-1], 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return n.SetFile(file, AER("FATAL", count+1)+"\n")
}

// breakGroup binds the last of the other functions in c's group to another driver.
func (n *Node) breakGroup(c *plugged, _ int) error {
	members := n.groupOf(c.Function.IOMMU)
	for _, m := range slices.Backward(members) {
		if m != c {
			return n.SetDriver(m.Address, "dfl-pci")
		}
	}
	return fmt.Errorf("found %s, which is alone in its group, want a group of several functions", c.Address)
}

// Heal undoes a [Break] of any kind. Error counters keep their values.
func (n *Node) Heal(device string) error {
	c, port, err := n.device(device)
	if err != nil {
		return err
	}
	if c.Removed {
		return n.Rescan(c.Address, "")
	}
	if err := n.healConfig(c); err != nil || c.Slot != "" {
		return err
	}
	switch c.kind() {
	case ofXRT:
		err = n.healXRT(c)
	case ofGroup:
		err = n.healGroup(c)
	default:
		err = n.healDriver(c, port)
	}
	for _, b := range Breaks {
		if err == nil && b.of == c.kind() && b.do == nil && !(b.value.fme && c.PhysFn != "") {
			err = n.restoreFile(n.valueFile(b.value, c, port), b.value.good+"\n")
		}
	}
	if err != nil {
		return err
	}
	return n.restoreNode(c, port)
}

// restoreNode recreates a device's missing device node. A group has a device node only while any of its functions is
// bound to vfio-pci.
func (n *Node) restoreNode(c *plugged, port int) error {
	name, major, minor := n.deviceNode(c, port)
	if _, err := os.Lstat(filepath.Join(n.Dev, name)); !errors.Is(err, fs.ErrNotExist) || minor < 0 {
		return err
	}
	t := n.tree()
	n.node(t, name, major, minor)
	return t.err
}

// healDriver rebinds a port's driver if it is unbound.
func (n *Node) healDriver(c *plugged, port int) error {
	if _, err := os.Lstat(filepath.Join(n.PortDir(c.Address, port), "driver")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := n.Unbind(c.Address, port); err != nil { // removes whatever a killed process left behind
		return err
	}
	return n.Bind(c.Address, port)
}

// healConfig restores the physical function's config space.
func (n *Node) healConfig(c *plugged) error {
	physical := n.cards[cmp.Or(c.PhysFn, c.Address)]
	if physical == nil {
		return nil
	}
	id, err := physical.pciID()
	if err != nil {
		return err
	}
	return n.restoreFile(n.config(c), header(id, false))
}

// healGroup rebinds the functions in c's group to the drivers that they had when they were plugged in.
func (n *Node) healGroup(c *plugged) error {
	for _, m := range n.groupOf(c.Function.IOMMU) {
		if m.Function.Driver != m.Driver && !m.Partial {
			if err := n.SetDriver(m.Address, m.Driver); err != nil {
				return err
			}
		}
	}
	return nil
}
