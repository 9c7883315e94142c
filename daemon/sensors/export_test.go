package sensors

import "b-com.com/accelerator-device-plugin/internal/sensors"

// ReadWith replaces the function that reads cards. what is "", "all", or "pci" for a card whose sensors aren't read.
// failures is the number of failed sensors, with err for the first one; void is as in outcome.
func (s *Sensors) ReadWith(read func(address, what string) (readings []sensors.Reading, failures int, err error, void bool)) {
	s.read = func(address string, _ kept, what scope) (o outcome) {
		o.readings, o.failures, o.err, o.void = read(address, map[scope]string{onlyPCI: "pci", all: "all"}[what])
		return o
	}
}

// Outcome is what a reading of a card returned.
type Outcome struct {
	Readings []sensors.Reading
	Failures int
	Firmware sensors.Firmware
}

// Reader returns a function that reads one of the host's cards, using what was kept from its last call.
func (s *Sensors) Reader(address string) func(all bool) Outcome {
	var k kept
	return func(everything bool) Outcome {
		what := main
		if everything {
			what = all
		}
		o := s.read(address, k, what)
		k = o.kept
		return Outcome{o.readings, o.failures, o.firmware}
	}
}
