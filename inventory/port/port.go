package port

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Attributes of a port, relative to its directory. Only a bound driver makes
// id, afu_id and power_state; dev belongs to the driver core.
const (
	attrID    = "id"
	attrAFU   = "afu_id"
	attrPower = "power_state"
	attrDev   = "dev"
)

// readPort reads the port whose directory is dir, and appends its observations to seen. The port's
// node has the directory's name. The caller adds the properties of the card (interface, NUMA node,
// FME). The second result is false if there is no such port, or if another one has taken its place
// during the reading: then the first must not be used.
func readPort(host sysfs.Host, dir string, seen *[]sysfs.Observation) (inventory.Unit, bool) {
	p, dev, ok := outline(dir)
	if !ok || len(p.Conditions) > 0 {
		return p, ok
	}
	bound, err := sysfs.Bound(dir, attrID, attrAFU, attrPower)
	starve(&p, err)
	if bound {
		*seen = append(*seen, readBound(&p, host, dir, dev)...)
	} else {
		readUnbound(&p, dir)
	}
	// A port that left during the reading looks like one without attributes, and one that was
	// replaced like a mixture. ENODEV of one attribute is no proof: it is also returned while the
	// driver unbinds and the port stays.
	after, err := sysfs.Inode(dir)
	if starve(&p, err) {
		return p, true
	}
	return p, err == nil && after == p.Incarnation
}

// outline returns the port from its directory only, and the number of its node. The last result is
// false if there is no such port. If the daemon's own trouble prevented the reading, the port has
// a condition.
func outline(dir string) (inventory.Unit, devNumber, bool) {
	inode, err := sysfs.Inode(dir)
	name := filepath.Base(dir)
	p := inventory.Unit{
		Name:        name,
		Incarnation: inode,
		PortID:      -1,
		NUMANode:    -1,
		Nodes:       []string{name},
	}
	dev := readDev(dir)
	p.NodeNumbers = dev.appendTo(nil)
	starve(&p, dev.err)
	starved := starve(&p, err)
	return p, dev, starved || err == nil
}

// starve adds a condition to p as [findings.starve] does, and reports whether it did.
func starve(p *inventory.Unit, err error) bool {
	f := findings{conditions: p.Conditions}
	f.starve(err)
	p.Conditions = f.conditions
	return sysfs.IsShortage(err)
}

// devNumber is the number of a node, from the attribute dev of its device. The driver core
// keeps the number: reading it accesses no hardware.
type devNumber struct {
	number sysfs.DeviceNumber
	err    error
}

func readDev(dir string) devNumber {
	number, err := sysfs.ReadAs(dir+"/"+attrDev, sysfs.ParseDeviceNumber)
	return devNumber{number, err}
}

// check checks the node NAME against the number.
func (d devNumber) check(host sysfs.Host, name string) error {
	return host.CheckNode(name, d.number, d.err)
}

// appendTo appends the number, if it is known.
func (d devNumber) appendTo(numbers []string) []string {
	if d.err != nil {
		return numbers
	}
	return append(numbers, d.number.String())
}

// readUnbound reads a port without driver. It may have some of its attributes, so only the missing
// driver is a condition.
func readUnbound(p *inventory.Unit, dir string) {
	p.Conditions = append(p.Conditions, inventory.Condition{Reason: inventory.ReasonDriverUnbound, Health: fatal})
	id, err := sysfs.ReadAs(dir+"/"+attrID, parsePortID)
	starve(p, err)
	if err == nil {
		p.PortID, p.PortIDKnown = id, true
	}
}

// readBound reads a port with a driver. The id is read before afu_id: if the card dies in between,
// afu_id is all f, and the id is marked as not known. In the other order the id of a dead card
// would be used.
func readBound(p *inventory.Unit, host sysfs.Host, dir string, dev devNumber) []sysfs.Observation {
	f := findings{conditions: p.Conditions, observed: make([]sysfs.Observation, 0, 8)}
	f.observe(sysfs.ObserveEntry(dir)) // another port with this name may have the same values
	f.observe(sysfs.ObserveExists(dir + "/" + attrDriver))
	id, err := sysfs.ReadAs(dir+"/"+attrID, parsePortID)
	if err != nil {
		f.unreadable(attrID, unlisted, err)
	} else {
		p.PortID, p.PortIDKnown = id, true
	}
	afu, err := readAs(&f, dir+"/"+attrAFU, sysfs.ParseID)
	afuDead := f.takeAFU(p, afu, err)
	dead := false
	for _, file := range portFiles {
		dead = f.judge(file, dir+"/"+file.name) || dead
	}
	if dead && !afuDead { // for ports without AFU id
		f.dead(linePortDead, nil)
	}
	if dead || afuDead {
		p.PortID, p.PortIDKnown = -1, false // a dead card reads id 3
	}
	f.observe(sysfs.ObserveEntry(host.Dev + "/" + p.Name))
	f.takeNode(attrDev, dev.check(host, p.Name))
	p.Conditions, p.Files = f.conditions, f.files
	return f.observed
}

// takeAFU applies the result of reading afu_id, and reports whether the AFU is dead.
func (f *findings) takeAFU(p *inventory.Unit, id string, err error) (dead bool) {
	absent := f.asked(attrAFU, lineAFUDead, err)
	switch {
	case absent:
		p.AFUIDKnown = true // there is none: some cards have no AFU header (N6000)
	case errors.Is(err, syscall.EBUSY): // the port is disabled (dfl-afu-main.c, afu_id_show)
		f.add(inventory.Condition{
			Reason: lineReprogramming.reason, Health: lineReprogramming.health, Row: lineReprogramming.reason, Passing: true,
		})
	case err != nil:
		f.unreadable(attrAFU, lineAFUDead, err)
	case sysfs.AllOnes(id):
		f.dead(lineAFUDead, nil)
		return true
	default:
		p.AFUID, p.AFUIDKnown = id, true
	}
	return false
}

// takeNode applies the result of checking the node whose number is in the file NAME.
func (f *findings) takeNode(name string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, sysfs.ErrNodeMissing):
		f.add(inventory.Condition{Reason: inventory.ReasonNodeMissing, Health: fatal, Err: err})
	case errors.Is(err, sysfs.ErrNodeMismatch):
		f.add(inventory.Condition{Reason: inventory.ReasonNodeMismatch, Health: fatal, Err: err})
	default:
		f.unreadable(name, unlisted, err)
	}
}

// unlisted is for a file that is not in the health table: without it there is no port to offer,
// and it cannot be overruled.
var unlisted = line{health: fatal}

// mostPorts is the greatest number of ports of a card: PORT_CAP has two bits for the number
// (drivers/fpga/dfl.h).
const mostPorts = 4

func parsePortID(s string) (int, error) {
	id, err := sysfs.ParseUint8(s)
	if err == nil && id >= mostPorts {
		err = fmt.Errorf("%q is not the number of a port, want 0 to %d", s, mostPorts-1)
	}
	return id, err
}
