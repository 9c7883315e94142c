package port

import (
	"path/filepath"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// Kind says what the units of a reading are.
type Kind uint8

const (
	// PerPort makes each port a unit.
	PerPort Kind = iota
	// PerFME makes each region a unit: an FME with all its ports and their nodes. A function that has ports but no FME
	// is a region without an interface id.
	PerFME
	// PerFMEWithNode is like PerFME, but adds the FME's node after the ports' nodes.
	PerFMEWithNode
)

// readRegions reads the regions of the card at dir. found lists the card's class entries.
func (l Layout) readRegions(reading *inventory.Reading, host sysfs.Host, dir string, virtual pci.Virtual, found []entry) {
	var c *pci.Function
	for _, e := range found {
		if e.fme == "" && len(e.ports) == 0 {
			continue
		}
		if c == nil {
			c = pci.Read(host, dir, virtual)
			reading.Observed = append(reading.Observed, c.Observed...)
		}
		if r, seen, ok := l.readRegion(host, e, c); ok {
			reading.Units = append(reading.Units, r)
			reading.Observed = append(reading.Observed, seen...)
		}
	}
	sortUnits(reading.Units)
}

// readRegion reads e's region. If the region's FME or ports have changed in the meantime, readRegion reads it once
// more. Otherwise the unit would be incomplete while a card is being added or removed, or while its ports are being
// released. readRegion returns false if the region no longer exists.
func (l Layout) readRegion(host sysfs.Host, e entry, c *pci.Function) (inventory.Unit, []sysfs.Observation, bool) {
	inode, err := sysfs.Inode(e.dir)
	if err != nil {
		var r inventory.Unit
		starved := addShortage(&r, err)
		return r, nil, starved
	}
	r, seen, ok := l.readAll(host, e, inode, c)
	now, err := l.entry(e.dir)
	if err == nil && !e.same(now) {
		r, seen, ok = l.readAll(host, now, inode, c)
	}
	if addShortage(&r, err) {
		return r, seen, true
	}
	after, err := sysfs.Inode(e.dir)
	if addShortage(&r, err) {
		return r, seen, true
	}
	return r, seen, ok && err == nil && after == inode
}

// same reports whether e and o have the same FME and ports, by name.
func (e entry) same(o entry) bool { return e.fme == o.fme && slices.Equal(e.ports, o.ports) }

// readAll reads the FME and the ports of e's region. It returns false if the region has neither.
func (l Layout) readAll(host sysfs.Host, e entry, inode uint64, c *pci.Function) (inventory.Unit, []sysfs.Observation, bool) {
	f := l.fmeOf(e, c)
	if l.Kind == PerFMEWithNode && e.fme != "" && f.bound {
		f.CheckNode(host, pci.ReadDeviceNode(e.fme, e.dir+"/"+e.fme), "fme/dev")
	}
	var ports []inventory.Unit
	seen := f.Observed
	for _, name := range e.ports {
		if p, ok := readPort(host, e.dir+"/"+name, &seen); ok {
			ports = append(ports, p)
		}
	}
	r := l.region(e, inode, ports)
	has, err := e.portsNum(ports)
	addShortage(&r, err)
	if err == nil {
		r.AFUID, r.AFUIDKnown = onlyAFU(has, ports)
		r.Partial = 0 < len(ports) && len(ports) < has
	}
	if e.fme != "" {
		f.describe(&r)
	}
	c.Describe(&r)
	all := merge(r.Conditions, ports, &f.findings.Findings, &c.Findings)
	r.Conditions, r.Files, r.Counters = all.Conditions, all.Files, all.Counters
	return r, seen, e.fme != "" || len(ports) > 0
}

// region returns the unit for e's region. The unit only contains what the directories of the region and its ports show.
//
// The unit gets its name and inode from the class entry rather than from the FME. When a card is pulled, the driver
// removes the FME before the ports, which would briefly make the region look like a different unit.
func (l Layout) region(e entry, inode uint64, ports []inventory.Unit) inventory.Unit {
	r := inventory.Unit{
		Name: filepath.Base(e.dir), Incarnation: inode,
		PortIDKnown: true, // with port id 0, the device id is just the card's address
		Whole:       true,
		Facts: inventory.Facts{
			NUMANode:       -1,
			ProgramAtStart: l.Kind == PerFME, // a container that has the FME's node programs the card itself
		},
	}
	for _, p := range ports {
		r.Nodes = append(r.Nodes, p.Nodes...)
		r.NodeNumbers = append(r.NodeNumbers, p.NodeNumbers...)
	}
	if e.fme == "" {
		r.InterfaceIDKnown = true // there is none, because this function can't program the card
		return r
	}
	if len(ports) == 0 {
		// Add this condition even for PerFMEWithNode. A card that is being plugged in has the FME's node before it has
		// any ports, and must not be offered until it has both.
		r.Conditions = []inventory.Condition{{Reason: inventory.ReasonNoPort, Health: fatal}}
	}
	if l.Kind == PerFMEWithNode {
		r.Nodes = append(r.Nodes, e.fme)
		dev := pci.ReadDeviceNode(e.fme, e.dir+"/"+e.fme)
		r.NodeNumbers = dev.AppendNumber(r.NodeNumbers)
		addShortage(&r, dev.Err)
	}
	return r
}

// portsNum returns how many ports the region has according to its FME, including those that are assigned to virtual
// functions.
func (e entry) portsNum(ports []inventory.Unit) (int, error) {
	if e.fme == "" {
		return len(ports), nil
	}
	return sysfs.ReadAs(e.dir+"/"+e.fme+"/"+attrPorts, sysfs.ParseUint8)
}

// onlyAFU returns the AFU id of a region with one port. A region with several ports has no AFU id.
func onlyAFU(has int, ports []inventory.Unit) (id string, known bool) {
	switch {
	case has > 1:
		return "", true
	case len(ports) == 1:
		return ports[0].AFUID, ports[0].AFUIDKnown
	}
	return "", false
}

// outlineRegions returns the units for a card's regions, using only directories and links.
func (l Layout) outlineRegions(found []entry, virtual pci.Virtual) []inventory.Unit {
	var regions []inventory.Unit
	for _, e := range found {
		inode, err := sysfs.Inode(e.dir)
		var own pci.Findings // shortages
		own.AddShortage(err)
		var ports []inventory.Unit
		for _, name := range e.ports {
			if p, _, ok := outline(e.dir + "/" + name); ok {
				ports = append(ports, p)
				own.Conditions = append(own.Conditions, p.Conditions...)
			}
		}
		if len(own.Conditions) == 0 && (err != nil || e.fme == "" && len(ports) == 0) {
			continue
		}
		r := l.region(e, inode, ports)
		r.Conditions = append(r.Conditions, own.Conditions...)
		if e.fme != "" {
			f := fme{name: e.fme}
			f.describe(&r)
		}
		virtual.Describe(&r)
		regions = append(regions, r)
	}
	sortUnits(regions)
	return regions
}
