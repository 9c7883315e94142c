package port

import (
	"fmt"
	"strconv"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// pciCard is the state of a card as a PCI device that its units share.
type pciCard struct {
	dir    string // of the physical function
	physfn string // its address, where the card is a virtual one; else ""
	pciID  string
	numa   int
	findings
}

// readCard reads the PCI side of the card at dir. The health of a virtual function is read at its
// physical function: its own config space begins with ff and its link is Unknown, which is normal.
func (l Layout) readCard(host sysfs.Host, dir, physfn string) *pciCard {
	c := &pciCard{
		dir: dir, physfn: physfn, findings: someFiles(),
	}
	var err error
	c.pciID, err = sysfs.PCIID(dir)
	c.starve(err)
	c.numa, err = sysfs.NUMANode(dir)
	c.starve(err)
	if physfn != "" {
		if c.dir, err = host.PCIDir(physfn, l.Class); err != nil {
			c.starve(err)
			// All readings there fail for the same reason, which becomes their condition.
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

// describe sets the parts of a unit that come from its card.
func (c *pciCard) describe(u *inventory.Unit) {
	u.PCIID, u.NUMANode = c.pciID, c.numa
}

// configFile is the config space of a PCI device.
const configFile = "pci/config"

// readConfig reads vendor and device from config space. They are all ones if the device has left
// the bus. It reads no other byte, because each dword is an access to the device.
func (c *pciCard) readConfig() (gone bool) {
	var id [4]byte
	path := below(c.dir, configFile)
	err := sysfs.ReadFull(path, id[:])
	switch {
	case c.asked(configFile, linePCIGone, err):
	case err != nil:
		c.unreadable(configFile, linePCIGone, err)
	case id == [4]byte{0xff, 0xff, 0xff, 0xff}:
		c.dead(linePCIGone, nil)
		return true
	default:
		c.observe(sysfs.ObservePrefix(path, id[:]))
	}
	return false
}

// link is one measure of a PCIe link: its files, their values without a device or a link, and the
// line for a value that is less than possible.
type link struct {
	now, most, slot string // present value, and the greatest of the device and of its slot
	slow            line
	parse           func(string) (int, error) // 0: unknown
	show            func(int) string
	gone            int // present value that means unknown, too
	none            int // greatest value that means unknown, too
}

// readLink compares one measure of the link with the lesser of the greatest values of the device
// and its slot: a card with many lanes in a slot with few is as fast as it can be. A device whose
// greatest value is unknown has no link (it is integrated into the root complex).
func (c *pciCard) readLink(l *link, slot string) {
	path := below(c.dir, l.now)
	text, err := sysfs.Read(path)
	if c.asked(l.now, linePCIGone, err) {
		return
	}
	if err != nil {
		c.dead(linePCIGone, err) // the kernel could not read the device (pci-sysfs.c)
		return
	}
	c.observe(sysfs.ObserveValue(path, text))
	now, err := l.parse(text)
	if err != nil {
		c.unreadable(l.now, linePCIGone, fmt.Errorf("%s: %w", path, err))
		return
	}
	most, ok := c.readMost(l, l.most, c.dir)
	if !ok {
		return
	}
	switch now {
	case 0:
		// A value that was never known is normal: a virtual function in a guest has no physical
		// function. A value that was known and is unknown now is a condition.
		c.lost(l.now, linePCIGone)
		return
	case l.gone:
		c.dead(linePCIGone, nil)
		return
	}
	// It is read only if needed, because it costs a read: a link that has the greatest value of
	// the device is good in any slot.
	if now < most && slot != "" {
		if limit, ok := c.readMost(l, l.slot, slot); ok {
			most = min(most, limit)
		}
	}
	if now < most {
		c.valued(l.slow, l.show(now))
	}
}

// readMost reads a greatest value. It returns false if there is none, or if it is unknown.
func (c *pciCard) readMost(l *link, name, dir string) (most int, ok bool) {
	most, err := sysfs.ReadAs(below(dir, name), l.parse)
	if c.asked(name, l.slow, err) {
		return 0, false
	}
	if err != nil {
		c.unreadable(name, l.slow, err)
		return 0, false
	}
	return most, most != 0 && most != l.none
}

func showSpeed(tenths int) string { return fmt.Sprintf("%d.%d", tenths/10, tenths%10) }
func showWidth(lanes int) string  { return strconv.Itoa(lanes) }

// aerCounter is a count of PCI errors: its file, the label of the count in it ("": there is only
// one number) and the line for a rise.
type aerCounter struct {
	of    part
	name  string
	label string
	line
}

// part is one of the PCI devices on the way to a card.
type part uint8

const (
	ofCard part = iota
	ofSlot
	ofRoot
)

// count reads a count of errors of the PCI device at dir, or none if dir is "".
func (c *pciCard) count(a *aerCounter, dir string) {
	if dir == "" {
		return
	}
	path := below(dir, a.name)
	text, err := sysfs.Read(path)
	if c.asked(a.name, a.line, err) {
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
		c.unreadable(a.name, a.line, err)
		return
	}
	c.counters = append(c.counters, inventory.Counter{
		Name: a.name, Value: total, Reason: a.reason, Health: a.health, Row: a.reason,
	})
}
