package port

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// Layout is the family for one driver's cards. It says where in sysfs the cards, ports and FMEs are:
//
//	<PCI device>/<Class>/<Entry>N/{device -> <PCI device>, <Port>N/, <FME>N/}
//
// with a link <Class>/<Entry>N in the class directory for each entry.
type Layout struct {
	Family string    // the family's name
	Kind   Kind      // of the units in a reading
	Table  *FMETable // the driver's table

	Class string // the class, which is also the name of the directory below the PCI device
	Entry string // prefix of the class entries that hold ports
	Port  string // prefix of ports
	FME   string // prefix of FMEs

	Nodes     string // prefix of the device nodes
	Subsystem string // of the cards' additional uevents; "" if there are none
}

// Name returns the family's name.
func (l Layout) Name() string { return l.Family }

// Signals returns the device node prefix and the subsystem.
func (l Layout) Signals() inventory.Signals {
	s := inventory.Signals{Nodes: []string{l.Nodes}}
	if l.Subsystem != "" {
		s.Subsystems = []string{l.Subsystem}
	}
	return s
}

// Cards returns the sorted PCI addresses of the cards. It ignores entries whose device link doesn't lead to a PCI
// device (regions below an FME), and links that are dangling or circular (because a card is being added or removed).
func (l Layout) Cards(host sysfs.Host) ([]string, error) {
	names, err := host.ClassLinks(l.Class)
	var cards []string
	for _, name := range names {
		if !sysfs.Numbered(name, l.Entry) {
			continue
		}
		card, cerr := host.ClassCard(l.Class, name)
		switch {
		case cerr != nil && !isDangling(cerr):
			err = errors.Join(err, cerr)
		case cerr == nil && card != "":
			cards = append(cards, card)
		}
	}
	slices.Sort(cards)
	return slices.Compact(cards), err
}

// Read reads the card with this PCI address. Its cost doesn't depend on the number of cards on the node.
func (l Layout) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	dir, found, err := l.find(host, card)
	if err != nil {
		return inventory.Reading{}, err
	}
	r := inventory.Reading{Observed: make([]sysfs.Observation, 0, 32)}
	virtual, err := pci.VirtualOf(dir)
	if err != nil {
		return inventory.Reading{}, err
	}
	r.Related = virtual.Related()
	if l.Kind != PerPort {
		l.readRegions(&r, host, dir, virtual, found)
		return r, nil
	}
	var c *pci.Function
	for _, e := range found {
		if len(e.ports) == 0 {
			continue
		}
		if c == nil {
			c = pci.Read(host, dir, virtual)
			r.Observed = append(r.Observed, c.Observed...)
		}
		f := l.fmeOf(e, c)
		r.Observed = append(r.Observed, f.Observed...)
		for _, name := range e.ports {
			p, ok := readPort(host, e.dir+"/"+name, &r.Observed)
			if !ok {
				continue
			}
			c.Describe(&p)
			f.describe(&p)
			join(&p, &f.findings.Findings, &c.Findings)
			r.Units = append(r.Units, p)
		}
	}
	sortUnits(r.Units)
	return r, nil
}

// join adds the findings about the FME and the PCI function, which a card's ports share, to a port. Each port gets its
// own copy.
func join(p *inventory.Unit, f, c *pci.Findings) {
	p.Conditions = slices.Concat(p.Conditions, f.Conditions, c.Conditions)
	p.Files = slices.Concat(p.Files, f.Files, c.Files)
	p.Counters = slices.Concat(p.Counters, f.Counters, c.Counters)
}

// Outline returns the units of the card with this PCI address, using only directories and links.
func (l Layout) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	dir, found, err := l.find(host, card)
	if err != nil {
		return inventory.Reading{}, err
	}
	virtual, err := pci.VirtualOf(dir)
	if err != nil {
		return inventory.Reading{}, err
	}
	r := inventory.Reading{Related: virtual.Related()}
	if l.Kind != PerPort {
		r.Units = l.outlineRegions(found, virtual)
		return r, nil
	}
	for _, e := range found {
		f := fme{name: e.fme}
		for _, name := range e.ports {
			p, _, ok := outline(e.dir + "/" + name)
			if !ok {
				continue
			}
			f.describe(&p)
			virtual.Describe(&p)
			r.Units = append(r.Units, p)
		}
	}
	sortUnits(r.Units)
	return r, nil
}

func sortUnits(units []inventory.Unit) {
	slices.SortFunc(units, func(a, b inventory.Unit) int { return compareNumbered(a.Name, b.Name) })
}

// find returns the directory of the card with this PCI address, and its class entries. The error wraps fs.ErrNotExist
// if there is no such card.
func (l Layout) find(host sysfs.Host, card string) (dir string, found []entry, err error) {
	address, err := sysfs.ParsePCIAddress(card)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if dir, err = host.PCIDir(address); err != nil {
		return "", nil, err
	}
	found, err = l.entries(dir)
	return dir, found, err
}

// entry is one of a card's class entries.
type entry struct {
	dir   string
	ports []string // names, sorted by number
	fme   string   // name; "" if there is none
}

// entries returns the class entries of the card at dir. If there are none, the error wraps fs.ErrNotExist.
func (l Layout) entries(dir string) ([]entry, error) {
	dir += "/" + l.Class
	children, err := os.ReadDir(dir)
	if err != nil {
		return nil, absentIfGone(err)
	}
	var found []entry
	for _, c := range children {
		if !c.IsDir() || !sysfs.Numbered(c.Name(), l.Entry) {
			continue
		}
		e, err := l.entry(dir + "/" + c.Name())
		switch {
		case err == nil:
			found = append(found, e)
		case !sysfs.Gone(err):
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: found no %sN: %w", dir, l.Entry, fs.ErrNotExist)
	}
	return found, nil
}

// entry returns the ports and the FME of the class entry at dir.
func (l Layout) entry(dir string) (entry, error) {
	e := entry{dir: dir}
	children, err := os.ReadDir(dir)
	if err != nil {
		return e, err
	}
	for _, c := range children {
		switch {
		case !c.IsDir():
		case sysfs.Numbered(c.Name(), l.Port):
			e.ports = append(e.ports, c.Name())
		case sysfs.Numbered(c.Name(), l.FME) && (e.fme == "" || compareNumbered(c.Name(), e.fme) < 0):
			e.fme = c.Name()
		}
	}
	slices.SortFunc(e.ports, compareNumbered)
	return e, nil
}

// compareNumbered compares two names with the same prefix by the numbers after the prefix, which can have any length.
func compareNumbered(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
