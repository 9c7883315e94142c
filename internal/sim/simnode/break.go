package simnode

import (
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

	file      string // of the port or the FME; "": the device is not broken by a value
	good, bad string
	fme       bool // the file is in the FME, so all ports of the card break
}

// Breaks are all ways in which a device can break. The first is the default.
var Breaks = []Break{
	{"port-ap6", "the port was shut down for power or heat", "errors/errors", "0x0", "0x4000000000000", false},
	{"port-mmio-timeout", "the AFU did not answer in time (degraded)", "errors/errors", "0x0", "0x100000000", false},
	{"power-throttled", "the port is throttled completely", "power_state", "0x0", "0x6", false},
	{"fme-fatal", "catastrophic error of the card: all its ports", "errors/catfatal_errors", "0x0", "0x400", true},
	{driverUnbound, "the port has no driver", "", "", "", false},
	{nodeMissing, "the port has no device node", "", "", "", false},
}

const (
	driverUnbound = "driver-unbound"
	nodeMissing   = "node-missing"
)

// Device is a port of a card.
type Device struct {
	ID, Address string
	Port        int
	AFUID       string
	Node        string // name below Dev
	Partial     bool   // the card is plugged or pulled in part
}

// Devices returns the ports of all cards, sorted by card. A card without ports has none.
func (n *Node) Devices() []Device {
	var all []Device
	for _, address := range slices.Sorted(maps.Keys(n.cards)) {
		c := n.cards[address]
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
	case port < 0 || port >= c.Ports:
		return nil, 0, fmt.Errorf("device: found %q, want a port of the card, which has %d", text, c.Ports)
	}
	return c, port, nil
}

// Break breaks a device with a reason.
func (n *Node) Break(device, reason string) error {
	c, port, err := n.device(device)
	if err != nil {
		return err
	}
	var names []string
	for _, b := range Breaks {
		names = append(names, b.Reason)
		switch {
		case b.Reason != reason:
			continue
		case reason == driverUnbound:
			if err := n.Unbind(c.Address, port); err != nil {
				return err
			}
			return n.save() // saves the numbers of the deleted directories
		case reason == nodeMissing:
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

// Heal heals a device that was broken in any of these ways.
func (n *Node) Heal(device string) error {
	c, port, err := n.device(device)
	if err != nil {
		return err
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
		if b.file == "" || b.fme && c.PhysFn != "" {
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
