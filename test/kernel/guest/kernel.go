package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allModules lists the FPGA drivers' modules in dependency order.
var allModules = []string{
	"fpga-mgr", "fpga-bridge", "fpga-region", "dfl",
	"dfl-fme-mgr", "dfl-fme-br", "dfl-fme-region", "dfl-fme", "dfl-afu", "dfl-pci",
}

// boardSensors is the module that emulates a board's sensors (../board-sensors.c). Only one story loads it.
const boardSensors = "board-sensors"

// parameters contains modules' parameters. vfio-pci's parameter allows virtual functions.
var parameters = map[string]string{"vfio-pci": "enable_sriov=1"}

// insmod loads the modules that aren't loaded yet.
func insmod(names []string) error {
	for _, name := range names {
		f, err := os.Open("/modules/" + name + ".ko")
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), parameters[name], 0)
		if err := f.Close(); err != nil {
			return err
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("insmod %s: %w", name, err)
		}
	}
	return nil
}

func rmmod(names []string) error {
	for _, name := range names {
		if err := unix.DeleteModule(strings.ReplaceAll(name, "-", "_"), unix.O_NONBLOCK); err != nil {
			return fmt.Errorf("rmmod %s: %w", name, err)
		}
	}
	return nil
}

// modules returns the arguments for insmod or rmmod, with "all" replaced by all modules, in the right order.
func modules(args []string, loading bool) []string {
	if !slices.Equal(args, []string{"all"}) {
		return args
	}
	all := slices.Clone(allModules)
	if !loading {
		slices.Reverse(all)
	}
	return all
}

// write writes to a sysfs attribute.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// driver returns a device's driver directory. device is a PCI address, dfl-port.N or dfl-fme.N. For a PCI function
// without a driver, driver returns dfl-pci's directory.
func driver(device string) string {
	if isAddress(device) {
		if bound, err := filepath.EvalSymlinks(pciDir(device) + "/driver"); err == nil {
			return bound
		}
		return "/sys/bus/pci/drivers/dfl-pci"
	}
	name, _, _ := strings.Cut(device, ".")
	return "/sys/bus/platform/drivers/" + name
}

// clearErrors clears a port's errors as described in docs/health.md.
func clearErrors(port string) error {
	path := filepath.Join("/sys/bus/platform/devices", port, "errors/errors")
	return write(path, text(path))
}

// ioctl(2) requests, from include/uapi/linux/fpga-dfl.h.
const (
	portPR      = 0xb680
	portRelease = 0x4004b681
	portAssign  = 0x4004b682
)

// image returns a raw bitstream of 64 bytes. The first 16 bytes identify the AFU.
func image(afu string) ([]byte, error) {
	raw, err := hex.DecodeString(afu)
	return append(raw, make([]byte, 48)...), err
}

// program programs an AFU into a port with the ioctl DFL_FPGA_FME_PORT_PR. It blocks until the card reports success or
// failure.
func program(fme *os.File, afu string, port uint32) error {
	image, err := image(afu)
	if err != nil {
		return err
	}
	request := struct {
		size, flags, port, length uint32
		image                     *byte
	}{24, 0, port, uint32(len(image)), &image[0]}
	return ioctl(fme, portPR, unsafe.Pointer(&request))
}

func ioctl(f *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// ports returns the directories of all ports in sysfs, keyed by the device IDs that the ports should get.
func ports() (map[string]string, error) {
	found, err := filepath.Glob("/sys/bus/pci/drivers/dfl-pci/0000:*/fpga_region/region*/dfl-port.*")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for _, port := range found {
		address := strings.Split(strings.TrimPrefix(port, "/sys/bus/pci/drivers/dfl-pci/"), "/")[0]
		id := strings.TrimPrefix(address, "0000:")
		if number := text(port, "id"); number != "0" {
			id += "-p" + number
		}
		dirs[id] = port
	}
	return dirs, nil
}
