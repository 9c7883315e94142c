package port

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// fme is what the ports of a card learn from their management engine.
type fme struct {
	name        string // "" where there is none
	interfaceID string
	known       bool // the interface id is
}

// fmeOf reads the FME of a class entry. A virtual function has none of its own:
// its ports belong to the one at the physical function.
func (l Layout) fmeOf(host sysfs.Host, e entry, physfn string) fme {
	if e.fme != "" {
		return l.readFME(e)
	}
	if physfn == "" {
		return fme{known: true}
	}
	var found []entry
	dir, err := host.PCIDir(physfn, l.Class)
	if err == nil {
		found, err = l.entries(host, dir, physfn)
	}
	if err != nil {
		return fme{known: sysfs.Gone(err)}
	}
	for _, e := range found {
		if e.fme != "" {
			return l.readFME(e)
		}
	}
	return fme{known: true}
}

func (l Layout) readFME(e entry) fme {
	id, known := l.InterfaceID(e.dir + "/" + e.fme)
	return fme{name: e.fme, interfaceID: id, known: known}
}

// describe gives a port what is known of its FME.
func (f fme) describe(p *inventory.Port) {
	p.InterfaceID, p.InterfaceIDKnown = f.interfaceID, f.known
	if f.name != "" {
		p.Parent = f.name
		p.ParentNodes = []string{f.name}
	}
}

// ReadInterfaceID reads an interface id from the attribute at path: "" and true
// where there is no such attribute, false where it cannot be read, holds no id,
// or all f (a card that does not answer).
func ReadInterfaceID(path string) (id string, known bool) {
	id, err := sysfs.ReadAs(path, sysfs.ParseID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", true
	case err != nil || sysfs.AllOnes(id):
		return "", false
	}
	return id, true
}

// notThere says whether err, of following a link, means that it leads nowhere.
func notThere(err error) bool {
	return sysfs.Gone(err) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.EINVAL)
}

// absentIfGone makes every way in which a card can vanish wrap fs.ErrNotExist.
func absentIfGone(err error) error {
	if sysfs.Gone(err) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
