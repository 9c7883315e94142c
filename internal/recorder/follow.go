package recorder

import (
	"context"
	"maps"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

const settle = time.Second // that news has: a card that is plugged in is unhealthy for some ms

// Follow says what becomes of these devices, until ctx ends; then it returns nil.
// There is one Follow at a time.
func (r *Recorder) Follow(ctx context.Context, devices Devices, holders Holders) error {
	f := following{Recorder: r, holders: holders, glimpses: make(map[string]glimpse), untold: make(map[string]untold)}
	for {
		snapshot, stale := devices.Latest()
		f.glance(snapshot, time.Now())
		f.take(ctx, snapshot)
		if !f.await(ctx, stale) || !f.settle(ctx, devices) {
			return nil
		}
	}
}

// await waits for another snapshot, and tells meanwhile what is to be told late; it
// is false when ctx has ended.
func (f *following) await(ctx context.Context, stale <-chan struct{}) bool {
	for {
		var again <-chan time.Time
		if len(f.untold) > 0 {
			again = time.After(time.Until(f.askAt))
		}
		select {
		case <-ctx.Done():
			return false
		case <-again:
			f.tellLate(ctx)
		case <-stale:
			return true
		}
	}
}

// settle lets news settle, and notes when each device became what it is then; it is
// false when ctx has ended.
func (f *following) settle(ctx context.Context, devices Devices) bool {
	settled := time.After(settle)
	for {
		snapshot, stale := devices.Latest()
		f.glance(snapshot, time.Now())
		select {
		case <-ctx.Done():
			return false
		case <-settled:
			return true
		case <-stale:
		}
	}
}

// following is one Follow.
type following struct {
	*Recorder
	holders  Holders
	complete bool               // a snapshot with all devices has been seen
	glimpses map[string]glimpse // by id; since take, of devices that were or are listed
	untold   map[string]untold  // by id
	askAt    time.Time          // when to ask who holds those
}

// news is something to say about a device.
type news struct {
	reason  Reason
	was, is state // is.device is that of was where it is gone
}

// take says what is different in a snapshot that has been glanced at.
func (f *following) take(ctx context.Context, s inventory.Snapshot) {
	if s.Version == 0 {
		return
	}
	var all []news
	for _, d := range s.Devices {
		was, known := f.seen[d.ID]
		seen := f.glimpses[d.ID]
		is := state{kind: kindOf(d, was.kind), device: d, came: seen.came, since: seen.since, found: !known && !f.complete, mild: was.mild}
		if is.kind == degraded {
			is.mild = present(d)
		}
		var reasons []Reason
		if known {
			reasons = change(was, is)
		} else {
			reasons = first(is)
		}
		if known && is.kind == was.kind {
			is.since, is.found = was.since, was.found
		}
		for _, reason := range reasons {
			all = append(all, news{reason, was, is})
		}
		f.seen[d.ID] = is
	}
	all = append(all, f.leave(s)...)
	clear(f.glimpses)
	f.complete = f.complete || s.Complete
	f.tell(ctx, all)
}

// leave forgets the devices that are not on the list. On the first list of this
// generation that alone says nothing, for in another mode there are others; but a
// card that nothing on it belongs to has left.
func (f *following) leave(s inventory.Snapshot) []news {
	if !f.complete && !s.Complete {
		return nil
	}
	var all []news
	for _, id := range slices.Sorted(maps.Keys(f.seen)) {
		if s.Device(id) != nil {
			continue
		}
		was := f.seen[id]
		if f.complete || f.without(s, was.device.PCIAddress) {
			for _, reason := range last(was) {
				all = append(all, news{reason, was, state{kind: removed, device: was.device, since: f.glimpses[id].since}})
			}
		}
		delete(f.seen, id)
		delete(f.untold, id)
	}
	return all
}

// without says whether a list is one of cards, and the one at this address is not
// there.
func (f *following) without(s inventory.Snapshot, address string) bool {
	return address != "" && !slices.ContainsFunc(s.Devices, func(d *inventory.Device) bool {
		return d.PCIAddress == "" || d.PCIAddress == address && f.seen[d.ID].kind.here()
	})
}
