// Package sensors reads the sensors of all cards of a node at intervals.
//
//	s := sensors.New(sensors.Config{Host: host, Devices: inventory, Settings: settings}, log)
//	go s.Run(ctx)
//	for address, card := range s.Latest() { … } // for metrics and the local socket
//
// # What is read
//
// Each physical card of the families dfl and opae is read, and with [All] also those of xrt, whose sensors are behind the
// card's management function. A card on vfio-pci has no sensors. With [Main] only those sensors are read that the summary of
// a card needs (internal/sensors). The devices of all cards are listed once for the cards that are read together. The
// list of a card's sensors is kept while its devices are the same, and limits are read each 20th time.
//
// # Cards that do not answer
//
// A card is read by a goroutine of its own, and at most four cards at a time. A reading that has taken 10 s is overdue: the
// failure is counted, another card may be read instead, and the card has no values until one of its later readings is
// done. The card is not read again before the overdue reading has returned, so each card takes one goroutine and its thread at
// most. When three sensors of a card fail one after the other, the others are not read and the card has no values. A
// sensor that fails alone has no value; the others do.
//
// Trouble of the daemon (no descriptors, no memory) and a card that leaves count as no failures. A card that leaves is forgotten
// at once, so that a card that takes its place never has its values.
//
// # State
//
// Run owns the cards. It publishes a new map after each reading, which [Sensors.Latest] returns; the map and all in it are
// immutable. Run waits for its goroutines at the end, but for those that hang, 1 s at most.
package sensors
