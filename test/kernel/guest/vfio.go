package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vfioModules lists vfio-pci's modules, and a driver for physical functions, in dependency order. Kernels after 6.1
// don't have vfio_virqfd, and Debian's kernels don't have iommufd.
var vfioModules = []string{"irqbypass", "iommufd", "vfio_virqfd", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci", "pci-pf-stub"}

// hasIOMMU reports whether the machine has an IOMMU. Only the machine for the stories in the vfio directory has one.
func hasIOMMU() bool {
	groups, _ := filepath.Glob("/sys/kernel/iommu_groups/*") // the pattern is valid
	return len(groups) > 0
}

// xrtModules lists xocl and the modules that it depends on. Only the machine for the stories in the xrt directory has
// them.
var xrtModules = []string{"crc32c_generic", "libcrc32c", "drm_panel_orientation_quirks", "drm", "xocl"}

// insmodFurther loads the modules that aren't for DFL: aer_inject, vfio's if the machine has an IOMMU, and xocl's. It
// skips modules of vfio and xocl that don't exist in /modules.
func insmodFurther() error {
	names := []string{"aer_inject"}
	further := xrtModules
	if hasIOMMU() {
		further = slices.Concat(vfioModules, xrtModules)
	}
	for _, name := range further {
		if _, err := os.Stat("/modules/" + name + ".ko"); err == nil {
			names = append(names, name)
		}
	}
	return insmod(names)
}

// hasXOCL reports whether the machine has the xocl driver. Only the machine for the stories in the xrt directory has
// it.
func hasXOCL() bool {
	_, err := os.Stat("/sys/bus/pci/drivers/xocl")
	return err == nil
}

func pciDir(address string) string { return "/sys/bus/pci/devices/" + address }

// bindTo waits for a PCI function and binds it to a driver as an administrator would: it writes the driver to
// driver_override, unbinds the function from its current driver, and makes the kernel probe it.
func (r *rig) bindTo(ctx context.Context, address, driver string) error {
	return r.opens.unrecorded(func() error {
		dir, begin := pciDir(address), time.Now()
		for {
			err := write(dir+"/driver_override", driver)
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) || pause(ctx, time.Millisecond) != nil {
				return err
			}
		}
		if _, err := os.Lstat(dir + "/driver"); err == nil {
			// ENODEV: the function is being probed, but isn't bound yet.
			if err := write(dir+"/driver/unbind", address); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		// ENODEV: the function isn't on the bus yet. The kernel will probe it.
		if err := write("/sys/bus/pci/drivers_probe", address); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
		// The device nodes appear after the link to the driver and before the uevent, so wait for the uevent too. If
		// the function has just been plugged in, the kernel probes it later by itself.
		for {
			bound, err := os.Readlink(dir + "/driver")
			_, announced := r.uevents.first(begin, "bind", address, address)
			if err == nil && filepath.Base(bound) == driver && announced {
				if driver == "xocl" {
					return r.opens.watchXRT()
				}
				return r.opens.watchVFIO(address)
			}
			if pause(ctx, time.Millisecond) != nil {
				return fmt.Errorf("driver of %s: found %q (%v), want %s: %w", address, bound, err, driver, context.Cause(ctx))
			}
		}
	})
}

// writeHeld starts writing to an attribute, to unbind a function that a container is using or to remove virtual
// functions that are in use. The write blocks until the container has closed the function. The rig's close method waits
// for the write.
func (r *rig) writeHeld(path, text string) error {
	var f *os.File
	err := r.opens.unrecorded(func() (err error) {
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
		return err
	})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	r.writes = append(r.writes, done)
	go func() {
		_, err := f.WriteString(text)
		done <- errors.Join(err, f.Close())
	}()
	return nil
}

// endWrites waits for all of writeHeld's writes to end.
func (r *rig) endWrites(ctx context.Context) error {
	var errs []error
	for _, done := range r.writes {
		select {
		case err := <-done:
			errs = append(errs, err)
		case <-ctx.Done():
			return errors.Join(append(errs, fmt.Errorf("a function that was in use: %w", context.Cause(ctx)))...)
		}
	}
	return errors.Join(errs...)
}

// use contains the files that a container has open: its function, and the files that it opened to get to the function.
type use []*os.File

func (u use) close() error {
	var errs []error
	for _, f := range u {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// ioctl(2) requests, from include/uapi/linux/vfio.h.
const (
	vfioSetIOMMU      = ';'<<8 | 102
	vfioGroupStatus   = ';'<<8 | 103
	vfioSetContainer  = ';'<<8 | 104
	vfioGetDeviceFD   = ';'<<8 | 106
	vfioBindIOMMUFD   = ';'<<8 | 118
	vfioType1         = 1
	vfioGroupIsViable = 1
)

var errNotViable = errors.New("the group is not viable")

// use opens a function through its group or through its own device node, as a program in a container would. The files
// stay open until leave.
func (r *rig) use(address string, cdev bool) error {
	if _, ok := r.uses[address]; ok {
		return fmt.Errorf("%s is in use already", address)
	}
	open := r.openGroup
	if cdev {
		open = r.openCDev
	}
	u, err := open(address)
	if err != nil {
		return errors.Join(err, u.close())
	}
	r.uses[address] = u
	return nil
}

// refused checks that the kernel refuses to let a container use the function, for the reason that the function's group
// isn't viable.
func (r *rig) refused(address string) error {
	u, err := r.openGroup(address)
	if errors.Is(err, errNotViable) {
		return u.close()
	}
	return errors.Join(fmt.Errorf("use of %s: found error %w, want %w", address, err, errNotViable), u.close())
}

// leave closes the files that use opened for this function.
func (r *rig) leave(address string) error {
	u, ok := r.uses[address]
	if !ok {
		return fmt.Errorf("%s is not in use", address)
	}
	delete(r.uses, address)
	return u.close()
}

// openGroup opens a function through its group (Documentation/driver-api/vfio.rst in the kernel).
func (r *rig) openGroup(address string) (u use, err error) {
	group, err := os.Readlink(pciDir(address) + "/iommu_group")
	if err != nil {
		return nil, err
	}
	for _, node := range []string{"vfio/vfio", "vfio/" + filepath.Base(group)} {
		f, err := r.opens.open(node, 0)
		if err != nil {
			return u, err
		}
		u = append(u, f)
	}
	container, g := u[0], u[1]
	status := struct{ size, flags uint32 }{size: 8}
	if err := ioctl(g, vfioGroupStatus, unsafe.Pointer(&status)); err != nil {
		return u, fmt.Errorf("VFIO_GROUP_GET_STATUS: %w", err)
	}
	if status.flags&vfioGroupIsViable == 0 {
		return u, errNotViable
	}
	fd := int32(container.Fd())
	if err := ioctl(g, vfioSetContainer, unsafe.Pointer(&fd)); err != nil {
		return u, fmt.Errorf("VFIO_GROUP_SET_CONTAINER: %w", err)
	}
	if err := unix.IoctlSetInt(int(container.Fd()), vfioSetIOMMU, vfioType1); err != nil {
		return u, fmt.Errorf("VFIO_SET_IOMMU: %w", err)
	}
	name, err := unix.BytePtrFromString(address)
	if err != nil {
		return u, err
	}
	function, _, errno := unix.Syscall(unix.SYS_IOCTL, g.Fd(), vfioGetDeviceFD, uintptr(unsafe.Pointer(name)))
	if errno != 0 {
		return u, fmt.Errorf("VFIO_GROUP_GET_DEVICE_FD: %w", errno)
	}
	return append(u, os.NewFile(function, address)), nil
}

// openCDev opens a function through its own device node and binds it to an iommufd.
func (r *rig) openCDev(address string) (u use, err error) {
	names, err := filepath.Glob(pciDir(address) + "/vfio-dev/vfio*")
	if err != nil || len(names) != 1 {
		return nil, fmt.Errorf("vfio-dev of %s: found %v (%v), want one", address, names, err)
	}
	for _, node := range []string{"iommu", "vfio/devices/" + filepath.Base(names[0])} {
		f, err := r.opens.open(node, 0)
		if err != nil {
			return u, err
		}
		u = append(u, f)
	}
	bind := struct {
		size, flags uint32
		iommufd     int32
		device      uint32
	}{size: 16, iommufd: int32(u[0].Fd())}
	if err := ioctl(u[1], vfioBindIOMMUFD, unsafe.Pointer(&bind)); err != nil {
		return u, fmt.Errorf("VFIO_DEVICE_BIND_IOMMUFD: %w", err)
	}
	return u, nil
}

// inject uses the kernel's aer_inject to make a PCI function report an error. The record is struct aer_error_inj in
// drivers/pci/pcie/aer_inject.c.
func inject(address, kind string) error {
	var record struct {
		bus, device, function      uint8
		_                          uint8
		uncorrectable, correctable uint32
		header                     [4]uint32
		domain                     uint32
	}
	if _, err := fmt.Sscanf(address, "%x:%x:%x.%x", &record.domain, &record.bus, &record.device, &record.function); err != nil {
		return fmt.Errorf("%s: found no PCI address: %w", address, err)
	}
	switch kind { // PCI_ERR_… in include/uapi/linux/pci_regs.h
	case "correctable":
		record.correctable = 1 << 6 // bad TLP
	case "nonfatal":
		record.uncorrectable = 1 << 14 // completion timeout
	case "fatal":
		record.uncorrectable = 1 << 18 // malformed TLP
	}
	f, err := os.OpenFile("/dev/aer_inject", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(unsafe.Slice((*byte)(unsafe.Pointer(&record)), unsafe.Sizeof(record)))
	return errors.Join(err, f.Close())
}

// isAddress reports whether bind's or unbind's argument is a PCI address.
func isAddress(device string) bool { return strings.Count(device, ":") == 2 }
