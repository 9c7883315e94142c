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

// Break is a way in which a device can break.
type Break struct {
	Reason string // reason that inventory reports
	Text   string // its description, on one line

	of        kinds  // the devices that can break so
	file      string // of the port or the FME; "": the device is not broken by a value
	good, bad string
	fme       bool // the file is in the FME, so all ports of the card break
}

// kinds is a set of kinds of devices.
type kinds uint8

const (
	ofPort kinds = 1 << iota
	ofGroup
	ofXRT
	ofSlot
)

// Breaks are all ways in which a device can break. The default is the first one that the device has.
var Breaks = []Break{
	{"port-ap6", "the port was shut down for power or heat", ofPort, "errors/errors", "0x0", "0x4000000000000", false},
	{"port-mmio-timeout", "the AFU did not answer in time (degraded)", ofPort, "errors/errors", "0x0", "0x100000000", false},
	{"power-throttled", "the port is throttled completely", ofPort, "power_state", "0x0", "0x6", false},
	{"fme-fatal", "catastrophic error of the card: all its ports", ofPort, "errors/catfatal_errors", "0x0", "0x400", true},
	{"device-offline", "xocl has taken the card offline", ofXRT, "dev_offline", "0", "1", false},
	{"device-bad-state", "xocl accepts no more commands", ofXRT, "device_bad_state", "0", "1", false},
	{"management-not-ready", "xocl has no connection to the management function", ofXRT, "ready", "0x1", "0x0", false},
	{firewallTripped, "a firewall has cut off the program in the card", ofXRT, "", "", "", false},
	{resetting, "the card is being reset, until it is healed", ofXRT, "", "", "", false},
	{loading, "an image is loaded, so the application function is missing", ofSlot, "", "", "", false},
	{notRescanned, "another image was loaded without a rescan", ofSlot, "", "", "", false},
	{pciGone, "the card does not answer: all its devices", ofPort | ofGroup | ofXRT | ofSlot, "", "", "", false},
	{aerFatal, "one more fatal PCI error of the card: all its devices, until no further one is counted", ofPort | ofGroup | ofXRT | ofSlot, "", "", "", false},
	{driverUnbound, "the port has no driver", ofPort, "", "", "", false},
	{notViable, "another function of the group is bound to dfl-pci, so no container can open it", ofGroup, "", "", "", false},
	{nodeMissing, "the device has no device node", ofPort | ofGroup | ofXRT, "", "", "", false},
}

const (
	pciGone       = "pci-gone"
	aerFatal      = "aer-fatal"
	driverUnbound = "driver-unbound"
	notViable     = "group-not-viable"
	loading       = "loading"
	notRescanned  = "not-rescanned"
	nodeMissing   = "node-missing"

	firewallTripped = "firewall-tripped"
	resetting       = "resetting"
)

// Device is a port of a card, an IOMMU group with a function on vfio-pci, a user function of a card with XRT, or an
// AWS card.
type Device struct {
	ID, Address string
	Port        int
	AFUID       string // "" for a device that is no port
	Node        string // name below Dev; "": none now
	Partial     bool   // the card is plugged or pulled in part
}

// Devices returns the devices of all cards, sorted by card. A card without ports has none.
func (n *Node) Devices() []Device {
	var all []Device
	for _, address := range slices.Sorted(maps.Keys(n.cards)) {
		c := n.cards[address]
		if c.Function != nil && c.Function.Driver == XRTDriver {
			node, _ := n.RenderNode(address)
			all = append(all, Device{ID: strings.TrimPrefix(address, "0000:"), Address: address, Node: node, Partial: c.Partial})
			continue
		}
		if low := n.lowest(c); c.Partial && c.Function != nil || low != nil && low == c {
			all = append(all, Device{ID: strings.TrimPrefix(address, "0000:"), Address: address, Node: c.vfioNode(), Partial: c.Partial})
		}
		if c.Slot == Application || c.Slot != "" && c.Partial {
			all = append(all, Device{ID: strings.TrimPrefix(address, "0000:"), Address: address, Partial: c.Partial})
		}
		for port, afu := range c.AFUs {
			id := strings.TrimPrefix(address, "0000:")
			if port > 0 {
				id += "-p" + strconv.Itoa(port)
			}
			all = append(all, Device{id, address, port, afu, n.PortNode(address, port), c.Partial})
		}
	}
	return all
}

// lowest returns the function that names the device of the function's group, or nil if there is none.
func (n *Node) lowest(c *plugged) *plugged {
	if c.Function == nil {
		return nil
	}
	for _, m := range n.groupOf(c.Function.IOMMU) {
		if m.Function.Driver == VFIODriver {
			return m
		}
	}
	return nil
}

// device returns the card and port of a device, as in the setting exclude: the card's address, and
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

// Break breaks a device with a reason, or with the first possible one if the reason is "".
func (n *Node) Break(device, reason string) error {
	c, port, err := n.device(device)
	if err != nil {
		return err
	}
	kind := ofPort
	switch {
	case c.Function != nil && c.Function.Driver == XRTDriver:
		kind = ofXRT
	case c.Function != nil:
		kind = ofGroup
	case c.Slot != "":
		kind = ofSlot
	}
	var names []string
	for _, b := range Breaks {
		if b.of&kind == 0 {
			continue
		}
		names = append(names, b.Reason)
		switch {
		case reason != "" && b.Reason != reason:
			continue
		case b.Reason == loading:
			return n.Remove(c.Address)
		case c.Removed:
			return fmt.Errorf("%s: found %s, whose application function is missing: heal it first", b.Reason, c.Address)
		case b.Reason == notRescanned:
			return n.changeImage(c)
		case b.Reason == pciGone:
			return n.SetFile(n.config(c), strings.Repeat("\xff", 64))
		case b.Reason == aerFatal:
			return n.countFatal(c)
		case b.Reason == notViable:
			return n.breakGroup(c)
		case b.of == ofXRT && c.Function.Render == 0, b.Reason == nodeMissing && kind == ofXRT && c.Function.Render == 0:
			return fmt.Errorf("%s: found %s, which is being reset, want it healed", b.Reason, device)
		case b.Reason == resetting:
			return n.BeginReset(c.Address)
		case b.Reason == firewallTripped:
			m := n.management(c)
			if m == nil {
				return fmt.Errorf("%s: found %s without management function, want one with it", b.Reason, device)
			}
			return n.SetFile(filepath.Join(n.CardDir(m.Address), privileged, "status"), "524288\n")
		case kind == ofXRT && b.file != "":
			return n.SetFile(filepath.Join(n.CardDir(c.Address), b.file), b.bad+"\n")
		case b.Reason == nodeMissing && kind == ofXRT:
			return os.RemoveAll(filepath.Join(n.Dev, c.renderNode()))
		case b.Reason == nodeMissing && kind == ofGroup:
			return os.RemoveAll(filepath.Join(n.Dev, c.vfioNode()))
		case b.Reason == driverUnbound:
			if err := n.Unbind(c.Address, port); err != nil {
				return err
			}
			return n.save() // saves the numbers of the deleted directories
		case b.Reason == nodeMissing:
			return os.RemoveAll(filepath.Join(n.Dev, n.PortNode(c.Address, port)))
		case b.fme && c.PhysFn != "":
			return fmt.Errorf("%s: found %s, a virtual function, which has no FME, want %s", reason, device, c.PhysFn)
		case b.fme:
			return n.SetFME(c.Address, b.file, b.bad)
		}
		return n.Set(c.Address, port, b.file, b.bad)
	}
	return fmt.Errorf("reason: found %q, want one of %s", reason, strings.Join(names, ", "))
}

// config returns the path of the config space by which the card of c is judged: that of the physical
// function.
func (n *Node) config(c *plugged) string { return filepath.Join(n.physical(c), "config") }

func (n *Node) physical(c *plugged) string { return n.CardDir(cmp.Or(c.PhysFn, c.Address)) }

// countFatal counts one more fatal error of the physical function.
func (n *Node) countFatal(c *plugged) error {
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

// breakGroup binds the last function of the group, except c, to another driver.
func (n *Node) breakGroup(c *plugged) error {
	members := n.groupOf(c.Function.IOMMU)
	for _, m := range slices.Backward(members) {
		if m != c {
			return n.SetDriver(m.Address, "dfl-pci")
		}
	}
	return fmt.Errorf("%s: found %s, which is alone in its group, want a group of several functions", notViable, c.Address)
}

// Heal heals a device that was broken in any of these ways. Counters of errors keep their values.
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
	if c.Function != nil && c.Function.Driver == XRTDriver {
		return n.healXRT(c)
	}
	if c.Function != nil {
		return n.healGroup(c)
	}
	dir, node := n.PortDir(c.Address, port), n.PortNode(c.Address, port)
	if _, err := os.Lstat(filepath.Join(n.Dev, node)); errors.Is(err, fs.ErrNotExist) {
		t := n.tree()
		major, _ := n.majors()
		if n.node(t, node, major, c.PortNumbers[port]); t.err != nil {
			return t.err
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "driver")); errors.Is(err, fs.ErrNotExist) {
		if err := n.Unbind(c.Address, port); err != nil { // removes the rest of a killed process
			return err
		}
		if err := n.Bind(c.Address, port); err != nil {
			return err
		}
	}
	for _, b := range Breaks {
		if b.of&ofPort == 0 || b.file == "" || b.fme && c.PhysFn != "" {
			continue
		}
		file := filepath.Join(dir, b.file)
		if b.fme {
			file = filepath.Join(n.FMEDir(c.Address), b.file)
		}
		if text, err := os.ReadFile(file); err == nil && string(text) == b.good+"\n" {
			continue // a write would cause the daemon to read the card
		}
		if err := n.SetFile(file, b.good+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// healConfig restores the config space of the physical function.
func (n *Node) healConfig(c *plugged) error {
	physical := n.cards[cmp.Or(c.PhysFn, c.Address)]
	if physical == nil {
		return nil
	}
	id, err := physical.pciID()
	if err != nil {
		return err
	}
	good := header(id, false)
	if text, err := os.ReadFile(n.config(c)); err == nil && string(text) == good {
		return nil
	}
	return n.SetFile(n.config(c), good)
}

// healGroup gives the functions of a group the drivers that they had when they were plugged, and restores the
// group's device node.
func (n *Node) healGroup(c *plugged) error {
	if c.Function == nil {
		return nil
	}
	for _, m := range n.groupOf(c.Function.IOMMU) {
		if m.Function.Driver != m.Driver && !m.Partial {
			if err := n.SetDriver(m.Address, m.Driver); err != nil {
				return err
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(n.Dev, c.vfioNode())); !errors.Is(err, fs.ErrNotExist) || c.Function.Minor < 0 {
		return err
	}
	t := n.tree()
	n.node(t, c.vfioNode(), n.vfioMajor(), c.Function.Minor)
	return t.err
}
