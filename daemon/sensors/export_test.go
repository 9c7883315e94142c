package sensors

import "b-com.com/accelerator-device-plugin/internal/sensors"

// ReadWith replaces the reading of cards. failures is the number of sensors that failed, with err for the first; void is as in outcome.
func (s *Sensors) ReadWith(read func(address string, all bool) (readings []sensors.Reading, failures int, err error, void bool)) {
	s.read = func(address string, _ kept, all bool) (o outcome) {
		o.readings, o.failures, o.err, o.void = read(address, all)
		return o
	}
}

// Reader returns a function that reads a card of the host with what is kept of its last call.
func (s *Sensors) Reader(address string) func(all bool) (readings []sensors.Reading, failures int) {
	var k kept
	return func(all bool) ([]sensors.Reading, int) {
		o := s.read(address, k, all)
		k = o.kept
		return o.readings, o.failures
	}
}
