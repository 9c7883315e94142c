package inventory

import "time"

// Lost returns the nodes that are kept for a device after it has lost these, one set after another.
func Lost(nodes ...[]string) []string {
	var s entry
	for _, lost := range nodes {
		s.lose(lost, time.Time{})
	}
	return s.lost.nodes
}
