package port

import (
	"path/filepath"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Kind is what one [inventory.Unit] of a reading stands for.
type Kind uint8

const (
	// PerPort: one port.
	PerPort Kind = iota
	// PerFME: a region, that is an FME with all its ports, whose nodes it has. A
	// function that has ports but no FME of its own is one without interface id.
	PerFME
	// PerFMEWithNode: the same, and the node of the FME behind those of the ports.
	PerFMEWithNode
)

// hookAnnotations are those that Intel's programming hook looks for in mode region. The
// value does not follow the namespace of the resources: the hook knows this one only.
var hookAnnotations = map[string]string{"com.intel.fpga.mode": "fpga.intel.com/region"}

// fmeDev is the name under which trouble with an FME's dev is told.
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

// readRegion reads the region of e. One that has another FME or other ports after
// it has been read is read once more: a card that comes or goes, or whose ports are
// released, would be half of what it is. The last result is false if the region has left.
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

// same says whether the FME and the ports have the same names.
func (e entry) same(o entry) bool { return e.fme == o.fme && slices.Equal(e.ports, o.ports) }

// readAll reads the FME and the ports of the region of e. The last result is false if
// there are none.
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

// region is what the directories of e say of its region, given those of its ports.
//
// It lives and dies with the class entry, whose name and inode it has, though it
// is about the FME: the driver takes the FME of a card that is pulled away before
// the ports, and that would make it another one for a moment.
func (l Layout) region(e entry, inode uint64, ports []inventory.Unit) inventory.Unit {
	r := inventory.Unit{
		Name: filepath.Base(e.dir), Incarnation: inode,
		PortIDKnown: true, // 0: the card's address is its whole identity
		NUMANode:    -1,
	}
	if l.Kind == PerFME {
		r.Annotations = hookAnnotations
	}
	for _, p := range ports {
		r.Nodes = append(r.Nodes, p.Nodes...)
		r.NodeNumbers = append(r.NodeNumbers, p.NodeNumbers...)
	}
	if e.fme == "" {
		r.InterfaceIDKnown = true // there is none: nobody can program it from here
		return r
	}
	if len(ports) == 0 {
		// With the node of the FME, too: a card that is being plugged in has it before
		// its ports, and nobody may be given a half of one.
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

// portsNum is how many ports a region has. Its FME says so: those that are given to
// virtual functions for a while, and are not here, count.
func (e entry) portsNum(ports []inventory.Unit) (int, error) {
	if e.fme == "" {
		return len(ports), nil
	}
	return sysfs.ReadAs(e.dir+"/"+e.fme+"/"+attrPorts, sysfs.ParseSmall)
}

// onlyAFU is the AFU of a region that has one port; one that has more has none of
// its own.
func onlyAFU(has int, ports []inventory.Unit) (id string, known bool) {
	switch {
	case has > 1:
		return "", true
	case len(ports) == 1:
		return ports[0].AFUID, ports[0].AFUIDKnown
	}
	return "", false
}

// outlineRegions says which regions there are, from directories and links alone.
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
