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

// Read reads the port whose directory is dir. Its node has the directory's
// name. What the port's card knows (interface, NUMA node, FME) is left to the
// caller. The second result is false when there is no such port, or no longer
// the same one when it had been read: then the first means nothing.
func Read(host sysfs.Host, dir string) (inventory.Port, bool) {
	p, ok := outline(dir)
	if !ok || len(p.Conditions) > 0 {
		return p, ok
	}
	bound, err := sysfs.Bound(dir, attrID, attrAFU, attrPower)
	starve(&p, err)
	if bound {
		readBound(&p, host, dir)
	} else {
		readUnbound(&p, dir)
	}
	// A port that left in the middle looks like one that lacks everything, and
	// one that was replaced like a mixture. ENODEV of one attribute is no proof:
	// it also comes while the driver unbinds and the port stays.
	after, err := sysfs.Inode(dir)
	if starve(&p, err) {
		return p, true
	}
	return p, err == nil && after == p.Incarnation
}

// outline is what the directory alone says of the port. It has a condition where
// the daemon's own trouble keeps it from saying anything.
func outline(dir string) (inventory.Port, bool) {
	inode, err := sysfs.Inode(dir)
	name := filepath.Base(dir)
	p := inventory.Port{
		Name:        name,
		Incarnation: inode,
		PortID:      -1,
		NUMANode:    -1,
		Nodes:       []string{name},
	}
	starved := starve(&p, err)
	return p, starved || err == nil
}

// starve adds to p what [findings.starve] makes of err, and reports whether that
// is something.
func starve(p *inventory.Port, err error) bool {
	f := findings{conditions: p.Conditions}
	f.starve(err)
	p.Conditions = f.conditions
	return sysfs.OwnTrouble(err)
}

// readUnbound reads a port without driver. Its attributes are absent or partly
// there, so nothing but the missing driver is judged.
func readUnbound(p *inventory.Port, dir string) {
	p.Conditions = append(p.Conditions, inventory.Condition{Reason: inventory.ReasonDriverUnbound, Health: fatal})
	id, err := sysfs.ReadAs(dir+"/"+attrID, parsePortID)
	starve(p, err)
	if err == nil {
		p.PortID, p.PortIDKnown = id, true
	}
}

// readBound reads a port with a driver. The id is read before afu_id: a card
// that dies in between gives afu_id all f, and the id is not believed; the other
// way round an id of a dead card would pass.
func readBound(p *inventory.Port, host sysfs.Host, dir string) {
	f := findings{conditions: p.Conditions}
	id, err := sysfs.ReadAs(dir+"/"+attrID, parsePortID)
	if err != nil {
		f.unreadable(attrID, unlisted, err)
	} else {
		p.PortID, p.PortIDKnown = id, true
	}
	afu, err := sysfs.ReadAs(dir+"/"+attrAFU, sysfs.ParseID)
	afuDead := f.takeAFU(p, afu, err)
	dead := false
	for _, file := range portFiles {
		dead = f.judge(file, dir+"/"+file.name) || dead
	}
	if dead && !afuDead { // those without AFU id have no other way to tell
		f.dead(linePortDead, nil)
	}
	if dead || afuDead {
		p.PortID, p.PortIDKnown = -1, false // a dead card reads id 3
	}
	f.takeNode(attrDev, host.CheckNode(p.Name, dir+"/"+attrDev))
	p.Conditions, p.Files = f.conditions, f.files
}

// takeAFU takes in what reading afu_id gave, and says whether the AFU is dead.
func (f *findings) takeAFU(p *inventory.Port, id string, err error) (dead bool) {
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

// takeNode takes in what checking the node gave whose number is in the file NAME.
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

// unlisted is for a file that is not in the health table: without it there is no
// port to offer, and nobody may overrule that.
var unlisted = line{health: fatal}

// mostPorts is how many ports a card can have: PORT_CAP has two bits for the
// number (drivers/fpga/dfl.h).
const mostPorts = 4

func parsePortID(s string) (int, error) {
	id, err := sysfs.ParseSmall(s)
	if err == nil && id >= mostPorts {
		err = fmt.Errorf("%q is not the number of a port, want 0 to %d", s, mostPorts-1)
	}
	return id, err
}
