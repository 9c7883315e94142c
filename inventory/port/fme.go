package port

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// FMETable says where a driver shows what is to be known of an FME: the part of
// the health policy in which the drivers differ.
type FMETable struct {
	interfaceID pattern
	errors      []file
	// locked are files whose reading waits for the lock that the driver holds while
	// it programs a port (pdata->lock of dfl-fme-pr.c and dfl-fme-error.c), seconds
	// on end. They are not asked then.
	locked   []file
	managers []pattern // the first of them that finds one counts
	alarms   []file
	hwmon    pattern // of the directories of hwmon devices
}

// fme is what the units of a card have of their management engine.
type fme struct {
	name        string // "" where there is none
	interfaceID string
	known       bool // the interface id is
	bound       bool // has a driver
	findings
}

// fmeDriver is the name under which the driver of an FME is a health file.
const fmeDriver = "fme/driver"

// attrDriver is the link from a device, a port or an FME, to its driver.
const attrDriver = "driver"

// The attributes of an FME that only a bound driver makes, with both drivers.
const (
	attrPorts     = "ports_num"
	attrBitstream = "bitstream_id"
)

// fmeOf reads the FME of a class entry. A virtual function has none of its own:
// its ports belong to the one at the physical function.
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

// there takes note of whether there is an FME.
func (f *fme) there(is bool) {
	f.files = append(f.files, inventory.HealthFile{
		Name: fmeDriver, Absent: !is,
		Lost: lineFMEUnbound.health, Row: lineFMEUnbound.reason, Reason: lineFMEUnbound.reason,
	})
}

// readFME reads the FME of e. One without driver has no attributes, or just some,
// so nothing else is asked of it: how the card is cannot be known. Of one that does not answer the alarms are not
// asked: in what it reads they are all set.
func (l Layout) readFME(e entry) fme {
	f := fme{name: e.fme, findings: someFiles()}
	top := listing{dir: e.dir + "/" + e.fme}
	f.there(true)
	f.observe(sysfs.ObserveThere(top.dir + "/" + attrDriver))
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

// below is the path of a file, given the directory that the first element of its
// name stands for.
func below(dir, name string) string { return dir + name[strings.IndexByte(name, '/'):] }

// readInterfaceID reads the interface id. There may be one for each port, but the
// id is one for the FME (FME_PR_INTFC_ID, dfl-fme-pr.c): the first that can be
// read counts. dead: there is only what an FME gives that does not answer.
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

// readManager judges the state of the FPGA manager, wherever it stands, and says
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

// describe gives a unit what is known of its FME.
func (f *fme) describe(u *inventory.Unit) {
	u.InterfaceID, u.InterfaceIDKnown = f.interfaceID, f.known
	if f.name != "" {
		u.Parent = f.name
		u.ParentNodes = []string{f.name}
	}
}
