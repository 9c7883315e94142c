// Package sensors reads the sensors of all of a node's cards at regular intervals.
//
//	s := sensors.New(sensors.Config{Host: host, Devices: inventory, Settings: settings}, log)
//	go s.Run(ctx)
//	for address, card := range s.Latest() { … } // for metrics and the local socket
//
// # What is read
//
// Each physical card of the dfl and opae families is read. With [All], xrt cards are also read; their sensors are
// behind the card's management function. A card bound to vfio-pci has no sensors. With [Main], only the sensors needed
// for a card's summary are read (internal/sensors). The devices are listed once for all cards that are read together.
// The list of a card's sensors is kept as long as its devices are the same, and limits are read every 20th time.
//
// # Cards that don't answer
//
// Each card is read in its own goroutine, and at most four cards are read at a time. A reading that has taken 10 s is
// overdue: the failure is counted, another card may be read instead, and the card has no values until a later reading
// succeeds. The card isn't read again until the overdue reading has returned, so each card takes up at most one
// goroutine and its thread. When three of a card's sensors fail in a row, the others aren't read and the card has no
// values. If only individual sensors fail, the others keep their values.
//
// Problems of the daemon itself (no descriptors, no memory) don't count as failures, and neither does a card that
// leaves. Such a card is forgotten immediately, so that its values are never shown for a card that takes its place.
//
// # State
//
// Run owns the cards. It publishes a new map after each reading, which [Sensors.Latest] returns; the map and everything
// in it are immutable. Before it returns, Run waits for its goroutines, but no longer than 1 s for those that hang.
package sensors
