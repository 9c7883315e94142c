package sensors

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Kind is the quantity that a sensor measures.
type Kind string

// The kinds, as they are called in metrics and JSON.
const (
	Temperature Kind = "temperature" // in °C
	Power       Kind = "power"       // in W
	Voltage     Kind = "voltage"     // in V
	Current     Kind = "current"     // in A
)

// kinds describes each kind. The ranges are far beyond the values of a real card. They catch a card that does not
// answer: its registers read as ones.
var kinds = map[Kind]struct {
	unit       string
	prefix     string  // of the names of hwmon's files
	scale      float64 // hwmon's units in one of ours
	least, max float64
}{
	Temperature: {"°C", "temp", 1e3, -100, 300},
	Power:       {"W", "power", 1e6, 0, 2000},
	Voltage:     {"V", "in", 1e3, -1000, 1000},
	Current:     {"A", "curr", 1e3, -1000, 1000},
}

// Unit returns the unit of the kind's values: °C, W, V or A.
func (k Kind) Unit() string { return kinds[k].unit }

var (
	// ErrNoValue means that a sensor has no value at the moment, because it belongs to a module that is not plugged in
	// (ENODATA of drivers/hwmon/intel-m10-bmc-hwmon.c).
	ErrNoValue = errors.New("no value")
	// ErrValue means that what was read is not a value of a sensor.
	ErrValue = errors.New("not a value of a sensor")
)

// Sensor is one sensor of a card. No two sensors of a card have the same chip, kind and name.
type Sensor struct {
	Chip string // name of the hwmon device, such as n6000bmc_hwmon, or thermal_mgmt or power_mgmt
	Name string // the driver's label, such as "FPGA Core Temperature", or else the name in its files, such as temp1
	Kind Kind

	input             string // path of the value
	warning, critical bool   // there are files with limits
	opae              bool   // the files are OPAE's
}

// Limits are the limits of a sensor, in the unit of its values. A limit is 0 if the sensor does not have it, and
// drivers also report 0 for a limit that nobody has set.
type Limits struct {
	Max  float64 `json:"max,omitempty" yaml:"max,omitempty"`   // from here the board throttles the card or warns
	Crit float64 `json:"crit,omitempty" yaml:"crit,omitempty"` // from here the board throttles the card further or shuts it down
}

// Least returns Max, or Crit if there is no Max.
func (l Limits) Least() float64 {
	if l.Max != 0 {
		return l.Max
	}
	return l.Crit
}

// Reading is the value read from one sensor, or one entry of a summary. Programs rely on its keys.
type Reading struct {
	Chip   string  `json:"chip" yaml:"chip"` // "" in a summary
	Name   string  `json:"sensor" yaml:"sensor"`
	Kind   Kind    `json:"kind" yaml:"kind"`
	Value  float64 `json:"value" yaml:"value"`
	Limits `yaml:",inline"`
	Of     string `json:"of,omitempty" yaml:"of,omitempty"` // in a summary, the name of the sensor that it is about
}

// Read reads the value. The error wraps [ErrNoValue], [ErrValue] or the errno of the driver.
func (s *Sensor) Read() (float64, error) {
	v, err := s.read(s.input)
	switch {
	case err != nil:
		return 0, err
	case s.Chip == n6000BMC && s.Kind == Power && v < 1:
		return math.Round(v*1e6) / 1e3, nil
	case s.isDie() && v == 0: // the FME of an N6000, whose die only the board's controller measures
		return 0, fmt.Errorf("%s: %w", s.input, ErrNoValue)
	case s.isDie() && v == allOnes:
		return 0, fmt.Errorf("%s: found 127 °C, which is what a card reports that does not answer: %w", s.input, ErrValue)
	}
	return v, nil
}

const (
	// n6000BMC is the chip of the N6000's board controller. Its driver reports the power in mW instead of µW before Linux
	// 6.10 (hwmon: (intel-m10-bmc-hwmon) Fix multiplier for N6000 board power sensor). Such a board takes tens of watts.
	n6000BMC = "n6000bmc_hwmon"
	// allOnes is the temperature of an FME whose registers read as ones: it has 7 bits (FPGA_TEMPERATURE in
	// drivers/fpga/dfl-fme-main.c).
	allOnes = 127
)

// isDie reports whether this is the sensor of an FME, which measures the die of the FPGA.
func (s *Sensor) isDie() bool {
	chip, _, _ := strings.Cut(s.Chip, "-")
	return chip == fmeThermal || chip == opaeThermal
}

// Limits reads the limits. It returns the same errors as Read. A limit that the driver does not provide is not an
// error.
func (s *Sensor) Limits() (l Limits, err error) {
	most, crit := strings.TrimSuffix(s.input, "input")+"max", strings.TrimSuffix(s.input, "input")+"crit"
	if s.opae {
		most, crit = filepath.Dir(s.input)+"/threshold1", filepath.Dir(s.input)+"/threshold2"
	}
	if s.warning {
		l.Max, err = s.limit(most)
	}
	if s.critical && err == nil {
		l.Crit, err = s.limit(crit)
	}
	if err != nil {
		return Limits{}, err
	}
	return l, nil
}

func (s *Sensor) limit(path string) (float64, error) {
	v, err := s.read(path)
	if errors.Is(err, ErrNoValue) || errors.Is(err, syscall.EOPNOTSUPP) || s.Kind == Temperature && v < 0 {
		return 0, nil
	}
	return v, err
}

func (s *Sensor) read(path string) (float64, error) {
	text, err := sysfs.Read(path)
	switch {
	case errors.Is(err, syscall.ENODATA):
		return 0, fmt.Errorf("%w: %w", ErrNoValue, err)
	case err != nil:
		return 0, err
	case text == "": // as recorded trees have it
		return 0, fmt.Errorf("%s: %w", path, ErrNoValue)
	}
	parse := ParseHWMon
	if s.opae {
		parse = ParseOPAE
	}
	v, err := parse(s.Kind, text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// ParseHWMon parses a value of hwmon: a decimal number in thousandths of the kind's unit, or millionths if it is power
// (Documentation/hwmon/sysfs-interface.rst).
func ParseHWMon(kind Kind, text string) (float64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("found %s, want a number: %w", sysfs.Quote(text), ErrValue)
	}
	return within(kind, float64(n)/kinds[kind].scale)
}

// ParseOPAE parses a value of OPAE's thermal_mgmt (°C in decimal) or power_mgmt (W in hexadecimal with 0x).
func ParseOPAE(kind Kind, text string) (float64, error) {
	digits, base := text, 10
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return 0, fmt.Errorf("found %s, want a number: %w", sysfs.Quote(text), ErrValue)
	}
	return within(kind, float64(n))
}

func within(kind Kind, v float64) (float64, error) {
	k := kinds[kind]
	if v < k.least || v > k.max {
		return 0, fmt.Errorf("found %g %s, want %g to %g: %w", v, k.unit, k.least, k.max, ErrValue)
	}
	return v, nil
}
