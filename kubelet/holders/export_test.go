package holders

import "context"

// Leftover reports whether the kubelet should write its checkpoint again.
func (r Rules) Leftover(is Report) bool { return r.leftover(is) }

func (i *Injected) All() map[string][]string { return i.all() }

func (i *Injected) Forget(ctx context.Context, keep func(id string) bool) error {
	return i.forget(ctx, keep)
}
