package sensors

import (
	"errors"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

const (
	// mostFailures is the number of sensors in a row that may fail before the rest of the card is not read.
	mostFailures = 3
	// limitsEvery is the number of readings after which the limits are read again.
	limitsEvery = 20
)

// kept is what is known of a card from an earlier reading. The zero value is nothing.
type kept struct {
	chips  []sensors.Chip
	all    bool
	list   []sensors.Sensor
	limits []sensors.Limits // of each sensor in list
	times  int              // readings with these limits
}

// outcome is what a reading has found.
type outcome struct {
	kept     kept
	readings []sensors.Reading
	failures int   // sensors that could not be read
	err      error // of the first one
	// void means that the reading says nothing about the sensors, because the card has left, or the daemon is out of
	// descriptors or memory.
	void bool
}

// failed notes an error.
func (o *outcome) failed(err error) {
	switch {
	case sysfs.IsShortage(err), sysfs.Gone(err):
		o.void = true
	case o.err == nil:
		o.err = err
		o.failures++
	default:
		o.failures++
	}
}

// read reads the sensors of a card, all or those that the summary needs. It blocks as long as the card does not answer.
func read(host sysfs.Host, address string, k kept, all bool) (o outcome) {
	chips, err := sensors.Chips(host, address)
	if err != nil {
		o.failed(err)
	}
	if !slices.Equal(chips, k.chips) || k.all != all || k.times >= limitsEvery {
		k = kept{chips: chips, all: all}
		k.list, err = sensors.List(chips)
		if err != nil {
			o.failed(err)
		}
		if !all {
			k.list = sensors.ForSummary(k.list)
		}
	}
	if o.void {
		return o
	}
	first := k.limits == nil
	var inRow int
	for i := range k.list {
		s := &k.list[i]
		if first {
			limits, err := s.Limits()
			if err != nil {
				o.failed(err)
			}
			k.limits = append(k.limits, limits)
		}
		value, err := s.Read()
		switch {
		case err == nil:
			inRow = 0
			o.readings = append(o.readings, sensors.Reading{Chip: s.Chip, Name: s.Name, Kind: s.Kind, Value: value, Limits: k.limits[i]})
		case errors.Is(err, sensors.ErrNoValue):
		default:
			o.failed(err)
			inRow++
		}
		if o.void || inRow == mostFailures {
			o.readings = nil
			return o
		}
	}
	if k.times++; o.err == nil {
		o.kept = k
	}
	return o
}
