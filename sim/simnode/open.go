package simnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Names of files in the directory of a saved node.
const (
	stateFile = "node.json"
	newState  = stateFile + ".new"
	lockFile  = "lock"
)

// lockTimeout is the longest time for which Open waits for another process.
const lockTimeout = 10 * time.Second

// Open returns the node that is saved in dir. If dir is missing or empty, it creates an empty node there.
// Other processes cannot open the node until Close. Only the effective user may be able to change dir. If
// that is root, Mknod is set.
//
// After a process was killed, the node has the state that the process left: a card that is plugged or
// pulled in part can be unplugged.
func Open(ctx context.Context, dir string) (*Node, error) {
	root, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock, err := privatedir.AcquireLock(ctx, root, lockFile)
	if err != nil {
		return nil, err
	}
	n := in(root.Name())
	n.Mknod, n.state, n.lock = os.Geteuid() == 0, filepath.Join(root.Name(), stateFile), lock
	if err := n.load(root); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close lets other processes open a node of [Open].
func (n *Node) Close() error { return n.lock.Release() }

// openDir opens the directory of a node, or creates it. It refuses a directory with other files.
func openDir(dir string) (*os.Root, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := checkPlace(path); err != nil {
		return nil, err
	}
	root, err := privatedir.OpenDir(path, true)
	if err != nil {
		return nil, err
	}
	if err = checkPlace(root.Name()); err == nil { // the path after links
		err = checkContent(root)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// checkPlace refuses paths in file systems of the kernel.
func checkPlace(path string) error {
	for _, system := range []string{"/sys", "/dev", "/proc"} {
		if path == system || strings.HasPrefix(path, system+"/") {
			return fmt.Errorf("%s: found in %s, want a directory outside of /sys, /dev and /proc", path, system)
		}
	}
	return nil
}

// checkContent refuses a directory that is neither empty nor that of a node.
func checkContent(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return privatedir.PathError(root.Name(), err)
	}
	for _, e := range entries {
		if name := e.Name(); name == lockFile || name == newState {
			continue
		}
		if _, err := root.Lstat(stateFile); err != nil {
			return fmt.Errorf("%s: found %s and no %s, want an empty directory, or that of a simulated node", root.Name(), e.Name(), stateFile)
		}
		break
	}
	return nil
}

// saved is the content of node.json.
type saved struct {
	Version int
	Made    bool       // all files of a node without cards exist
	Cards   []*plugged // sorted by address
	Deleted []uint64   // see directories
}

// Limits of node.json. A node has up to 255 ports, 64 of each card.
const (
	maxState  = 1 << 20
	maxNumber = 1 << 12
	maxPorts  = 64
	savedAs   = 1
)

// save writes the node to its file, if it has one.
func (n *Node) save() error {
	if n.state == "" {
		return nil
	}
	text, err := n.marshal()
	if err != nil {
		return err
	}
	if len(text) >= maxState { // load would refuse it
		return fmt.Errorf("%s: found %d bytes, want fewer than %d: plug fewer cards", n.state, len(text), maxState)
	}
	return n.SetFile(n.state, string(text)+"\n")
}

func (n *Node) marshal() ([]byte, error) {
	s := saved{Version: savedAs, Made: n.made, Deleted: n.directories.deleted}
	for _, address := range slices.Sorted(maps.Keys(n.cards)) {
		s.Cards = append(s.Cards, n.cards[address])
	}
	return json.Marshal(s)
}

// load reads the node from its file. If there is none, it creates the file before the node, so that the
// directory of an incomplete node also has the file.
func (n *Node) load(root *os.Root) error {
	file, err := privatedir.OpenFile(root, stateFile, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = n.save()
	case err == nil:
		err = n.read(file)
		file.Close()
	}
	if err == nil {
		err = n.checkDirs()
	}
	if err != nil || n.made {
		return err
	}
	if err := n.make(); err != nil {
		return err
	}
	n.made = true
	return n.save()
}

// checkDirs refuses links in place of the directories in which a node is changed, and directories that
// other users can change, because they can create links there. A node that was copied from elsewhere may
// have such links, and files outside of the node would be written or removed.
func (n *Node) checkDirs() error {
	dirs := append(n.always(), n.perhaps()...)
	for address, c := range n.cards {
		dirs = append(dirs, n.CardDir(address))
		if c.Function != nil {
			dirs = append(dirs, filepath.Join(n.CardDir(address), "vfio-dev"), filepath.Join(n.groupDir(c), "devices"),
				filepath.Join(n.CardDir(address), drm), filepath.Join(n.CardDir(address), rom), filepath.Join(n.CardDir(address), firewall),
				filepath.Join(n.CardDir(address), privileged),
				n.sys(vfioDir, filepath.Base(c.vfioNode())), n.sys(pciDrivers, c.Driver), n.sys(pciDrivers, c.Function.Driver))
			continue
		}
		if c.Slot != "" {
			continue
		}
		dirs = append(dirs, n.regionDir(c))
		for port := range c.Ports {
			dirs = append(dirs, filepath.Join(n.PortDir(address, port), "errors"))
		}
		if c.PhysFn == "" {
			dirs = append(dirs, filepath.Join(n.FMEDir(address), "errors"))
		}
	}
	for _, dir := range dirs {
		for ; dir != filepath.Dir(n.Sys); dir = filepath.Dir(dir) {
			info, err := os.Lstat(dir)
			switch {
			case err != nil:
			case !info.IsDir():
				err = fmt.Errorf("%s: found %s, want a directory", dir, info.Mode())
			case info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) || info.Mode().Perm()&0o022 != 0:
				err = fmt.Errorf("%s: found a directory that another user can change, want only uid %d: remove the node to create a new one", dir, os.Geteuid())
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func (n *Node) read(file *os.File) error {
	text, err := io.ReadAll(io.LimitReader(file, maxState+1))
	if err != nil {
		return err
	}
	s, err := parse(text)
	if err == nil {
		err = n.restore(s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; remove its directory to create a new node", n.state, err)
	}
	return nil
}

// parse returns the content of node.json. It checks each field separately.
func parse(text []byte) (saved, error) {
	var s saved
	if len(text) > maxState {
		return s, fmt.Errorf("found more than %d bytes", maxState)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	if _, err := d.Token(); err != io.EOF {
		return s, errors.New("found more than one object")
	}
	if s.Version != savedAs {
		return s, fmt.Errorf("found version %d, want %d", s.Version, savedAs)
	}
	if len(s.Deleted) > maxDeleted {
		return s, fmt.Errorf("found %d deleted directories, want at most %d", len(s.Deleted), maxDeleted)
	}
	for _, c := range s.Cards {
		if c == nil {
			return s, errors.New("found null, want a card")
		}
		if err := c.Check(); err != nil {
			return s, err
		}
		if f := c.Function; (c.Group != "") != (f != nil) {
			return s, fmt.Errorf("%s: found group %q and function %+v, want both or none", c.Address, c.Group, f)
		} else if f != nil {
			if err := checkDriver(f.Driver); err != nil {
				return s, fmt.Errorf("%s: %w", c.Address, err)
			}
			continue
		}
		if c.Slot == "" && c.Removed {
			return s, fmt.Errorf("%s: found a removed function, want one of an AWS card", c.Address)
		}
		if len(c.PortNumbers) != c.Ports || len(c.AFUs) != c.Ports {
			return s, fmt.Errorf("%s: found %d numbers and %d AFUs, want %d", c.Address, len(c.PortNumbers), len(c.AFUs), c.Ports)
		}
		for _, afu := range c.AFUs {
			if err := checkID("AFU id", afu); err != nil {
				return s, fmt.Errorf("%s: %w", c.Address, err)
			}
		}
	}
	return s, nil
}

// restore adds the cards of the file to the node. It refuses cards that share a number or an address.
func (n *Node) restore(s saved) error {
	n.made, n.directories.deleted = s.Made, s.Deleted
	for _, c := range s.Cards {
		if n.cards[c.Address] != nil {
			return fmt.Errorf("%s: found two cards, want one", c.Address)
		}
		n.cards[c.Address] = c
		if c.Function != nil {
			if !n.markFunction(c) {
				return errTaken(c)
			}
			continue
		}
		if c.Slot != "" {
			continue
		}
		ok := n.regions.mark(c.Region) && n.ports.mark(c.PortNumbers...)
		if c.PhysFn == "" {
			ok = ok && n.fmes.mark(c.FME) && n.regions.mark(c.Child) && n.managers.mark(c.Manager) && n.hwmons.mark(c.HWMon[:]...)
		}
		if !ok {
			return errTaken(c)
		}
	}
	for _, c := range s.Cards {
		if p := n.cards[c.PhysFn]; c.PhysFn != "" && (p == nil || p.PhysFn != "") {
			return fmt.Errorf("%s: physical function: found %s, want a card that is no virtual function", c.Address, c.PhysFn)
		}
	}
	return nil
}

func errTaken(c *plugged) error {
	return fmt.Errorf("%s: found a number that another card has, or that is out of range, want free numbers from 0 to %d", c.Address, maxNumber)
}

// markFunction marks the numbers of a function as used, and reports whether they were free. The functions of
// a slot may share a group and its node.
func (n *Node) markFunction(c *plugged) bool {
	f := c.Function
	if f.Character < 0 {
		f.Character, f.Minor = -1, -1
	} else if other := n.registered(c); other != nil && other.Function.Minor != f.Minor || other == nil && !n.minors.mark(f.Minor) || !n.characters.mark(f.Character) {
		return false
	}
	if f.Render != 0 && !n.renders.mark(f.Render-firstRender) {
		return false
	}
	for _, other := range n.groupOf(f.IOMMU) {
		if other != c {
			return c.Group == SlotGroup && other.Group == SlotGroup && slotOf(other.Address) == slotOf(c.Address)
		}
	}
	return n.groups.mark(f.IOMMU)
}

// mark marks numbers as used, and reports whether they were free.
func (n *numbers) mark(all ...int) bool {
	if *n == nil {
		*n = numbers{}
	}
	for _, i := range all {
		if i < 0 || i > maxNumber || (*n)[i] {
			return false
		}
		(*n)[i] = true
	}
	return true
}

// Check returns an error if the card cannot be plugged.
func (c Card) Check() error {
	if address, err := sysfs.ParsePCIAddress(c.Address); err != nil || address != c.Address {
		return fmt.Errorf("address: found %q, want DDDD:BB:DD.F in lower case", c.Address)
	}
	if address, err := sysfs.ParsePCIAddress(c.PhysFn); c.PhysFn != "" && (err != nil || address != c.PhysFn) {
		return fmt.Errorf("%s: physical function: found %q, want DDDD:BB:DD.F in lower case", c.Address, c.PhysFn)
	}
	if c.Ports < 0 || c.Ports > maxPorts {
		return fmt.Errorf("%s: found %d ports, want 0 to %d", c.Address, c.Ports, maxPorts)
	}
	if c.Group != "" {
		return c.checkFunction()
	}
	if c.Slot != "" {
		return c.checkSlot()
	}
	if err := checkID("AFU id", c.AFUID); err != nil {
		return fmt.Errorf("%s: %w", c.Address, err)
	}
	if err := checkID("interface id", c.InterfaceID); err != nil && c.PhysFn == "" {
		return fmt.Errorf("%s: %w", c.Address, err)
	}
	_, err := c.pciID()
	return err
}

// checkFunction is Check for a function with an IOMMU group.
func (c Card) checkFunction() error {
	if c.Group != OwnGroup && c.Group != SlotGroup {
		return fmt.Errorf("%s: group: found %q, want %s or %s", c.Address, c.Group, OwnGroup, SlotGroup)
	}
	if c.Ports != 0 {
		return fmt.Errorf("%s: found %d ports, want none with an IOMMU group", c.Address, c.Ports)
	}
	if err := checkDriver(c.Driver); err != nil {
		return fmt.Errorf("%s: %w", c.Address, err)
	}
	if err := checkVBNV(c.VBNV); err != nil {
		return fmt.Errorf("%s: %w", c.Address, err)
	}
	if c.InterfaceID != "" && c.Driver == XRTDriver {
		if err := checkID("interface id", c.InterfaceID); err != nil {
			return fmt.Errorf("%s: %w", c.Address, err)
		}
	}
	_, err := c.pciID()
	return err
}

// checkSlot is Check for a function of an AWS card.
func (c Card) checkSlot() error {
	if c.Slot != Application && c.Slot != Management {
		return fmt.Errorf("%s: slot: found %q, want %s or %s", c.Address, c.Slot, Application, Management)
	}
	if c.Ports != 0 || c.PhysFn != "" {
		return fmt.Errorf("%s: found %d ports and physical function %q, want none in an AWS card", c.Address, c.Ports, c.PhysFn)
	}
	_, err := c.pciID()
	return err
}

var driverName = regexp.MustCompile("^[0-9a-z-]*$")

func checkDriver(found string) error {
	if !driverName.MatchString(found) {
		return fmt.Errorf("driver: found %q, want letters in lower case, digits and -", found)
	}
	return nil
}

var id = regexp.MustCompile("^[0-9a-f]{32}$")

func checkID(name, found string) error {
	if !id.MatchString(found) {
		return fmt.Errorf("%s: found %q, want 32 hexadecimal digits in lower case", name, found)
	}
	return nil
}

// partial returns the error for a card that is plugged or pulled in part.
func (c *plugged) partial() error {
	return fmt.Errorf("%s: card is plugged or pulled in part, because a process was killed: pull it first", c.Address)
}
