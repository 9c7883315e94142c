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

// These limits are above the boards that we know: an N6000 has two hwmon devices with 81 sensors, and the longest label
// has 46 bytes.
const (
	mostChips   = 16
	mostSensors = 256
	longestName = 64
)

// The chips of an FME.
const (
	fmeThermal  = "dfl_fme_thermal"
	fmePower    = "dfl_fme_power"
	opaeThermal = "thermal_mgmt"
	opaePower   = "power_mgmt"
)

// Find returns the sensors of the card with this PCI address (DDDD:BB:DD.F, as in [sysfs.ParsePCIAddress]), sorted by
// chip, kind and name. A card without sensors has none, and so has an address without a card. If something cannot be read, or
// the card has more sensors than any board that we know, Find returns an error and also the sensors that it found. It
// opens no file that makes a driver access the card.
func Find(host sysfs.Host, address string) ([]Sensor, error) {
	chips, err := findChips(host, address)
	if more := len(chips) - mostChips; more > 0 {
		chips = chips[:mostChips]
		err = errors.Join(err, fmt.Errorf("%s: found %d devices with sensors, want at most %d", address, mostChips+more, mostChips))
	}
	var all []Sensor
	times := map[string]int{} // how many chips have a name
	for _, c := range chips {
		found, cerr := c.sensors()
		if cerr != nil && !sysfs.Gone(cerr) {
			err = errors.Join(err, cerr)
		}
		if times[c.name]++; times[c.name] > 1 {
			c.name += "-" + strconv.Itoa(times[c.name]) // a chip's own name has no dash
		}
		for i := range found {
			found[i].Chip = c.name
		}
		if more := len(all) + len(found) - mostSensors; more > 0 {
			err = errors.Join(err, fmt.Errorf("%s: found %d sensors, want at most %d", c.dir, mostSensors+more, mostSensors))
			found = found[:mostSensors-len(all)]
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b Sensor) int {
		return cmp.Or(strings.Compare(a.Chip, b.Chip), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return all, err
}

// chip is a directory with the files of sensors.
type chip struct{ name, dir string }

// findChips returns the chips of a card, sorted by path. An entry of a class belongs to the card if the last PCI address in
// its path is the card's.
func findChips(host sysfs.Host, address string) (chips []chip, err error) {
	for _, class := range []string{"hwmon", "fpga"} {
		names, cerr := host.ClassLinks(class)
		err = errors.Join(err, cerr)
		for _, name := range names {
			link := host.Sys + "/class/" + class + "/" + name
			target, lerr := os.Readlink(link)
			if lerr != nil && !sysfs.Gone(lerr) {
				err = errors.Join(err, lerr)
			}
			if lerr != nil || sysfs.PCIAddressOf(target) != address {
				continue
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(link), target)
			}
			if class == "hwmon" {
				chips = append(chips, chip{dir: target})
			} else {
				chips = append(chips, opaeChips(target)...)
			}
		}
	}
	slices.SortFunc(chips, func(a, b chip) int { return strings.Compare(a.dir, b.dir) })
	return chips, err
}

// opaeChips returns the chips below an entry intel-fpga-dev.N of the class of OPAE's driver.
func opaeChips(card string) (chips []chip) {
	entries, _ := os.ReadDir(card) // a card without an FME has no sensors
	for _, e := range entries {
		for _, name := range []string{opaeThermal, opaePower} {
			if dir := card + "/" + e.Name() + "/" + name; sysfs.Numbered(e.Name(), "intel-fpga-fme.") && sysfs.CheckDir(dir) == nil {
				chips = append(chips, chip{name, dir})
			}
		}
	}
	return chips
}

// sensors returns the sensors of a chip, without its name, and reads the name of a hwmon device.
func (c *chip) sensors() ([]Sensor, error) {
	switch c.name {
	case opaeThermal:
		return c.opae(Temperature, "temperature")
	case opaePower:
		return c.opae(Power, "consumed")
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	if c.name, err = sysfs.Read(c.dir + "/name"); !isChipName(c.name) {
		c.name = "hwmon"
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	path := func(name string) string {
		if there[name] {
			return c.dir + "/" + name
		}
		return ""
	}
	var found []Sensor
	labels := map[string]int{} // how many sensors of a kind have a label
	for _, e := range entries {
		channel, isInput := strings.CutSuffix(e.Name(), "_input")
		kind, ok := kindOf(channel)
		if !isInput || !ok {
			continue
		}
		name := channel
		if label := path(channel + "_label"); label != "" {
			text, lerr := sysfs.Read(label)
			if lerr != nil && !sysfs.Gone(lerr) {
				err = errors.Join(err, lerr)
			}
			if _, isChannel := kindOf(text); isName(text) && !isChannel {
				name = text
			}
		}
		labels[string(kind)+name]++
		found = append(found, Sensor{
			Name: name, Kind: kind,
			input: c.dir + "/" + e.Name(), warning: path(channel + "_max"), critical: path(channel + "_crit"),
		})
	}
	for i := range found { // labels that several sensors have name none of them
		if s := &found[i]; labels[string(s.Kind)+s.Name] > 1 {
			s.Name = strings.TrimSuffix(filepath.Base(s.input), "_input")
		}
	}
	return found, err
}

// opae returns the sensor of a directory of OPAE, whose value is in the file input.
func (c *chip) opae(kind Kind, input string) ([]Sensor, error) {
	s := Sensor{Name: input, Kind: kind, opae: true, input: c.dir + "/" + input}
	for path, limit := range map[string]*string{"threshold1": &s.warning, "threshold2": &s.critical} {
		if _, err := os.Lstat(c.dir + "/" + path); err == nil {
			*limit = c.dir + "/" + path
		}
	}
	if _, err := os.Lstat(s.input); err != nil {
		return nil, err
	}
	return []Sensor{s}, nil
}

// kindOf returns the kind of a channel of hwmon, such as temp1.
func kindOf(channel string) (Kind, bool) {
	for kind, k := range kinds {
		if sysfs.Numbered(channel, k.prefix) {
			return kind, true
		}
	}
	return "", false
}

// isChipName reports whether text can be the name of a hwmon device. The kernel allows neither dashes nor spaces
// (Documentation/hwmon/sysfs-interface.rst).
func isChipName(text string) bool { return isName(text) && !strings.ContainsAny(text, " -*") }

// isName reports whether text can be a label of a metric, and cannot do harm in a terminal.
func isName(text string) bool {
	return text != "" && len(text) <= longestName && utf8.ValidString(text) && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}
