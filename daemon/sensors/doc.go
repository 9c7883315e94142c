// Package sensors reads the sensors of all cards on a node at regular intervals.
//
//	s := sensors.New(sensors.Config{Host: host, Devices: inventory, Settings: settings}, log)
//	go s.Run(ctx)
//	for address, card := range s.Latest() { … } // for metrics and the local socket
//
// # What is read
//
// Each physical card of the dfl and opae families is read. With [All], xrt cards are also read; their sensors are
// behind the management function. Cards bound to vfio-pci don't have any sensors. With [Main], only the sensors needed
// for a card's summary are read (internal/sensors). The sensor devices are listed once for all cards that are read
// together. A card's list of sensors is kept for as long as its sensor devices stay the same. Limits are read every
// 20th time.
//
// # Cards that don't answer
//
// Each card is read in its own goroutine, and at most four cards are read at a time. A reading that has taken 10 s is
// overdue: it counts as a failure, another card can be read in its place, and the card has no values until a later
// reading succeeds. The card isn't read again until the overdue reading has returned, so each card ties up no more than
// one goroutine and its thread. If three of a card's sensors fail in a row, the rest aren't read and the card has no
// values. If only individual sensors fail, the others keep their values.
//
// Problems with the daemon itself (no file descriptors, no memory) don't count as failures, and neither does the
// removal of a card. A card that leaves is forgotten immediately, so that its values are never shown for the card that
// takes its place.
//
// # State
//
// Run owns the cards. After each reading it publishes a new map for [Sensors.Latest]; the map and everything in it are
// immutable. Before Run returns, it waits up to 1 s for its goroutines.
package sensors
