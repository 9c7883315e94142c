package owner

import (
	"os"
	"time"
)

// Hurry makes the node try at this interval, which is also the time in which the kubelet records what was allocated,
// and wait for this time until the slices are removed.
func (n *Node) Hurry(tryInterval, slicesWithin time.Duration) {
	n.tryInterval, n.slicesWithin, n.recordedWithin = tryInterval, slicesWithin, tryInterval
}

// Kill releases the lock as the end of the process does.
func (n *Node) Kill() { n.release() }

// CheckDir makes the node check the state directory in this way, in place of its file system.
func (n *Node) CheckDir(check func(*os.Root) error) { n.checkDir = check }
