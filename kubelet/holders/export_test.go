package holders

import "context"

// Leftover reports whether the kubelet should write its checkpoint again.
func (r Rules) Leftover(is Report) bool { return r.leftover(is) }

func (i *Injected) All() map[string][]string { return i.all() }

func (i *Injected) Forget(ctx context.Context, keep func(id string) bool) error {
	return i.forget(ctx, keep)
}

// RewriteEnded writes that the containers of these devices have ended, and returns what the next daemon reads.
func RewriteEnded(dir string, devices map[string][]string) (map[string][]string, error) {
	err := knownEntries{Version: 1, Ended: devices}.write(dir)
	return readEnded(dir).Ended, err
}
