package recorder

import (
	"context"
	"maps"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/inventory"
)

const (
	askAgain  = 10 * time.Second // who holds a device, where that was not known
	askAtMost = 30               // times: for the 5 minutes that an Event has, too
)

// untold is what pods would be told, if it were known which.
type untold struct {
	news  []news
	tries int
}

// forPods says whether those who hold the device are told, too.
func (n news) forPods() bool {
	switch n.reason {
	case DeviceUnhealthy, DeviceRemovedInUse, DeviceReplacedInUse, DeviceReturned:
		return true
	case DeviceRecovered:
		return n.was.kind == unhealthy
	}
	return false
}

// tell passes on news, in its order.
func (f *following) tell(ctx context.Context, all []news) {
	if len(all) == 0 {
		return
	}
	var held map[string][]inventory.Holding
	err := error(nil)
	if slices.ContainsFunc(all, func(n news) bool { return n.forPods() || n.reason == DeviceRemoved }) {
		held, err = f.holders(ctx)
	}
	renewed := make(map[string]bool) // devices whose older news pods need not hear any more
	for _, n := range all {
		id := n.is.device.ID
		pods, known := podsOf(held[id])
		known = known && err == nil
		f.note(apiserver.Object{Kind: "Node", Name: f.cfg.Node, UID: f.cfg.Node}, n, n.forNode(pods, known))
		if !n.forPods() {
			continue
		}
		for _, p := range pods {
			f.note(p.object(), n, n.forPod(p))
		}
		if !renewed[id] {
			delete(f.untold, id)
			renewed[id] = true
		}
		if !known {
			if len(f.untold) == 0 {
				f.askAt = time.Now().Add(askAgain)
			}
			u := f.untold[id]
			u.news = append(u.news, n)
			f.untold[id] = u
		}
	}
}

// tellLate tells pods of which it was not known that they hold a device: the
// kubelet did not answer, or the device had only just been given away.
func (f *following) tellLate(ctx context.Context) {
	held, err := f.holders(ctx)
	f.askAt = time.Now().Add(askAgain)
	for _, id := range slices.Sorted(maps.Keys(f.untold)) {
		u := f.untold[id]
		pods, known := podsOf(held[id])
		if known = known && err == nil; !known {
			if u.tries++; u.tries < askAtMost {
				f.untold[id] = u
				continue
			}
		}
		for _, n := range u.news {
			for _, p := range pods {
				f.note(p.object(), n, n.forPod(p))
			}
		}
		delete(f.untold, id)
	}
}
