// Package sensors finds and reads a card's sensors: temperatures, power, voltages and currents, and their limits.
//
//	all, err := sensors.Find(host, "0000:3b:00.0")    // reads names and labels, without accessing the card
//	for _, s := range all {
//		value, err := s.Read()                    // one access to the card's firmware
//		limits, err := s.Limits()                 // one more for each limit
//	}
//	summary := sensors.Summarize(readings)            // the die, the hottest point, the board's power
//
// A caller that reads cards repeatedly should keep the lists of sensors for as long as [Chips] returns the same
// devices, and should only read limits once in a while.
//
// [Find] knows about the hwmon devices below the card's PCI device (those of the FME, the board's BMC, and XRT), and
// about the OPAE driver's thermal_mgmt and power_mgmt directories in the FME. [ForSummary] selects the sensors needed
// for a summary, so that the others, which are the majority on a board, don't have to be read.
//
// The package owns no state and doesn't start any goroutines. Find only opens files whose values the driver has in
// memory, so it doesn't block on a card that doesn't respond. Read and Limits block until the board's controller
// responds, which may take seconds or forever, so call them from a goroutine that is allowed to block.
//
// Labels come from drivers and values from devices, so both are checked. A name must be short, printable UTF-8 and
// unique among the card's sensors, and a value must be plausible for a card ([ErrValue]). If a sensor currently has no
// value, such as the temperature of a QSFP cage without a module, Read returns [ErrNoValue], which isn't a failure.
package sensors
