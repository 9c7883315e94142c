package holders

import (
	"context"
	"slices"
	"time"
)

// Leftover reports whether the kubelet should rewrite its checkpoint.
func (r Rules) Leftover(is Report) bool { return r.leftover(is) }

// ClaimedKey is the [Injected] key for a device that is in use by a claim.
func ClaimedKey(id string) string { return claimedKey(id) }

func (i *Injected) All() map[string][]string { return i.all() }

func (i *Injected) Forget(ctx context.Context, keep func(id string) bool) error {
	return i.forget(ctx, keep)
}

// Known returns what the state knows about the entries of a checkpoint from this time.
func (s State) Known(checkpoint time.Time) KnownEntries {
	k := s.known()
	k.Version, k.Checkpoint = 1, checkpoint
	return k
}

type KnownEntries = knownEntries

func (e knownEntries) Of(checkpoint time.Time) KnownEntries { return e.of(checkpoint) }

func (e knownEntries) Equal(other KnownEntries) bool { return e.equal(other) }

// RewriteEnded records that these devices' containers have ended, and returns what the next daemon reads.
func RewriteEnded(dir string, devices map[string][]string) (map[string][]string, error) {
	err := knownEntries{Version: 1, Ended: devices}.write(dir)
	return readEntries(dir).Ended, err
}

// Sees reports whether the checkpoint has had an entry for the device since the newest query.
func (s *Source) Sees(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.seen {
		if slices.Contains(e.IDs, id) {
			return true
		}
	}
	return false
}
