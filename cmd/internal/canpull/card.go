package canpull

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/cmd/internal/procusers"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Card holds all the functions that disappear when a card is pulled.
type Card struct {
	Address   string     // the address passed to [Read], or its physical function's address
	Functions []Function // sorted by address
}

// Function is a physical or virtual PCI function.
type Function struct {
	Address string
	PhysFn  string // the physical function of a virtual function; "" otherwise
	Driver  string // "" if none is bound
	Nodes   []DeviceNode
	BARs    []BAR // programs may map these through sysfs
}

// BAR is the sysfs file for one of a function's BARs.
type BAR struct {
	Name string // such as resource0
	File procusers.File
}

// hasPort reports whether the function has the device node of a port.
func (f Function) hasPort() bool {
	return slices.ContainsFunc(f.Nodes, func(n DeviceNode) bool { return strings.Contains(n.Name, "-port.") })
}

// DeviceNode is one of a function's character devices, or the VFIO group that the function is in.
type DeviceNode struct {
	Name   string // below /dev
	Number sysfs.DeviceNumber
}

// Read returns the card that has a function at this address. sys is the sysfs root. The error wraps fs.ErrNotExist if
// there is no such card.
func Read(sys, address string) (Card, error) {
	devices := filepath.Join(sys, "bus/pci/devices")
	if _, err := os.Lstat(filepath.Join(devices, address)); err != nil {
		return Card{}, err
	}
	entries, err := os.ReadDir(devices)
	if err != nil {
		return Card{}, err
	}
	physFn := map[string]string{}
	for _, e := range entries {
		physical, err := sysfs.PhysFn(filepath.Join(devices, e.Name()))
		if err != nil {
			return Card{}, err
		}
		physFn[e.Name()] = physical
	}
	card := Card{Address: address}
	if physical := physFn[address]; physical != "" {
		card.Address = physical
	}
	slot := card.Address[:len(card.Address)-1]
	for _, e := range entries {
		physical := physFn[e.Name()]
		if physical == "" && strings.HasPrefix(e.Name(), slot) || strings.HasPrefix(physical, slot) {
			f := Function{Address: e.Name(), PhysFn: physical}
			if err := f.read(sys, filepath.Join(devices, e.Name())); err != nil {
				return Card{}, err
			}
			card.Functions = append(card.Functions, f)
		}
	}
	return card, nil
}

// read finds the driver, device nodes and BARs of the function at link.
func (f *Function) read(sys, link string) error {
	dir, err := filepath.EvalSymlinks(link)
	if err != nil {
		return err
	}
	if f.Driver, err = target(dir + "/driver"); err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case sysfs.Gone(err):
			return nil // the file has just been removed
		case err != nil:
			return err
		case e.Name() != "dev" || e.IsDir():
			return nil
		}
		name := filepath.Base(filepath.Dir(path))
		switch class, _ := target(filepath.Dir(path) + "/subsystem"); class {
		case "block":
			return nil // block devices have their own numbers
		case "vfio-dev":
			name = "vfio/devices/" + name
		}
		return f.add(name, path)
	})
	if err == nil {
		err = f.addBARs(dir)
	}
	bound := strings.Contains(f.Driver, "vfio")
	if err != nil || !bound && f.Driver != "" { // an unbound function's group may still be open somewhere
		return err
	}
	group, err := target(dir + "/iommu_group")
	if err != nil {
		return err
	}
	for _, name := range []string{group, "noiommu-" + group} {
		if err := f.add("vfio/"+name, filepath.Join(sys, "class/vfio", name, "dev")); err != nil {
			return err
		}
	}
	if bound && len(f.Nodes) == 0 { // some kernels provide only groups, others only character devices
		return fmt.Errorf("%s: bound to %s, but %s has no group %q", dir, f.Driver, filepath.Join(sys, "class/vfio"), group)
	}
	return nil
}

// addBARs adds the BAR files of the function at dir.
func (f *Function) addBARs(dir string) error {
	files, err := filepath.Glob(dir + "/resource[0-9]*")
	for _, name := range files {
		file, err := procusers.FileAt(name)
		if sysfs.Gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		f.BARs = append(f.BARs, BAR{filepath.Base(name), file})
	}
	return err
}

// add adds the device node whose number is in file. It does nothing if file doesn't exist.
func (f *Function) add(name, file string) error {
	number, err := sysfs.ReadAs(file, sysfs.ParseDeviceNumber)
	if sysfs.Gone(err) {
		return nil
	}
	if err == nil {
		f.Nodes = append(f.Nodes, DeviceNode{name, number})
	}
	return err
}

// target returns the base name of a link's target, or "" if there is no link.
func target(link string) (string, error) {
	path, err := os.Readlink(link)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return filepath.Base(path), err
}
