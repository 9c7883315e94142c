package port

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// Attributes of a port, relative to its directory. They exist only while a driver is bound.
const (
	attrID    = "id"
	attrAFU   = "afu_id"
	attrPower = "power_state"
)

// readPort reads the port whose directory is dir, and appends its observations to seen. The port's device node has the
// same name as the directory. The caller adds the card's properties (interface, NUMA node, FME). If the port doesn't
// exist or was replaced while it was being read, readPort returns false, and the unit must not be used.
func readPort(host sysfs.Host, dir string, seen *[]sysfs.Observation) (inventory.Unit, bool) {
	p, dev, ok := outline(dir)
	if !ok || len(p.Conditions) > 0 {
		return p, ok
	}
	bound, err := sysfs.Bound(dir, attrID, attrAFU, attrPower)
	addShortage(&p, err)
	if bound {
		*seen = append(*seen, readBound(&p, host, dir, dev)...)
	} else {
		readUnbound(&p, dir)
	}
	// Check whether the port was removed during the reading, so that attributes are missing, or was replaced, so that
	// some attributes are from the old port and some from the new one. ENODEV proves neither, because attributes also
	// return it when the port stays and only its driver is being unbound.
	after, err := sysfs.Inode(dir)
	if addShortage(&p, err) {
		return p, true
	}
	return p, err == nil && after == p.Incarnation
}

// outline returns a port's unit and device node, as far as the port's directory dir shows them. It returns false if the
// port doesn't exist. If a shortage prevented dir from being read, the unit has a condition.
func outline(dir string) (inventory.Unit, pci.DeviceNode, bool) {
	inode, err := sysfs.Inode(dir)
	name := filepath.Base(dir)
	p := inventory.Unit{
		Name:        name,
		Incarnation: inode,
		Facts:       inventory.Facts{PortID: -1, NUMANode: -1, Nodes: []string{name}},
	}
	dev := pci.ReadDeviceNode(name, dir)
	p.NodeNumbers = dev.AppendNumber(nil)
	addShortage(&p, dev.Err)
	starved := addShortage(&p, err)
	return p, dev, starved || err == nil
}

// addShortage adds a condition to p the same way [pci.Findings.AddShortage] does, and reports whether it did.
func addShortage(p *inventory.Unit, err error) bool {
	f := pci.Findings{Conditions: p.Conditions}
	f.AddShortage(err)
	p.Conditions = f.Conditions
	return sysfs.IsShortage(err)
}

// readUnbound reads a port without a driver. The missing driver is its only condition, because such a port may be
// missing any of its attributes.
func readUnbound(p *inventory.Unit, dir string) {
	p.Conditions = append(p.Conditions, inventory.Condition{Reason: inventory.ReasonDriverUnbound, Health: fatal})
	id, err := sysfs.ReadAs(dir+"/"+attrID, parsePortID)
	addShortage(p, err)
	if err == nil {
		p.PortID, p.PortIDKnown = id, true
	}
}

// readBound reads a port with a driver. It reads id before afu_id, so that if the card dies between the two reads,
// afu_id is all ones and the id is marked as not known. In the opposite order, a dead card's id would be used.
func readBound(p *inventory.Unit, host sysfs.Host, dir string, dev pci.DeviceNode) []sysfs.Observation {
	f := findings{pci.Findings{Conditions: p.Conditions, Observed: make([]sysfs.Observation, 0, 8)}}
	f.Observe(sysfs.ObserveEntry(dir)) // another port with the same name may have the same values
	f.Observe(sysfs.ObserveExists(dir + "/" + attrDriver))
	id, err := sysfs.ReadAs(dir+"/"+attrID, parsePortID)
	if err != nil {
		f.AddUnreadable(attrID, unlisted, err)
	} else {
		p.PortID, p.PortIDKnown = id, true
	}
	afu, err := pci.ReadAs(&f.Findings, dir+"/"+attrAFU, sysfs.ParseID)
	afuDead := f.takeAFU(p, afu, err)
	dead := false
	for _, file := range portFiles {
		dead = f.judge(file, dir+"/"+file.name) || dead
	}
	if dead && !afuDead { // a port without an AFU id
		f.AddDead(rowPortDead, nil)
	}
	if dead || afuDead {
		p.PortID, p.PortIDKnown = -1, false // a dead card's id reads as 3
	}
	f.CheckNode(host, dev, "dev")
	p.Conditions, p.Files = f.Conditions, f.Files
	return f.Observed
}

// takeAFU records the result of reading afu_id and reports whether the AFU is dead.
func (f *findings) takeAFU(p *inventory.Unit, id string, err error) (dead bool) {
	absent := f.AddFile(attrAFU, rowAFUDead, err)
	switch {
	case absent:
		p.AFUIDKnown = true // some cards have no AFU header and no AFU id (N6000)
	case errors.Is(err, syscall.EBUSY): // the port is disabled (dfl-afu-main.c, afu_id_show)
		f.Add(inventory.Condition{
			Reason: rowReprogramming.Name, Health: rowReprogramming.Health, Row: rowReprogramming.Name, Passing: true,
		})
	case err != nil:
		f.AddUnreadable(attrAFU, rowAFUDead, err)
	case sysfs.AllOnes(id):
		f.AddDead(rowAFUDead, nil)
		return true
	default:
		p.AFUID, p.AFUIDKnown = id, true
	}
	return false
}

// unlisted is the row for a file that isn't in the health table. A port without this file can't be offered, so an
// administrator can't override the severity.
var unlisted = inventory.Row{Health: fatal}

// mostPorts is the maximum number of ports on a card: PORT_CAP has two bits for it (drivers/fpga/dfl.h).
const mostPorts = 4

func parsePortID(s string) (int, error) {
	id, err := sysfs.ParseUint8(s)
	if err == nil && id >= mostPorts {
		err = fmt.Errorf("found %q, want a port number from 0 to %d", s, mostPorts-1)
	}
	return id, err
}
