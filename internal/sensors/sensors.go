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

// Kinds of sensors, as they are called in metrics and JSON.
const (
	Temperature Kind = "temperature" // in °C
	Power       Kind = "power"       // in W
	Voltage     Kind = "voltage"     // in V
	Current     Kind = "current"     // in A
)

// kinds describes each kind. The ranges are far wider than those of real cards; their purpose is to catch cards that
// don't respond, whose registers read as all ones.
var kinds = map[Kind]struct {
	unit       string
	prefix     string  // of hwmon's file names
	scale      float64 // how many hwmon units make up one of ours
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
	// ErrNoValue means that a sensor currently has no value, because it belongs to a module that isn't plugged in
	// (ENODATA in drivers/hwmon/intel-m10-bmc-hwmon.c).
	ErrNoValue = errors.New("no value")
	// ErrValue means that the value can't have come from a sensor.
	ErrValue = errors.New("not a value of a sensor")
)

// Sensor is one of a card's sensors. No two of them have the same chip, kind and name.
type Sensor struct {
	Chip string // name of the hwmon device, such as n6000bmc_hwmon, or of the OPAE directory, thermal_mgmt or power_mgmt
	Name string // the driver's label, such as "FPGA Core Temperature", or else the prefix of its files, such as temp1
	Kind Kind

	input             string // path of the value file
	warning, critical bool   // there is a file for this limit
	opae              bool   // its files are in an OPAE directory
}

// Limits contains a sensor's limits, in the same unit as its values. A limit that the sensor doesn't have is 0. Drivers
// also report 0 for limits that haven't been set.
type Limits struct {
	Max  float64 `json:"max,omitempty" yaml:"max,omitempty"`   // at this value, the board throttles the card or warns
	Crit float64 `json:"crit,omitempty" yaml:"crit,omitempty"` // at this value, the board throttles the card further or shuts it down
}

// Least returns the limit that is reached first: Max, or Crit if there is no Max.
func (l Limits) Least() float64 {
	if l.Max != 0 {
		return l.Max
	}
	return l.Crit
}

// Reading is a value that was read from a sensor, or an entry in a summary. Programs rely on its JSON keys.
type Reading struct {
	Chip   string  `json:"chip" yaml:"chip"` // "" in a summary
	Name   string  `json:"sensor" yaml:"sensor"`
	Kind   Kind    `json:"kind" yaml:"kind"`
	Value  float64 `json:"value" yaml:"value"`
	Limits `yaml:",inline"`
	Of     string `json:"of,omitempty" yaml:"of,omitempty"` // in a summary, the name of the sensor that the reading comes from
}

// Read reads the sensor's value. The error wraps [ErrNoValue], [ErrValue] or the driver's errno.
func (s *Sensor) Read() (float64, error) {
	v, err := s.read(s.input)
	switch {
	case err != nil:
		return 0, err
	case s.Chip == n6000BMC && s.Kind == Power && v < 1:
		return math.Round(v*1e6) / 1e3, nil
	case s.isDie() && v == 0: // an N6000's FME; there, only the board's controller measures the die
		return 0, fmt.Errorf("%s: %w", s.input, ErrNoValue)
	case s.isDie() && v == allOnes:
		return 0, fmt.Errorf("%s: found 127 °C, which is what a card reports that does not answer: %w", s.input, ErrValue)
	}
	return v, nil
}

const (
	// n6000BMC is the chip of the N6000's board controller. Before Linux 6.10, its driver reported the power in mW
	// instead of µW (fixed by "hwmon: (intel-m10-bmc-hwmon) Fix multiplier for N6000 board power sensor"). The board
	// draws tens of watts, so a reading below 1 W must come from such a driver.
	n6000BMC = "n6000bmc_hwmon"
	// allOnes is the temperature of an FME whose registers read as all ones. The register's field has 7 bits
	// (FPGA_TEMPERATURE in drivers/fpga/dfl-fme-main.c).
	allOnes = 127
)

// isDie reports whether s is an FME's sensor for the FPGA die's temperature.
func (s *Sensor) isDie() bool {
	chip, _, _ := strings.Cut(s.Chip, "-")
	return chip == fmeThermal || chip == opaeThermal
}

// Limits reads the sensor's limits. It returns the same errors as Read, except that it isn't an error if the driver
// doesn't provide a limit.
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
	case text == "": // as in recorded trees
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

// ParseHWMon parses a hwmon value: a decimal number in thousandths of the kind's unit, or millionths for power
// (Documentation/hwmon/sysfs-interface.rst).
func ParseHWMon(kind Kind, text string) (float64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("found %s, want a number: %w", sysfs.Quote(text), ErrValue)
	}
	return within(kind, float64(n)/kinds[kind].scale)
}

// ParseOPAE parses a value from OPAE's thermal_mgmt (°C in decimal) or power_mgmt (W in hexadecimal with 0x).
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
