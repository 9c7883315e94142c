// Package sensors finds and reads the sensors of a card: temperatures, power, voltages and currents, and their limits.
//
//	all, err := sensors.Find(host, "0000:3b:00.0")    // reads names and labels, which costs the card nothing
//	for _, s := range all {
//		value, err := s.Read()                    // one access to the card's firmware
//		limits, err := s.Limits()                 // one more for each limit
//	}
//	summary := sensors.Summarize(readings)            // the die, the hottest point, the board's power
//
// A caller that reads cards again and again should keep the lists while [Chips] returns the same devices, and read
// limits rarely.
//
// [Find] knows the hwmon devices below the card's PCI device (of the FME, of the board's BMC, and of XRT), and the
// directories thermal_mgmt and power_mgmt in the FME of the OPAE driver. [ForSummary] selects the sensors that a
// summary needs, so that the others, most of a board's sensors, are not read.
//
// The package owns no state and starts no goroutine. Find opens only files whose values the driver knows, so it
// does not block on a card that does not answer. Read and Limits block as long as the board's controller takes to answer,
// which may be seconds or forever: call them from a goroutine that may block.
//
// A label comes from a driver, and a value from a device, so both are checked: a name is short, printable UTF-8 and
// belongs to one sensor only, and a value is within what a card can have ([ErrValue]). If a sensor has no value at the
// moment, such as the temperature of a QSFP cage without a module, Read returns [ErrNoValue], which is not a failure.
package sensors
