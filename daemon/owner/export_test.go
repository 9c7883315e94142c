package owner

import (
	"os"
	"time"
)

// Hurry makes the node try at this interval, and sets how long it waits for slices to be removed. The interval also
// serves as the time that the kubelet may take to record allocations.
func (n *Node) Hurry(tryInterval, slicesWithin time.Duration) {
	n.tryInterval, n.slicesWithin, n.recordedWithin = tryInterval, slicesWithin, tryInterval
}

// Kill releases the lock, as happens when the process exits.
func (n *Node) Kill() { n.release() }

// CheckDir makes the node check the state directory with check, instead of checking its file system.
func (n *Node) CheckDir(check func(*os.Root) error) { n.checkDir = check }
