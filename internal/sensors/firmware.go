package sensors

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Firmware contains the versions reported by a board's controller, or "" for those that aren't known.
type Firmware struct {
	BMC   string // the controller's firmware, as printed by fpgainfo: 1.4.0, or D.2.0.20
	Build string // the controller's own FPGA, in the same format
	Image string // the image that the board booted, as named by the driver: fpga_user1, fpga_user2, fpga_factory
}

// ReadFirmware returns the firmware versions of the card that the chips belong to. Reading a version accesses the
// controller, so it may block, just like reading a sensor. If there is an error, ReadFirmware also returns the versions
// that it has read.
//
// The controller's chip is in the controller's device directory (drivers/mfd/intel-m10-bmc-core.c), below a device with
// a number assigned by the kernel: BMC/n6000bmc-hwmon.N.auto/hwmon/hwmonN. With the OFS drivers, the boot image is in
// the same directory: BMC/n6000bmc-sec-update.N.auto/control/fpga_boot_image.
func ReadFirmware(chips []Chip) (f Firmware, err error) {
	read := func(path string, parse func(string) (string, error)) string {
		value, rerr := sysfs.ReadAs(path, parse)
		if !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return value
	}
	for _, c := range chips {
		if c.name != "" {
			continue // an OPAE chip
		}
		bmc := filepath.Dir(filepath.Dir(filepath.Dir(c.dir)))
		if _, lerr := os.Lstat(bmc + "/bmc_version"); lerr != nil {
			if sysfs.IsShortage(lerr) {
				err = errors.Join(err, lerr)
			}
			continue
		}
		f.BMC = read(bmc+"/bmcfw_version", ParseFirmware)
		f.Build = read(bmc+"/bmc_version", ParseFirmware)
		entries, derr := os.ReadDir(bmc)
		err = errors.Join(err, derr)
		for _, e := range entries {
			if strings.Contains(e.Name(), "-sec-update.") {
				f.Image = read(bmc+"/"+e.Name()+"/control/fpga_boot_image", parseImage)
			}
		}
		return f, err
	}
	return f, err
}

// ParseFirmware parses a version of the board's controller: 0x and up to 32 bits in hexadecimal, with eight bits each
// for the board's revision, the major and minor version, and the patch. It returns the version in fpgainfo's format,
// which includes the revision only if it is a letter. If all bits are ones, which means that the controller doesn't
// respond or has no firmware, ParseFirmware returns "".
func ParseFirmware(s string) (string, error) {
	v, err := sysfs.ParseMask(s)
	if err == nil && v > math.MaxUint32 {
		err = fmt.Errorf("found %s, want 0x and up to 32 bits in hexadecimal", sysfs.Quote(s))
	}
	if err != nil || v == math.MaxUint32 {
		return "", err
	}
	version := fmt.Sprintf("%d.%d.%d", v>>16&0xff, v>>8&0xff, v&0xff)
	if revision := rune(v >> 24); 'A' <= revision && revision <= 'Z' {
		version = string(revision) + "." + version
	}
	return version, nil
}

func parseImage(s string) (string, error) {
	const most, letters = 32, "abcdefghijklmnopqrstuvwxyz0123456789_"
	if len(s) > most || strings.Trim(s, letters) != "" {
		return "", fmt.Errorf("found %s, want the name of an image, such as fpga_user1", sysfs.Quote(s))
	}
	return s, nil
}
