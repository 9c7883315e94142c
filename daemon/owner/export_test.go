package owner

import "time"

// Hurry makes the node try at this interval, and wait for this time until the slices are removed.
func (n *Node) Hurry(tryInterval, slicesWithin time.Duration) {
	n.tryInterval, n.slicesWithin = tryInterval, slicesWithin
}

// Kill releases the lock as the end of the process does.
func (n *Node) Kill() { n.release() }
