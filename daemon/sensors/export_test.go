package sensors

import "b-com.com/accelerator-device-plugin/internal/sensors"

// ReadWith replaces the reading of cards. failures is the number of sensors that failed, with err for the first; void is as in outcome.
func (s *Sensors) ReadWith(read func(address string, all bool) (readings []sensors.Reading, failures int, err error, void bool)) {
	s.read = func(address string, _ kept, all bool) (o outcome) {
		o.readings, o.failures, o.err, o.void = read(address, all)
		return o
	}
}

// ReadTwice reads a card of a host, and then again with what is kept of the first reading. It returns the readings and
// failures of both.
func (s *Sensors) ReadTwice(address string, all bool, between func()) (readings [2][]sensors.Reading, failures [2]int) {
	var k kept
	for i := range 2 {
		if i == 1 {
			between()
		}
		o := read(s.cfg.Host, address, k, all)
		k, readings[i], failures[i] = o.kept, o.readings, o.failures
	}
	return readings, failures
}
