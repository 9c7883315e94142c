package port

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// FMETable lists an FME's health files. This is the part of the health table that differs between drivers.
type FMETable struct {
	interfaceID pattern
	errors      []file
	// locked lists the files that aren't read while the driver is programming a port, because reading them would block
	// for several seconds on a lock that the driver holds (pdata->lock in dfl-fme-pr.c and dfl-fme-error.c).
	locked   []file
	managers []pattern // possible locations of the FPGA manager's state; the first file that exists is used
	alarms   []file
	hwmon    pattern // hwmon device directories
}

// fme is the state of an FME, which a card's units share.
type fme struct {
	name        string // "" if there is no FME
	interfaceID string
	known       bool   // the interface id is known
	bitstreamID string // "" if not known
	bound       bool   // the FME has a driver
	findings
}

// fmeDriver is the health file that represents an FME's driver.
const fmeDriver = "fme/driver"

// attrDriver is the link from a device, a port or an FME to its driver.
const attrDriver = "driver"

// FME attributes that exist only while a driver is bound. Both the DFL driver and the OPAE driver create them.
const (
	attrPorts     = "ports_num"
	attrBitstream = "bitstream_id"
)

// fmeOf reads a class entry's FME. A virtual function doesn't have its own FME; its ports belong to the physical
// function's FME.
func (l Layout) fmeOf(e entry, c *pci.Function) fme {
	if e.fme != "" {
		return l.readFME(e)
	}
	if c.PhysFn == "" {
		return noFME()
	}
	found, err := l.entries(c.Dir)
	if err != nil && !sysfs.Gone(err) {
		var f fme
		f.AddUnreadable(fmeDriver, rowFMEUnbound, err)
		return f
	}
	for _, e := range found {
		if e.fme != "" {
			return l.readFME(e)
		}
	}
	return noFME()
}

func noFME() fme {
	f := fme{known: true}
	f.addDriver(false)
	return f
}

// addDriver adds the health file for the FME's driver. The file is absent if there is no FME.
func (f *fme) addDriver(exists bool) {
	f.Files = append(f.Files, inventory.HealthFile{
		Name: fmeDriver, Absent: !exists,
		Lost: rowFMEUnbound.Health, Row: rowFMEUnbound.Name, Reason: rowFMEUnbound.Name,
	})
}

// readFME reads e's FME. An FME without a driver has few attributes or none, so its other files aren't read and the
// card's health isn't known. If the FME doesn't respond, its alarms aren't read, because all of them would appear to be
// set.
func (l Layout) readFME(e entry) fme {
	f := fme{name: e.fme, findings: findings{pci.NewFindings()}}
	top := listing{dir: e.dir + "/" + e.fme}
	f.addDriver(true)
	f.Observe(sysfs.ObserveExists(top.dir + "/" + attrDriver))
	bound, err := sysfs.Bound(top.dir, attrPorts, attrBitstream)
	f.AddShortage(err)
	if !bound {
		f.AddRow(rowFMEUnbound)
		return f
	}
	f.bound = true
	dead := f.readInterfaceID(&top, l.Table.interfaceID)
	for _, file := range l.Table.errors {
		dead = f.judge(file, pci.Below(top.dir, file.name)) || dead
	}
	if programming := f.readManager(&top, l.Table.managers); !programming {
		for _, file := range l.Table.locked {
			dead = f.judge(file, pci.Below(top.dir, file.name)) || dead
		}
	}
	if dead {
		f.AddDead(rowFMEDead, nil)
		return f
	}
	f.readBitstreamID(top.dir)
	for _, file := range l.Table.alarms {
		f.judge(file, pci.Below(top.dir, file.name))
	}
	if l.Table.hwmon.path != "" {
		f.readHWMon(&top, l.Table.hwmon)
	}
	return f
}

// readInterfaceID reads the interface id. There may be a file for each port, but the id belongs to the FME
// (FME_PR_INTFC_ID, dfl-fme-pr.c), so the first valid one is used. dead reports whether the only value found was all
// ones, which is what an FME that doesn't respond returns.
func (f *fme) readInterfaceID(top *listing, p pattern) (dead bool) {
	paths, err := top.find(p.path)
	absent := err == nil
	for _, path := range paths {
		id, rerr := sysfs.ReadAs(path, sysfs.ParseID)
		if errors.Is(rerr, fs.ErrNotExist) {
			continue
		}
		absent = false
		if rerr == nil && !sysfs.AllOnes(id) {
			f.interfaceID, f.known = id, true
			break
		}
		dead = dead || rerr == nil
		err = errors.Join(err, rerr)
	}
	f.Files = append(f.Files, inventory.HealthFile{
		Name: p.name, Absent: absent, Lost: rowInterface.Health, Row: rowInterface.Name,
	})
	switch {
	case f.known:
		return false
	case absent:
		f.known = true // there is none
	case err != nil:
		f.AddUnreadable(p.name, rowInterface, err)
	}
	return dead
}

// readBitstreamID reads the static region's version, in the format that the drivers print. It isn't a health file,
// because an FME that doesn't respond already has a condition, and an invalid value says nothing about the FME's
// health.
func (f *fme) readBitstreamID(dir string) {
	id, err := sysfs.ReadAs(dir+"/"+attrBitstream, sysfs.ParseMask)
	f.AddShortage(err)
	if err == nil && id != math.MaxUint64 {
		f.bitstreamID = "0x" + strconv.FormatUint(id, 16)
	}
}

// readManager judges the FPGA manager's state, which it reads from the first of these places that exists. It reports
// whether the manager is programming the card.
func (f *fme) readManager(top *listing, places []pattern) (programming bool) {
	var path, value string
	var err error = fs.ErrNotExist
	for _, p := range places {
		paths, ferr := top.find(p.path)
		if ferr != nil {
			err = ferr
			break
		}
		for _, path = range paths {
			if value, err = sysfs.Read(path); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	f.addResult(managerFile, path, value, err)
	return err == nil && slices.Contains(managerStates.busy, value)
}

// describe sets the fields of u that come from the FME.
func (f *fme) describe(u *inventory.Unit) {
	u.InterfaceID, u.InterfaceIDKnown = f.interfaceID, f.known
	if f.name != "" {
		u.Parent = f.name
		u.ParentNodes = []string{f.name}
	}
	if f.bitstreamID != "" {
		if u.Attributes == nil {
			u.Attributes = make(map[string]string)
		}
		u.Attributes[inventory.AttributeBitstreamID] = f.bitstreamID
	}
}
