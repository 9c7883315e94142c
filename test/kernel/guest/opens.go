package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// opens uses inotify to record every open of the drivers' device nodes and of the attributes in blocking. The rig and
// the story's commands are allowed to open them. All other opens are blamed on the daemon, which must never open any:
// when a port is closed for the last time, its AFU is reset.
type opens struct {
	inotify  int
	dirs     map[int32]string // watched directories, as paths relative to /dev, or to / for PCI functions
	others   []string         // what other processes have opened
	running  bool             // whether commands are running, so that opens are attributed to them
	commands []string         // what commands have opened
}

func watchOpens(dir string) (*opens, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	o := &opens{inotify: fd, dirs: map[int32]string{}}
	return o, o.watch(dir, "")
}

// watch watches a directory, which may be watched already. The files in it are recorded under names that start with
// prefix.
func (o *opens) watch(dir, prefix string) error {
	watch, err := unix.InotifyAddWatch(o.inotify, dir, unix.IN_OPEN)
	if err != nil {
		return fmt.Errorf("inotify: %s: %w", dir, err)
	}
	o.dirs[int32(watch)] = prefix
	return nil
}

// blocking lists the function attributes that may block when they are read. vfio-pci's block until a container has
// closed the function, and xocl's until the management function has responded. Reading ulp_uuids while no xclbin is
// loaded causes a NULL pointer dereference in xocl.
var blocking = []string{"uevent", "driver_override", "sriov_numvfs", "mig_calibration", "mig_cache_update", "ulp_uuids"}

// watchVFIO watches the vfio device nodes and, unless address is "", the attributes of the function at this address.
func (o *opens) watchVFIO(address string) error {
	for _, dir := range []string{"vfio/", "vfio/devices/"} {
		if err := o.watch("/dev/"+dir, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if address == "" {
		return nil
	}
	return o.watch(pciDir(address)+"/", address+"/")
}

// watchXRT watches the xocl device nodes and those attributes of xocl's functions that must not be read.
func (o *opens) watchXRT() error {
	// Create the directories if they don't exist yet. They stay, so they can be watched: the kernel removes empty
	// directories only if it created them itself.
	for _, dir := range []string{"dri/", "xfpga/"} {
		if err := os.Mkdir("/dev/"+dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := o.watch("/dev/"+dir, dir); err != nil {
			return err
		}
	}
	const functions = "/sys/bus/pci/drivers/xocl/"
	for _, pattern := range []string{"", "/xmc.u.*", "/icap.u.*", "/mailbox.u.*", "/hwmon/hwmon*"} {
		found, err := filepath.Glob(functions + "0000:*" + pattern)
		if err != nil {
			return err
		}
		for _, dir := range found {
			if err := o.watch(dir, strings.TrimPrefix(dir, functions)+"/"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// unrecorded calls act, and ignores all opens until act returns.
func (o *opens) unrecorded(act func() error) error {
	if err := o.take(); err != nil {
		return err
	}
	err := act()
	_, rerr := o.read()
	return errors.Join(err, rerr)
}

// open opens a device node for the rig. It drains inotify's queue before and after that, because inotify merges
// identical events in the queue.
func (o *opens) open(name string, flags int) (*os.File, error) {
	if err := o.take(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile("/dev/"+name, os.O_RDWR|flags, 0)
	if err != nil {
		return nil, err
	}
	during, err := o.read()
	if at := slices.Index(during, name); at >= 0 {
		during = slices.Delete(during, at, at+1)
	} else if err == nil {
		err = fmt.Errorf("inotify: found no event for opening %s", name)
	}
	o.add(during)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// take reads the opens so far, and attributes them to commands or to other processes.
func (o *opens) take() error {
	names, err := o.read()
	o.add(names)
	return err
}

func (o *opens) add(names []string) {
	if o.running {
		o.commands = append(o.commands, names...)
	} else {
		o.others = append(o.others, names...)
	}
}

// attribute starts or stops attributing opens to commands.
func (o *opens) attribute(running bool) error {
	err := o.take()
	o.running = running
	return err
}

// byCommands returns what commands have opened since the last call, sorted.
func (o *opens) byCommands() ([]string, error) {
	err := o.take()
	slices.Sort(o.commands)
	names := slices.Compact(o.commands)
	o.commands = nil
	return names, err
}

// check returns an error that lists what other processes have opened since the last call.
func (o *opens) check() error {
	err := o.take()
	others := o.others
	o.others, o.commands = nil, nil
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("nodes opened by other processes: found %s, want none", strings.Join(others, ", "))
	}
	return err
}

// read drains inotify's queue, and returns the names of the device nodes and attributes in it.
func (o *opens) read() ([]string, error) {
	var names []string
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(o.inotify, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("inotify: %w", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:end]), "\x00")
			if mask := binary.NativeEndian.Uint32(rest[4:]); mask&unix.IN_Q_OVERFLOW != 0 {
				return nil, errors.New("inotify overflow: opens of nodes were lost")
			}
			prefix := o.dirs[int32(binary.NativeEndian.Uint32(rest))]
			switch {
			case isAddress(prefix) && strings.Count(prefix, "/") == 1:
				if slices.Contains(blocking, name) {
					names = append(names, prefix+name)
				}
			case strings.HasPrefix(prefix+name, "dfl-"), prefix != "" && name != "", name == "iommu":
				names = append(names, prefix+name)
			}
			rest = rest[end:]
		}
	}
}
