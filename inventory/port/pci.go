package port

import (
	"fmt"
	"strconv"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// pciCard is the state of the PCI device of a card, which its units share.
type pciCard struct {
	dir    string // of the physical function
	physfn string // address of the physical function if the card is a virtual function; else ""
	pciID  string
	numa   int
	findings
}

// readCard reads the PCI device of the card at dir. For a virtual function it judges the physical
// function: the config space of a virtual function begins with ff and its link is Unknown, which is
// normal.
func (l Layout) readCard(host sysfs.Host, dir, physfn string) *pciCard {
	c := &pciCard{
		dir: dir, physfn: physfn, findings: newFindings(),
	}
	var err error
	c.pciID, err = sysfs.PCIID(dir)
	c.addShortage(err)
	c.numa, err = sysfs.NUMANode(dir)
	c.addShortage(err)
	if physfn != "" {
		if c.dir, err = host.PCIDir(physfn, l.Class); err != nil {
			c.addShortage(err)
			// All reads there fail with the same error, which becomes a condition.
			c.dir = host.Sys + "/bus/pci/devices/" + physfn
		}
	}
	slot, root := sysfs.Upstream(c.dir)
	if gone := c.readConfig(); !gone {
		for i := range links {
			c.readLink(&links[i], slot)
		}
	}
	for i := range aerCounters {
		a := &aerCounters[i]
		switch a.of {
		case ofCard:
			c.count(a, c.dir)
		case ofSlot:
			c.count(a, slot)
		case ofRoot:
			c.count(a, root)
		}
	}
	return c
}

// describe sets the fields of a unit that come from its card.
func (c *pciCard) describe(u *inventory.Unit) {
	u.PCIID, u.NUMANode = c.pciID, c.numa
}

// configFile is the config space of a PCI device.
const configFile = "pci/config"

// readConfig reads the vendor and device ids in config space, and reports whether the device has
// left the bus: then all bits are ones. It reads no other byte, because each dword is an access to
// the device.
func (c *pciCard) readConfig() (gone bool) {
	var id [4]byte
	path := below(c.dir, configFile)
	err := sysfs.ReadFull(path, id[:])
	switch {
	case c.addFile(configFile, linePCIGone, err):
	case err != nil:
		c.addUnreadable(configFile, linePCIGone, err)
	case id == [4]byte{0xff, 0xff, 0xff, 0xff}:
		c.addDead(linePCIGone, nil)
		return true
	default:
		c.observe(sysfs.ObservePrefix(path, id[:]))
	}
	return false
}

// link is one property of a PCIe link, its speed or its width.
type link struct {
	now, most, slot string                    // files: present value, greatest of the device, greatest of its slot
	slow            line                      // for a present value that is less than possible
	parse           func(string) (int, error) // 0: unknown
	show            func(int) string
	gone            int // the present value of a device that has left the bus
	none            int // greatest value that means unknown, in addition to 0
}

// readLink compares one property of the link with the greatest value that both the device and its
// slot support: a card with many lanes in a slot with few lanes is as fast as possible. A device
// whose greatest value is unknown has no link: it is integrated into the root complex.
func (c *pciCard) readLink(l *link, slot string) {
	path := below(c.dir, l.now)
	text, err := sysfs.Read(path)
	if c.addFile(l.now, linePCIGone, err) {
		return
	}
	if err != nil {
		c.addDead(linePCIGone, err) // the kernel could not read the device (pci-sysfs.c)
		return
	}
	c.observe(sysfs.ObserveValue(path, text))
	now, err := l.parse(text)
	if err != nil {
		c.addUnreadable(l.now, linePCIGone, fmt.Errorf("%s: %w", path, err))
		return
	}
	most, ok := c.readMost(l, l.most, c.dir)
	if !ok {
		return
	}
	switch now {
	case 0:
		// An unknown value is a condition only if it was known before. A virtual function in a
		// guest has no physical function, so its value is never known.
		c.markAbsent(l.now, linePCIGone)
		return
	case l.gone:
		c.addDead(linePCIGone, nil)
		return
	}
	// The value of the slot is read only if needed: a link with the greatest value of the device
	// is good in any slot.
	if now < most && slot != "" {
		if limit, ok := c.readMost(l, l.slot, slot); ok {
			most = min(most, limit)
		}
	}
	if now < most {
		c.addValue(l.slow, l.show(now))
	}
}

// readMost reads a greatest value. It returns false if there is no file, or if the value is unknown.
func (c *pciCard) readMost(l *link, name, dir string) (most int, ok bool) {
	most, err := sysfs.ReadAs(below(dir, name), l.parse)
	if c.addFile(name, l.slow, err) {
		return 0, false
	}
	if err != nil {
		c.addUnreadable(name, l.slow, err)
		return 0, false
	}
	return most, most != 0 && most != l.none
}

func showSpeed(tenths int) string { return fmt.Sprintf("%d.%d", tenths/10, tenths%10) }
func showWidth(lanes int) string  { return strconv.Itoa(lanes) }

// aerCounter is a count of PCI errors.
type aerCounter struct {
	of    part
	name  string // of the file
	label string // of the count in the file; "": the file has only one number
	line         // for a rise
}

// part is one of the PCI devices from the root port to a card.
type part uint8

const (
	ofCard part = iota
	ofSlot
	ofRoot
)

// count reads a count of errors of the PCI device at dir. It does nothing if dir is "".
func (c *pciCard) count(a *aerCounter, dir string) {
	if dir == "" {
		return
	}
	path := below(dir, a.name)
	text, err := sysfs.Read(path)
	if c.addFile(a.name, a.line, err) {
		return
	}
	var total uint64
	if err == nil {
		c.observe(sysfs.ObserveValue(path, text))
		if total, err = parseTotal(text, a.label); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		c.addUnreadable(a.name, a.line, err)
		return
	}
	c.counters = append(c.counters, inventory.Counter{
		Name: a.name, Value: total, Reason: a.reason, Health: a.health, Row: a.reason,
	})
}
