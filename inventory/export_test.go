package inventory

import "time"

// Lost returns the nodes that a device has a right to which has lost these in turn.
func Lost(nodes ...[]string) []string {
	var s slot
	for _, lost := range nodes {
		s.lose(lost, time.Time{})
	}
	return s.lost.nodes
}
