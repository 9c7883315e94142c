package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// BoundTo lists the PCI addresses of all functions that are bound to the driver. If the host doesn't have the driver,
// the list is empty. If some functions can't be listed, BoundTo returns the others and an error.
func BoundTo(host sysfs.Host, driver string) (addresses []string, err error) {
	entries, err := os.ReadDir(host.Sys + "/bus/pci/drivers/" + driver)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if address, err := sysfs.ParsePCIAddress(e.Name()); err == nil && e.Type()&fs.ModeSymlink != 0 {
			addresses = append(addresses, address)
		}
	}
	return addresses, err
}

// DriverOf returns the name of the driver that the function at dir is bound to, or "" if there is none.
func DriverOf(dir string) (string, error) {
	target, err := os.Readlink(dir + "/driver")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return filepath.Base(target), err
}

// CheckBound returns an error that wraps fs.ErrNotExist if the function at dir isn't bound to the driver.
func CheckBound(dir, driver string) error {
	found, err := DriverOf(dir)
	if err == nil && found != driver {
		err = fmt.Errorf("%s: found driver %q, want %s: %w", dir, found, driver, fs.ErrNotExist)
	}
	return err
}
