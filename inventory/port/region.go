package port

import (
	"path/filepath"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Kind is the kind of the units of a reading.
type Kind uint8

const (
	// PerPort: one port.
	PerPort Kind = iota
	// PerFME: a region, that is an FME with all its ports and their nodes. A function that has
	// ports but no FME is a region without interface id.
	PerFME
	// PerFMEWithNode: the same, and the node of the FME after those of the ports.
	PerFMEWithNode
)

// fmeDev is the name of an FME's dev in reasons.
const fmeDev = "fme/dev"

// readRegions reads the card at dir, given its class entries, by its regions.
func (l Layout) readRegions(reading *inventory.Reading, host sysfs.Host, dir string, found []entry) {
	var c *pciCard
	for _, e := range found {
		if e.fme == "" && len(e.ports) == 0 {
			continue
		}
		if c == nil {
			c = l.readCard(host, dir, reading.PhysFn)
			reading.Observed = append(reading.Observed, c.observed...)
		}
		if r, seen, ok := l.readRegion(host, e, c); ok {
			reading.Units = append(reading.Units, r)
			reading.Observed = append(reading.Observed, seen...)
		}
	}
	sortUnits(reading.Units)
}

// readRegion reads the region of e. If its FME or its ports have changed after that, it reads the
// region once more, because a card that comes or goes, or whose ports are released, would be
// incomplete. The last result is false if the region has left.
func (l Layout) readRegion(host sysfs.Host, e entry, c *pciCard) (inventory.Unit, []sysfs.Observation, bool) {
	inode, err := sysfs.Inode(e.dir)
	if err != nil {
		var r inventory.Unit
		starved := starve(&r, err)
		return r, nil, starved
	}
	r, seen, ok := l.readAll(host, e, inode, c)
	now, err := l.entry(e.dir)
	if err == nil && !e.same(now) {
		r, seen, ok = l.readAll(host, now, inode, c)
	}
	if starve(&r, err) {
		return r, seen, true
	}
	after, err := sysfs.Inode(e.dir)
	if starve(&r, err) {
		return r, seen, true
	}
	return r, seen, ok && err == nil && after == inode
}

// same reports whether the FME and the ports have the same names.
func (e entry) same(o entry) bool { return e.fme == o.fme && slices.Equal(e.ports, o.ports) }

// readAll reads the FME and the ports of the region of e. The last result is false if there are
// none.
func (l Layout) readAll(host sysfs.Host, e entry, inode uint64, c *pciCard) (inventory.Unit, []sysfs.Observation, bool) {
	f := l.fmeOf(host, e, c)
	if l.Kind == PerFMEWithNode && e.fme != "" && f.bound {
		f.observe(sysfs.ObserveEntry(host.Dev + "/" + e.fme))
		f.takeNode(fmeDev, readDev(e.dir+"/"+e.fme).check(host, e.fme))
	}
	var ports []inventory.Unit
	seen := f.observed
	for _, name := range e.ports {
		if p, ok := readPort(host, e.dir+"/"+name, &seen); ok {
			ports = append(ports, p)
		}
	}
	r := l.region(e, inode, ports)
	has, err := e.portsNum(ports)
	starve(&r, err)
	if err == nil {
		r.AFUID, r.AFUIDKnown = onlyAFU(has, ports)
		r.Partial = 0 < len(ports) && len(ports) < has
	}
	if e.fme != "" {
		f.describe(&r)
	}
	c.describe(&r)
	all := merge(r.Conditions, ports, &f.findings, &c.findings)
	r.Conditions, r.Files, r.Counters = all.conditions, all.files, all.counters
	return r, seen, e.fme != "" || len(ports) > 0
}

// region returns the region of e, as far as its directories show it, with these ports.
//
// It has the name and the inode of the class entry, not those of the FME: when a card is
// pulled, the driver removes the FME before the ports, and the region would be another one
// for a moment.
func (l Layout) region(e entry, inode uint64, ports []inventory.Unit) inventory.Unit {
	r := inventory.Unit{
		Name: filepath.Base(e.dir), Incarnation: inode,
		PortIDKnown: true, // 0: the id is the card's address alone
		NUMANode:    -1,
		// With the node of the FME, a container programs the card itself.
		ProgramAtStart: l.Kind == PerFME,
	}
	for _, p := range ports {
		r.Nodes = append(r.Nodes, p.Nodes...)
		r.NodeNumbers = append(r.NodeNumbers, p.NodeNumbers...)
	}
	if e.fme == "" {
		r.InterfaceIDKnown = true // there is none: the card cannot be programmed from here
		return r
	}
	if len(ports) == 0 {
		// Also with the node of the FME: a card that is being plugged in has that node before its
		// ports, and must not be offered incomplete.
		r.Conditions = []inventory.Condition{{Reason: inventory.ReasonNoPort, Health: fatal}}
	}
	if l.Kind == PerFMEWithNode {
		r.Nodes = append(r.Nodes, e.fme)
		dev := readDev(e.dir + "/" + e.fme)
		r.NodeNumbers = dev.appendTo(r.NodeNumbers)
		starve(&r, dev.err)
	}
	return r
}

// portsNum returns the number of ports of a region, from its FME. It includes ports that are
// assigned to virtual functions.
func (e entry) portsNum(ports []inventory.Unit) (int, error) {
	if e.fme == "" {
		return len(ports), nil
	}
	return sysfs.ReadAs(e.dir+"/"+e.fme+"/"+attrPorts, sysfs.ParseUint8)
}

// onlyAFU returns the AFU of a region with one port. A region with several ports has no AFU.
func onlyAFU(has int, ports []inventory.Unit) (id string, known bool) {
	switch {
	case has > 1:
		return "", true
	case len(ports) == 1:
		return ports[0].AFUID, ports[0].AFUIDKnown
	}
	return "", false
}

// outlineRegions returns the regions, from directories and links only.
func (l Layout) outlineRegions(found []entry) []inventory.Unit {
	var regions []inventory.Unit
	for _, e := range found {
		inode, err := sysfs.Inode(e.dir)
		var own findings // the daemon's own trouble
		own.starve(err)
		var ports []inventory.Unit
		for _, name := range e.ports {
			if p, _, ok := outline(e.dir + "/" + name); ok {
				ports = append(ports, p)
				own.conditions = append(own.conditions, p.Conditions...)
			}
		}
		if len(own.conditions) == 0 && (err != nil || e.fme == "" && len(ports) == 0) {
			continue
		}
		r := l.region(e, inode, ports)
		r.Conditions = append(r.Conditions, own.conditions...)
		if e.fme != "" {
			f := fme{name: e.fme}
			f.describe(&r)
		}
		regions = append(regions, r)
	}
	sortUnits(regions)
	return regions
}
