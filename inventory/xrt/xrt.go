package xrt

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// Family reads cards whose user function is bound to xocl.
type Family struct {
	// Management adds the management function's device node. With it, a container can reset the card and change its
	// shell.
	Management bool
}

// Drivers of the user function and the management function.
const (
	xocl    = "xocl"
	xclmgmt = "xclmgmt"
)

// Health rows of this family, in addition to the rows in package pci. Passing conditions are normal while a card is
// being reset. Users reset cards between programs.
var (
	rowResetting  = fatal("resetting")            // a file that every card has is missing, because xocl has removed it for a reset; passing
	rowOffline    = fatal("device-offline")       // dev_offline; passing
	rowBadState   = fatal("device-bad-state")     // device_bad_state
	rowShutdown   = fatal("device-shutdown")      // shutdown
	rowFirewall   = fatal("firewall-tripped")     // the management function's status, or an increase in the user function's detected_time
	rowManagement = fatal("management-not-ready") // the ready attribute of either function; passing
	rowMgmtOff    = fatal("management-offline")   // the management function's dev_offline; passing
)

func fatal(name string) inventory.Row { return inventory.Row{Name: name, Health: inventory.Unhealthy} }

// states lists the user function's attributes that show the card's state. Their names begin with pci/; the names of the
// management function's attributes begin with mgmt/.
var states = []state{
	{file: "pci/dev_offline", row: rowOffline, passing: true, always: true, parse: parseState},
	{file: "pci/device_bad_state", row: rowBadState, parse: parseState},
	{file: "pci/shutdown", row: rowShutdown, parse: parseState},
	{file: "pci/ready", row: rowManagement, passing: true, always: true, parse: parseReady},
}

// managementStates lists the management function's attributes that show the card's state.
var managementStates = []state{
	{file: "mgmt/dev_offline", row: rowMgmtOff, passing: true, parse: parseState},
	{file: "mgmt/ready", row: rowManagement, passing: true, parse: parseReady},
}

// state is an attribute whose parsed value is 0 if all is well.
type state struct {
	file    string
	row     inventory.Row
	passing bool
	always  bool // every xocl version has the file, except while it is resetting the card
	parse   func(string) (int, error)
}

// condition returns a row's condition.
func condition(r inventory.Row, passing bool) inventory.Condition {
	return inventory.Condition{Reason: r.Name, Health: r.Health, Row: r.Name, Passing: passing}
}

// Name returns xrt.
func (Family) Name() string { return "xrt" }

// Signals returns the render nodes' subsystem and the device node prefixes. When a card is reset or gets a new shell,
// the kernel sends no events except from these sources.
func (f Family) Signals() inventory.Signals {
	s := inventory.Signals{Subsystems: []string{"drm"}, Nodes: []string{"dri/renderD", "xfpga/"}}
	if f.Management {
		s.Nodes = append(s.Nodes, "xclmgmt")
	}
	return s
}

// Rows returns the health table.
func (Family) Rows() []inventory.Row {
	return append(pci.Rows(), rowResetting, rowOffline, rowBadState, rowShutdown, rowFirewall, rowManagement, rowMgmtOff)
}

// Cards lists the PCI addresses of all functions bound to xocl.
func (Family) Cards(host sysfs.Host) ([]string, error) { return pci.BoundTo(host, xocl) }

// Read reads the card of the user function with this PCI address.
func (f Family) Read(host sysfs.Host, address string) (inventory.Reading, error) {
	c, err := find(host, address)
	if err != nil {
		return inventory.Reading{}, err
	}
	u, nodes, err := f.unit(address, c)
	if err != nil {
		return inventory.Reading{}, err
	}
	all := pci.NewFindings()
	all.Observed = c.observed
	found := pci.NewFindings() // findings about the nodes
	for _, n := range nodes {
		found.CheckNode(host, n, n.Name+"/dev")
	}
	resetting := !c.identify(&u, &all) || c.render == ""
	if c.readStates(&all, resetting) { // xocl removes the nodes before its other files, and also recreates them first
		for i := range found.Conditions {
			found.Conditions[i].Passing = true
		}
	}
	all.Join(&found)
	if c.firewall != "" {
		c.readTrips(&all)
	}
	function := pci.Read(host, c.dir, c.Virtual)
	function.Describe(&u)
	all.Join(&function.Findings)
	if c.management != "" {
		readManagement(host, c.management, &all)
	}
	u.Conditions, u.Files, u.Counters = all.Conditions, all.Files, all.Counters
	r := inventory.Reading{Related: related(address, c), Units: []inventory.Unit{u}, Observed: all.Observed}
	// The kernel removes the driver link before xocl removes its nodes and attributes, so if xocl is being unbound, the
	// reading fails here and missing files don't become conditions.
	return r, pci.CheckBound(c.dir, xocl)
}

// readStates reads the card's states, and reports whether its nodes may be missing for a while because it is offline or
// resetting. The card counts as resetting if resetting is true or if xocl has removed any of its files.
func (c card) readStates(all *pci.Findings, resetting bool) (passing bool) {
	offline := false
	values, errs := make([]int, len(states)), make([]error, len(states))
	for i, s := range states {
		values[i], errs[i] = pci.ReadAs(all, pci.Below(c.dir, s.file), s.parse)
		resetting = resetting || s.always && errors.Is(errs[i], fs.ErrNotExist)
		offline = offline || s.row == rowOffline && values[i] != 0
	}
	if resetting {
		all.Add(condition(rowResetting, true))
	}
	for i, s := range states {
		judge(all, s, values[i], errs[i], resetting)
	}
	return resetting || offline
}

// Outline returns the unit without its health and attributes, using only directories, links and device numbers, which
// the driver core stores.
func (f Family) Outline(host sysfs.Host, address string) (inventory.Reading, error) {
	c, err := find(host, address)
	if err != nil {
		return inventory.Reading{}, err
	}
	u, _, err := f.unit(address, c)
	return inventory.Reading{Related: related(address, c), Units: []inventory.Unit{u}}, err
}

// related returns the addresses of functions whose events also concern the card: the other functions in its slot, such
// as the management function, and, if this is a virtual function, the physical function.
func related(address string, c card) []string { return append(others(address), c.Related()...) }

// identify sets the fields of u that identify the shell, and reports whether the card has a ROM. Values that can't be
// read stay unknown. There is no need to observe the values, because a new shell comes with a new ROM and a new render
// node, and xocl also replaces the memory that contains the UUIDs.
func (c card) identify(u *inventory.Unit, all *pci.Findings) (hasROM bool) {
	if u.Attributes == nil {
		u.Attributes = make(map[string]string)
	}
	read := func(path string, parse func(string) (string, error)) (string, error) {
		value, err := sysfs.Read(c.dir + "/" + path)
		all.AddShortage(err)
		if err != nil {
			return "", err
		}
		if value, err = parse(value); err != nil {
			value = "" // don't keep an earlier shell's value
		}
		return value, nil
	}
	set := func(name, path string, parse func(string) (string, error)) {
		if value, err := read(path, parse); err == nil {
			u.Attributes[name] = value
		}
	}
	if c.rom != "" {
		vbnv, err := read(c.rom+"/VBNV", parseVBNV)
		timestamp, terr := read(c.rom+"/timestamp", parseTimestamp)
		if err = errors.Join(err, terr); err == nil { // both form the name, so neither may come from an earlier shell
			u.Attributes[inventory.AttributeVBNV], u.Attributes[inventory.AttributeTimestamp] = vbnv, timestamp
		}
		hasROM = !errors.Is(err, fs.ErrNotExist)
		set("fpga", c.rom+"/FPGA", parseText)
	}
	if c.sensors != "" { // Versal cards; xocl keeps the number in memory
		set(inventory.AttributeSerialNumber, c.sensors+"/serial_num", parseText)
	}
	set("logicUuid", "logic_uuids", parseUUID)
	id, err := sysfs.ReadAs(c.dir+"/interface_uuids", parseUUID)
	all.AddShortage(err)
	u.InterfaceID, u.InterfaceIDKnown = id, err == nil || errors.Is(err, syscall.EINVAL) // EINVAL means a shell without UUIDs
	return hasROM
}

// judge adds the findings about a state. While the card is resetting, missing files don't count.
func judge(all *pci.Findings, s state, value int, err error, resetting bool) {
	if resetting && errors.Is(err, fs.ErrNotExist) || all.AddFile(s.file, s.row, err) {
		return
	}
	switch {
	case err != nil:
		all.AddUnreadable(s.file, s.row, err)
	case value != 0:
		all.Add(condition(s.row, s.passing))
	}
}

// readTrips reads the time at which one of the card's AXI firewalls last tripped, according to the management function.
// xocl keeps this time across a reset, so only an increase means that a firewall has tripped again.
func (c card) readTrips(all *pci.Findings) {
	const file = "pci/firewall/detected_time"
	at, err := pci.ReadAs(all, c.dir+"/"+c.firewall+"/detected_time", parseCount)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		all.AddShortage(err)
	case err != nil:
		all.AddFile(file, rowFirewall, err)
		all.AddUnreadable(file, rowFirewall, err)
	default:
		all.AddFile(file, rowFirewall, nil)
		all.Counters = append(all.Counters, inventory.Counter{
			Name: file, Value: at, Reason: rowFirewall.Name, Health: rowFirewall.Health, Row: rowFirewall.Name,
		})
	}
}

// readManagement adds the findings about the management function at dir, unless the function has been unbound in the
// meantime.
func readManagement(host sysfs.Host, dir string, all *pci.Findings) {
	m := pci.Read(host, dir, pci.Virtual{})
	m.Prefix("mgmt/")
	for _, s := range managementStates {
		value, err := pci.ReadAs(&m.Findings, pci.Below(dir, s.file), s.parse)
		judge(&m.Findings, s, value, err, false)
	}
	entries, err := os.ReadDir(dir)
	m.AddShortage(err)
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "firewall.m.") {
			status, err := pci.ReadAs(&m.Findings, dir+"/"+e.Name()+"/status", parseCount)
			const file = "mgmt/firewall/status"
			switch {
			case m.AddFile(file, rowFirewall, err):
			case err != nil:
				m.AddUnreadable(file, rowFirewall, err)
			case status != 0:
				m.AddRow(rowFirewall)
			}
			break
		}
	}
	switch driver, err := pci.DriverOf(dir); {
	case sysfs.IsShortage(err):
		all.AddShortage(err)
	case driver == xclmgmt:
		all.Join(&m.Findings)
	}
}
