package aws

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// Family reads the application functions of AWS cards.
type Family struct{}

// resources lists the BAR files that a container gets, if they exist. resource4_wc maps the same BAR as resource4, but
// with write combining.
var resources = []string{"resource0", "resource4", "resource4_wc"}

// rowNotRescanned is the health row for a function whose config space no longer matches the ids that the kernel has
// cached, because an image was loaded without a rescan. Its value is the ids in the config space, VVVV:DDDD.
var rowNotRescanned = inventory.Row{Name: "not-rescanned", Health: inventory.Unhealthy}

// Name returns aws.
func (Family) Name() string { return "aws" }

// Signals returns no sources, because PCI events are sufficient.
func (Family) Signals() inventory.Signals { return inventory.Signals{} }

// Rows returns the health table.
func (Family) Rows() []inventory.Row { return append(pci.Rows(), rowNotRescanned) }

// Cards lists the PCI addresses of the application functions, whether they are present or not.
func (Family) Cards(host sysfs.Host) (cards []string, err error) {
	slots, err := list(host)
	for _, s := range slots {
		switch _, serr := s.find(host); {
		case serr == nil:
			cards = append(cards, s.application)
		case !sysfs.Gone(serr):
			err = errors.Join(err, serr)
		}
	}
	return cards, err
}

// Read reads the card whose application function has this address. If card is a management function, the reading has no
// units, only the application function's address in Related.
func (Family) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	s, a, err := find(host, card)
	if err != nil || s.management == card {
		return inventory.Reading{Related: s.related(card)}, err
	}
	u, err := s.unit(host, a)
	if err != nil {
		return inventory.Reading{}, err
	}
	all := pci.NewFindings()
	all.Observed = append(a.observed, sysfs.ObserveEntry(s.dir))
	management := pci.Read(host, s.dir, pci.Virtual{})
	if len(a.files) == 0 {
		// Either the application function is missing, or the kernel hasn't added its BAR files yet. It adds them after
		// it has announced the function, without sending another event.
		all.Add(inventory.Condition{Reason: inventory.ReasonLoading, Health: inventory.Unhealthy})
	}
	if a.dir != "" {
		application := pci.Read(host, a.dir, pci.Virtual{})
		u.PCIID = application.ID
		compareIDs(&application.Findings, a.dir, application.ID)
		all.Join(&application.Findings)
	}
	management.Prefix(s.management + "/")
	all.Join(&management.Findings)
	u.Conditions, u.Files, u.Counters = all.Conditions, all.Files, all.Counters
	if a.dir != "" {
		// Ignore the findings if the application function was being removed.
		if again, err := s.find(host); err != nil || again.incarnation != a.incarnation {
			u, uerr := s.unit(host, application{})
			u.Conditions = []inventory.Condition{{Reason: inventory.ReasonLoading, Health: inventory.Unhealthy}}
			return inventory.Reading{Related: s.related(card), Units: []inventory.Unit{u}}, errors.Join(err, uerr)
		}
	}
	// The management function may have been replaced after find found it and before it was observed.
	incarnation, err := sysfs.Inode(s.dir)
	if err == nil && incarnation != s.incarnation {
		err = fmt.Errorf("%s: replaced during the reading: %w", s.dir, fs.ErrNotExist)
	}
	return inventory.Reading{Related: s.related(card), Units: []inventory.Unit{u}, Observed: all.Observed}, err
}

// Outline returns the unit without its health. It uses only directories, links and the ids that the kernel has cached.
func (Family) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	s, a, err := find(host, card)
	if err != nil || s.management == card {
		return inventory.Reading{Related: s.related(card)}, err
	}
	u, err := s.unit(host, a)
	if a.dir != "" && err == nil {
		u.PCIID, err = sysfs.PCIID(a.dir)
	}
	return inventory.Reading{Related: s.related(card), Units: []inventory.Unit{u}}, err
}

// related returns the addresses of other functions whose events also concern the card.
func (s slot) related(card string) []string {
	switch card {
	case s.management:
		return []string{s.application}
	case s.application:
		return []string{s.management}
	}
	return nil
}

// unit returns the card's unit without its health and PCI ids. The unit's directory is the management function's, so
// loading an image doesn't change the unit. The only errors are shortages ([sysfs.IsShortage]).
func (s slot) unit(host sysfs.Host, a application) (u inventory.Unit, err error) {
	u = inventory.Unit{
		ID: strings.TrimPrefix(s.application, "0000:"), PCIAddress: s.application, Name: s.management, Incarnation: s.incarnation,
		AFUIDKnown: true, InterfaceIDKnown: true,
		Facts: inventory.Facts{
			PortID: -1, AnyPCIID: true, Members: []string{s.management}, Attributes: map[string]string{"slot": strconv.Itoa(s.number)},
		},
	}
	for _, name := range a.files {
		// Skip a file outside the sysfs tree: if the tree wasn't created by the kernel, a link may point there.
		if file, err := filepath.Rel(host.Sys, a.dir+"/"+name); err == nil && filepath.IsLocal(file) {
			u.Mounts = append(u.Mounts, file)
		}
	}
	u.NUMANode, err = sysfs.NUMANode(s.dir)
	return u, err
}

// find returns the slot that has a function at this address, and the state of its application function. The error wraps
// fs.ErrNotExist if there is no such slot, or if the application function belongs to another family.
func find(host sysfs.Host, address string) (s slot, a application, err error) {
	if s, err = slotOf(host, address); err == nil {
		a, err = s.find(host)
	}
	return s, a, err
}

// application is the state of an application function.
type application struct {
	dir         string // "" if the function is missing
	incarnation uint64 // of dir
	files       []string
	observed    []sysfs.Observation
}

// find looks up the slot's application function in sysfs. It only looks at directories and links. The error wraps
// fs.ErrNotExist if the function belongs to another family.
func (s slot) find(host sysfs.Host) (a application, err error) {
	link := host.Sys + "/bus/pci/devices/" + s.application
	a.observed = append(a.observed, sysfs.ObserveEntry(link))
	dir, err := host.PCIDir(s.application)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	a.observed = append(a.observed, sysfs.ObserveEntry(dir), sysfs.ObserveEntry(dir+"/driver"))
	a.incarnation, err = sysfs.Inode(dir)
	if sysfs.Gone(err) {
		return application{observed: a.observed}, nil
	}
	if err != nil {
		return a, err
	}
	a.dir = dir
	driver, err := pci.DriverOf(dir)
	if err != nil {
		return a, err
	}
	if driver == "xocl" || strings.Contains(driver, "vfio") {
		return a, fmt.Errorf("%s: found driver %s, which belongs to another family: %w", dir, driver, fs.ErrNotExist)
	}
	for _, name := range resources {
		a.observed = append(a.observed, sysfs.ObserveEntry(dir+"/"+name))
		switch _, err := os.Lstat(dir + "/" + name); {
		case err == nil:
			a.files = append(a.files, name)
		case !errors.Is(err, fs.ErrNotExist):
			return a, err
		}
	}
	return a, nil
}

// compareIDs adds a condition if the vendor and device ids in the config space of the function at dir differ from the
// ids that the kernel has cached. compareIDs ignores a config space that can't be read or is all ones, because package
// pci reports that. It reads only these ids, because reading any other dword would be another access to the function.
func compareIDs(f *pci.Findings, dir, kept string) {
	var config [4]byte
	err := sysfs.ReadFull(dir+"/config", config[:])
	f.AddShortage(err)
	if now, ok := idsOf(config); ok && err == nil && kept != "" && !strings.HasPrefix(kept, now+":") {
		f.AddValue(rowNotRescanned, now)
	}
}

// idsOf returns the vendor and device ids at the start of a config space, as VVVV:DDDD. ok is false if the function
// doesn't respond.
func idsOf(config [4]byte) (ids string, ok bool) {
	vendor, device := binary.LittleEndian.Uint16(config[:2]), binary.LittleEndian.Uint16(config[2:])
	return fmt.Sprintf("%04x:%04x", vendor, device), vendor != 0xffff
}
