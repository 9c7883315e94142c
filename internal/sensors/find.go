package sensors

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// These limits are more than enough for any board we know of: an N6000 has two hwmon devices with 81 sensors, and the
// longest label is 46 bytes long.
const (
	mostChips   = 16
	mostSensors = 256
	longestName = 64
)

// Chips of an FME.
const (
	fmeThermal  = "dfl_fme_thermal"
	fmePower    = "dfl_fme_power"
	opaeThermal = "thermal_mgmt"
	opaePower   = "power_mgmt"
)

// Chip is a device that has sensors: a hwmon device or an OPAE directory. If two chips are equal, they are the same
// device and have the same sensors.
type Chip struct {
	name string // "" for a hwmon device, whose name is in a file
	dir  string
	// inode is dir's inode. Device names are reused in sysfs, but inodes aren't.
	inode uint64
}

// Find returns the sensors of the card at this PCI address (DDDD:BB:DD.F, as in [sysfs.ParsePCIAddress]), in the same
// order and with the same errors as [List].
func Find(host sysfs.Host, address string) ([]Sensor, error) {
	chips, err := Chips(host)
	all, lerr := List(chips[address])
	return all, errors.Join(err, lerr)
}

// Chips returns the chips of all PCI devices, keyed by PCI address and sorted by path. It doesn't open any files. If
// there is an error, Chips also returns the chips that it has found.
//
// An entry in a class directory belongs to the card whose PCI address comes last in the entry's path.
func Chips(host sysfs.Host) (chips map[string][]Chip, err error) {
	chips = make(map[string][]Chip)
	add := func(address, name, dir string) {
		inode, ierr := sysfs.Inode(dir)
		switch {
		case ierr == nil:
			chips[address] = append(chips[address], Chip{name, dir, inode})
		case !sysfs.Gone(ierr):
			err = errors.Join(err, ierr)
		}
	}
	for _, class := range []string{"hwmon", "fpga"} {
		names, cerr := host.ClassLinks(class)
		err = errors.Join(err, cerr)
		for _, name := range names {
			link := host.Sys + "/class/" + class + "/" + name
			target, lerr := os.Readlink(link)
			if lerr != nil && !sysfs.Gone(lerr) {
				err = errors.Join(err, lerr)
			}
			address := sysfs.PCIAddressOf(target)
			if lerr != nil || address == "" {
				continue
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(link), target)
			}
			if class == "hwmon" {
				add(address, "", target)
				continue
			}
			entries, _ := os.ReadDir(target) // a card without an FME doesn't have sensors
			for _, e := range entries {
				if fme := target + "/" + e.Name(); sysfs.Numbered(e.Name(), "intel-fpga-fme.") {
					add(address, opaeThermal, fme+"/"+opaeThermal)
					add(address, opaePower, fme+"/"+opaePower)
				}
			}
		}
	}
	for _, all := range chips {
		slices.SortFunc(all, func(a, b Chip) int { return strings.Compare(a.dir, b.dir) })
	}
	return chips, err
}

// List returns the sensors of a card's chips, sorted by chip, kind and name. It doesn't open files for which the driver
// would access the card. If something can't be read, or the card has more chips or sensors than any board we know of,
// List returns an error and the sensors that it has found.
func List(chips []Chip) (all []Sensor, err error) {
	if more := len(chips); more > mostChips {
		err = fmt.Errorf("%s: found %d devices with sensors, want at most %d", chips[0].dir, more, mostChips)
		chips = chips[:mostChips]
	}
	times := map[string]int{} // number of chips by name
	for _, c := range chips {
		found, cerr := c.sensors()
		if cerr != nil && !sysfs.Gone(cerr) {
			err = errors.Join(err, cerr)
		}
		if times[c.name]++; times[c.name] > 1 {
			c.name += "-" + strconv.Itoa(times[c.name]) // a chip's own name never contains a dash
		}
		for i := range found {
			found[i].Chip = c.name
		}
		if more := len(all) + len(found); more > mostSensors {
			err = errors.Join(err, fmt.Errorf("%s: found %d sensors, want at most %d", c.dir, more, mostSensors))
			found = found[:mostSensors-len(all)]
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b Sensor) int {
		return cmp.Or(strings.Compare(a.Chip, b.Chip), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return all, err
}

// sensors returns a chip's sensors, without setting their Chip. For a hwmon device, it also sets the chip's name.
func (c *Chip) sensors() ([]Sensor, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	switch c.name {
	case opaeThermal:
		return opae(c.dir, Temperature, "temperature", there), nil
	case opaePower:
		return opae(c.dir, Power, "consumed", there), nil
	}
	if c.name, err = sysfs.Read(c.dir + "/name"); !isChipName(c.name) {
		c.name = "hwmon"
	}
	if sysfs.Gone(err) {
		err = nil
	}
	var found []Sensor
	labels := map[string]int{} // number of sensors by kind and label
	for _, e := range entries {
		channel, isInput := strings.CutSuffix(e.Name(), "_input")
		kind, ok := kindOf(channel)
		if !isInput || !ok {
			continue
		}
		s := Sensor{
			Name: channel, Kind: kind,
			input: c.dir + "/" + e.Name(), warning: there[channel+"_max"], critical: there[channel+"_crit"],
		}
		if there[channel+"_label"] {
			label, lerr := sysfs.Read(c.dir + "/" + channel + "_label")
			if lerr != nil && !sysfs.Gone(lerr) {
				err = errors.Join(err, lerr)
			}
			if _, isChannel := kindOf(label); isName(label) && !isChannel {
				s.Name = label
			}
		}
		labels[string(kind)+s.Name]++
		found = append(found, s)
	}
	for i := range found { // a label that several sensors share isn't used as a name
		if s := &found[i]; labels[string(s.Kind)+s.Name] > 1 {
			s.Name = strings.TrimSuffix(filepath.Base(s.input), "_input")
		}
	}
	return found, err
}

// opae returns the sensor in an OPAE directory, if there is one. Its value is in the file named input. there contains
// the names of the files in the directory.
func opae(dir string, kind Kind, input string, there map[string]bool) []Sensor {
	if !there[input] {
		return nil
	}
	return []Sensor{{
		Name: input, Kind: kind, opae: true, input: dir + "/" + input, warning: there["threshold1"], critical: there["threshold2"],
	}}
}

// kindOf returns the kind of a hwmon channel, such as temp1.
func kindOf(channel string) (Kind, bool) {
	for kind, k := range kinds {
		if sysfs.Numbered(channel, k.prefix) {
			return kind, true
		}
	}
	return "", false
}

// isChipName reports whether text can be a hwmon device's name. The kernel doesn't allow dashes or spaces
// (Documentation/hwmon/sysfs-interface.rst).
func isChipName(text string) bool { return isName(text) && !strings.ContainsAny(text, " -*") }

// isName reports whether text is suitable as a metric label and harmless in a terminal.
func isName(text string) bool {
	return text != "" && len(text) <= longestName && utf8.ValidString(text) && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}
