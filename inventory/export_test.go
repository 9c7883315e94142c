package inventory

// Owed returns the nodes that a device is still to be asked after which has lost these
// in turn.
func (inv *Inventory) Owed(lost ...[]string) []string {
	l := newLoop(inv)
	for _, nodes := range lost {
		l.owe("3b:00.0", nodes)
	}
	return l.owed["3b:00.0"].nodes
}
