package port

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// FMETable has the files in which a driver shows the state of an FME: the part of the health
// policy that differs between the drivers.
type FMETable struct {
	interfaceID pattern
	errors      []file
	// locked has the files whose reading waits for the lock that the driver holds while it
	// programs a port (pdata->lock of dfl-fme-pr.c and dfl-fme-error.c), for seconds. They are not
	// read then.
	locked   []file
	managers []pattern // places of the FPGA manager; the first one that exists is used
	alarms   []file
	hwmon    pattern // of the directories of hwmon devices
}

// fme is the state of a card's management engine that its units share.
type fme struct {
	name        string // "" if there is none
	interfaceID string
	known       bool // the interface id is
	bound       bool // has a driver
	findings
}

// fmeDriver is the name of the driver of an FME among the health files.
const fmeDriver = "fme/driver"

// attrDriver is the link from a device, a port or an FME, to its driver.
const attrDriver = "driver"

// The attributes of an FME that exist only while a driver is bound, with both drivers.
const (
	attrPorts     = "ports_num"
	attrBitstream = "bitstream_id"
)

// fmeOf reads the FME of a class entry. A virtual function has no FME: its ports belong to that of
// the physical function.
func (l Layout) fmeOf(host sysfs.Host, e entry, c *pciCard) fme {
	if e.fme != "" {
		return l.readFME(e)
	}
	if c.physfn == "" {
		return noFME()
	}
	found, err := l.entries(host, c.dir, c.physfn)
	if err != nil && !sysfs.Gone(err) {
		var f fme
		f.unreadable(fmeDriver, lineFMEUnbound, err)
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
	f.there(false)
	return f
}

// there records whether there is an FME.
func (f *fme) there(is bool) {
	f.files = append(f.files, inventory.HealthFile{
		Name: fmeDriver, Absent: !is,
		Lost: lineFMEUnbound.health, Row: lineFMEUnbound.reason, Reason: lineFMEUnbound.reason,
	})
}

// readFME reads the FME of e. Without a driver it has no attributes, or only some, so no other
// file is read, and the health of the card is not known. The alarms of an FME that does not answer
// are not read: they would all be set.
func (l Layout) readFME(e entry) fme {
	f := fme{name: e.fme, findings: someFiles()}
	top := listing{dir: e.dir + "/" + e.fme}
	f.there(true)
	f.observe(sysfs.ObserveExists(top.dir + "/" + attrDriver))
	bound, err := sysfs.Bound(top.dir, attrPorts, attrBitstream)
	f.starve(err)
	if !bound {
		f.found(lineFMEUnbound)
		return f
	}
	f.bound = true
	dead := f.readInterfaceID(&top, l.Table.interfaceID)
	for _, file := range l.Table.errors {
		dead = f.judge(file, below(top.dir, file.name)) || dead
	}
	if programming := f.readManager(&top, l.Table.managers); !programming {
		for _, file := range l.Table.locked {
			dead = f.judge(file, below(top.dir, file.name)) || dead
		}
	}
	if dead {
		f.dead(lineFMEDead, nil)
		return f
	}
	for _, file := range l.Table.alarms {
		f.judge(file, below(top.dir, file.name))
	}
	if l.Table.hwmon.path != "" {
		f.readHWMon(&top, l.Table.hwmon)
	}
	return f
}

// below returns the path of a file in dir. The first element of its name stands for dir.
func below(dir, name string) string { return dir + name[strings.IndexByte(name, '/'):] }

// readInterfaceID reads the interface id. Each port may have a file, but the id belongs to the FME
// (FME_PR_INTFC_ID, dfl-fme-pr.c): the first one that can be read is used. dead reports whether
// the only value is the one of an FME that does not answer.
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
	f.files = append(f.files, inventory.HealthFile{
		Name: p.name, Absent: absent, Lost: lineInterface.health, Row: lineInterface.reason,
	})
	switch {
	case f.known:
		return false
	case absent:
		f.known = true // there is none
	case err != nil:
		f.unreadable(p.name, lineInterface, err)
	}
	return dead
}

// readManager judges the state of the FPGA manager, in the first of these places, and reports
// whether it is programming.
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
	f.take(managerFile, path, value, err)
	return err == nil && slices.Contains(managerStates.busy, value)
}

// describe sets the parts of a unit that come from its FME.
func (f *fme) describe(u *inventory.Unit) {
	u.InterfaceID, u.InterfaceIDKnown = f.interfaceID, f.known
	if f.name != "" {
		u.Parent = f.name
		u.ParentNodes = []string{f.name}
	}
}
