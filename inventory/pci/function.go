package pci

import (
	"fmt"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Function is the state of a card's PCI function, which the card's units share.
type Function struct {
	Virtual
	Dir  string // of the function whose health counts: the physical function if there is one
	ID   string // see [inventory.Device.PCIID]
	NUMA int    // -1: none
	Findings
}

// Read reads the PCI function of the card at dir. For a virtual function, it judges the physical function instead,
// because a virtual function's config space normally begins with ff and its link is reported as Unknown.
func Read(host sysfs.Host, dir string, v Virtual) *Function {
	f := &Function{Virtual: v, Dir: dir, Findings: NewFindings()}
	var err error
	f.ID, err = sysfs.PCIID(dir)
	f.AddShortage(err)
	f.NUMA, err = sysfs.NUMANode(dir)
	f.AddShortage(err)
	if f.PhysFn != "" {
		if f.Dir, err = host.PCIDir(f.PhysFn); err != nil {
			f.AddShortage(err)
			// Read through the link instead: all reads below it will fail with the same error, which then becomes a
			// condition.
			f.Dir = host.Sys + "/bus/pci/devices/" + f.PhysFn
		}
	}
	slot, root := sysfs.Upstream(f.Dir)
	if gone := f.readConfig(); !gone {
		for i := range links {
			f.readLink(&links[i], slot)
		}
	}
	for i := range aerCounters {
		a := &aerCounters[i]
		switch a.of {
		case ofCard:
			f.count(a, f.Dir)
		case ofSlot:
			f.count(a, slot)
		case ofRoot:
			f.count(a, root)
		}
	}
	return f
}

// Describe sets the fields of u that come from the PCI function.
func (f *Function) Describe(u *inventory.Unit) {
	u.PCIID, u.NUMANode = f.ID, f.NUMA
	f.Virtual.Describe(u)
}

// configFile is the health file for a PCI device's config space.
const configFile = "pci/config"

// readConfig reads the vendor and device IDs from config space and reports whether the device has left the bus, in
// which case they read as all ones. It doesn't read any other bytes, because each dword is an access to the device. It
// must be called before readLink, because the access wakes the port above an idle function. While that port is
// suspended, the link reads as all ones on kernels that don't wake it for the link files (pci-sysfs.c).
func (f *Function) readConfig() (gone bool) {
	var id [4]byte
	path := Below(f.Dir, configFile)
	err := sysfs.ReadFull(path, id[:])
	switch {
	case f.AddFile(configFile, rowPCIGone, err):
	case err != nil:
		f.AddUnreadable(configFile, rowPCIGone, err)
	case id == [4]byte{0xff, 0xff, 0xff, 0xff}:
		f.AddDead(rowPCIGone, nil)
		return true
	default:
		f.Observe(sysfs.ObservePrefix(path, id[:]))
	}
	return false
}

// link is one property of a PCIe link: its speed or its width.
type link struct {
	now, most, slot string                    // files for the current value, the device's maximum and its slot's maximum
	slow            inventory.Row             // for a current value that is lower than possible
	parse           func(string) (int, error) // 0: unknown
	show            func(int) string
	gone            int // the current value if the device has left the bus
	none            int // a maximum that means unknown, in addition to 0
}

// readLink compares one property of the link with the maximum that both the device and its slot support, because a card
// with many lanes can't do any better in a slot with few lanes. A device whose maximum is unknown has no link, because
// it is integrated into the root complex.
func (f *Function) readLink(l *link, slot string) {
	path := Below(f.Dir, l.now)
	text, err := sysfs.Read(path)
	if f.AddFile(l.now, rowPCIGone, err) {
		return
	}
	if err != nil {
		f.AddDead(rowPCIGone, err) // the kernel couldn't read the device (pci-sysfs.c)
		return
	}
	f.Observe(sysfs.ObserveValue(path, text))
	now, err := l.parse(text)
	if err != nil {
		f.AddUnreadable(l.now, rowPCIGone, fmt.Errorf("%s: %w", path, err))
		return
	}
	most, ok := f.readMost(l, l.most, f.Dir)
	if !ok {
		return
	}
	switch now {
	case 0:
		// An unknown value is a condition only if it was known before. For a virtual function in a guest, where no
		// physical function is visible, it is never known.
		f.markAbsent(l.now)
		return
	case l.gone:
		f.AddDead(rowPCIGone, nil)
		return
	}
	// Read the slot's maximum only if needed; a link at the device's maximum is fine in any slot.
	if now < most && slot != "" {
		if limit, ok := f.readMost(l, l.slot, slot); ok {
			most = min(most, limit)
		}
	}
	if now < most {
		f.AddValue(l.slow, l.show(now))
	}
}

// markAbsent marks the health file with this name as absent, because its value is unknown. If the value was known
// before, the function has left the bus.
func (f *Function) markAbsent(name string) {
	for i := range f.Files {
		if f.Files[i].Name == name {
			f.Files[i].Absent, f.Files[i].Reason = true, rowPCIGone.Name
		}
	}
}

// readMost reads the maximum of a link property. It returns false if the file doesn't exist or its value is unknown.
func (f *Function) readMost(l *link, name, dir string) (most int, ok bool) {
	most, err := sysfs.ReadAs(Below(dir, name), l.parse)
	if f.AddFile(name, l.slow, err) {
		return 0, false
	}
	if err != nil {
		f.AddUnreadable(name, l.slow, err)
		return 0, false
	}
	return most, most != 0 && most != l.none
}

func showSpeed(tenths int) string { return fmt.Sprintf("%d.%d", tenths/10, tenths%10) }
func showWidth(lanes int) string  { return strconv.Itoa(lanes) }

// aerCounter is a PCI error counter.
type aerCounter struct {
	of    part
	file  string
	label string        // the count's label in the file; "" if the file contains only one number
	row   inventory.Row // for an increase
}

// part is one of the PCI devices from the root port to a card.
type part uint8

const (
	ofCard part = iota
	ofSlot
	ofRoot
)

// count reads an error counter of the PCI device at dir. It does nothing if dir is "".
func (f *Function) count(a *aerCounter, dir string) {
	if dir == "" {
		return
	}
	path := Below(dir, a.file)
	text, err := sysfs.Read(path)
	if f.AddFile(a.file, a.row, err) {
		return
	}
	var total uint64
	if err == nil {
		f.Observe(sysfs.ObserveValue(path, text))
		if total, err = parseTotal(text, a.label); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		f.AddUnreadable(a.file, a.row, err)
		return
	}
	f.Counters = append(f.Counters, inventory.Counter{
		Name: a.file, Value: total, Reason: a.row.Name, Health: a.row.Health, Row: a.row.Name,
	})
}

// Below returns the path of the health file with this name: the name with its first element replaced by dir.
func Below(dir, name string) string { return dir + name[strings.IndexByte(name, '/'):] }

// parseTotal returns the number on the line that begins with label, or the only number if label is "".
func parseTotal(s, label string) (uint64, error) {
	for l := range strings.Lines(s) {
		number, ok := strings.CutPrefix(strings.TrimSuffix(l, "\n"), label)
		if !ok || label != "" && !strings.HasPrefix(number, " ") {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimPrefix(number, " "), 10, 64); err == nil {
			return n, nil
		}
		break
	}
	want := "a decimal number"
	if label != "" {
		want = strconv.Quote(label) + " and a decimal number"
	}
	return 0, fmt.Errorf("found %s, want %s", sysfs.Quote(s), want)
}
