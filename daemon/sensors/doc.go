// Package sensors reads the sensors of all cards of a node at intervals.
//
//	s := sensors.New(sensors.Config{Host: host, Devices: inventory, Settings: settings}, log)
//	go s.Run(ctx)
//	for address, card := range s.Latest() { … } // for metrics and the local socket
//
// # What is read
//
// Each physical card of the families dfl and opae is read. With [All], cards of the family xrt are read as well; their
// sensors are behind the card's management function. A card on vfio-pci has no sensors. With [Main], only those sensors
// are read that the summary of a card needs (internal/sensors). The devices are listed once for all cards that are read
// together. The list of a card's sensors is kept while its devices are the same, and limits are read every 20th time.
//
// # Cards that do not answer
//
// A card is read by a goroutine of its own, and at most four cards at a time. A reading that has taken 10 s is overdue:
// the failure is counted, another card may be read instead, and the card has no values until a later reading is done.
// The card is not read again before the overdue reading has returned, so each card takes at most one goroutine and its
// thread. When three sensors of a card fail in a row, the others are not read and the card has no values. If only
// single sensors fail, the others keep their values.
//
// Problems of the daemon (no descriptors, no memory) and a card that leaves do not count as failures. A card that
// leaves is forgotten at once, so that its values are never shown for a card that takes its place.
//
// # State
//
// Run owns the cards. It publishes a new map after each reading, which [Sensors.Latest] returns; the map and all in it
// are immutable. At its end, Run waits for its goroutines, but at most 1 s for those that hang.
package sensors
