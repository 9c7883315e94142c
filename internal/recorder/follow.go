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
	settle   = time.Second      // from a change to its Events: a card that is plugged in is unhealthy for some ms
	askAgain = 10 * time.Second // between two questions for holders that were not known
)

// Follow adds Events about these devices to the table until ctx ends; then it returns nil.
func (r *Recorder) Follow(ctx context.Context, devices Devices, holders Holders) error {
	f := following{Recorder: r, holders: holders, devices: make(map[string]*device)}
	var settled <-chan time.Time
	for {
		snapshot, stale := devices.Latest()
		if f.observe(snapshot) && settled == nil {
			settled = time.After(settle)
		}
		var again <-chan time.Time
		if len(f.late) > 0 {
			again = time.After(time.Until(f.askAt))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		case <-settled:
			settled = nil
			f.report(ctx, f.news())
		case <-again:
			f.reportLate(ctx)
		}
	}
}

// following is the state of Follow.
type following struct {
	*Recorder
	holders Holders
	last    inventory.Snapshot
	devices map[string]*device // by id
	// complete: a snapshot of this generation with all devices has settled.
	complete bool
	late     []news    // for pods that are not known yet
	askAt    time.Time // when to ask for the pods again
}

// device is one device that is or was listed.
type device struct {
	reported state // by its Events
	is       state // by the newest snapshot
	// generation is the last one in which the device was listed, in its first snapshot or in
	// a complete one.
	generation uint64
}

// news is a change that has an Event on the node, and perhaps on pods.
type news struct {
	reason  Reason
	was, is state
	at      time.Time // when it was reported
}

// observe applies the changes of a snapshot, and reports whether the snapshot is new.
func (f *following) observe(s inventory.Snapshot) bool {
	if s.Version == f.last.Version {
		return false
	}
	if s.Generation != f.last.Generation {
		f.complete = false
	}
	now := time.Now()
	for _, c := range inventory.Changes(f.last.Devices, s.Devices) {
		d := f.devices[c.ID]
		if d == nil {
			d = &device{generation: s.Generation}
			f.devices[c.ID] = d
		}
		d.is = d.is.after(c, now)
	}
	f.last = s
	return true
}

// news returns the differences between the reported and the present states, and makes the
// present states the reported ones. Listed devices come first, then those that left, each in
// the order of ids.
//
// At the start, and in a new generation, a device that was not listed is found, not added.
// A device of an earlier generation that is gone has left only if its card has; otherwise
// other devices of the card have superseded it.
func (f *following) news() []news {
	var listed, gone []news
	complete := f.complete || f.last.Complete
	for _, id := range slices.Sorted(maps.Keys(f.devices)) {
		d := f.devices[id]
		was, is := d.reported, d.is
		if is.kind == absent && !complete {
			continue // its card may be slow
		}
		switch was.kind {
		case is.kind: // it may have had another kind meanwhile
			is.since, is.found = was.since, was.found
		case absent:
			is.found = !f.complete
		}
		left := was.kind.inSlot() && (is.kind == absent || is.kind == removed)
		superseded := left && d.generation != f.last.Generation && !f.cardLeft(was.device.PCIAddress)
		var all []news
		if !superseded {
			for _, reason := range reasons(was, is) {
				all = append(all, news{reason, was, is, time.Now()})
			}
			d.reported, d.is = is, is
			if complete {
				d.generation = f.last.Generation
			}
		}
		if is.kind != absent {
			listed = append(listed, all...)
			continue
		}
		gone = append(gone, all...)
		delete(f.devices, id)
		f.forgetLate(id)
	}
	f.complete = complete
	return append(listed, gone...)
}

// cardLeft reports whether the newest snapshot has cards, but not the one at this address.
func (f *following) cardLeft(address string) bool {
	return address != "" && !slices.ContainsFunc(f.last.Devices, func(d *inventory.Device) bool {
		return d.PCIAddress == "" || d.PCIAddress == address && f.devices[d.ID].is.kind.inSlot()
	})
}

// forgetLate drops the news about a device that wait for unknown pods.
func (f *following) forgetLate(id string) {
	f.late = slices.DeleteFunc(f.late, func(n news) bool { return n.is.device.ID == id })
}

// forPods reports whether there is also an Event on each pod that holds the device.
func (n news) forPods() bool {
	return texts[n.reason].pod != "" && (n.reason != DeviceRecovered || n.was.kind == unhealthy)
}

// report adds the Events on the node, and on the pods if they are known.
func (f *following) report(ctx context.Context, all []news) {
	var held map[string][]inventory.Holding
	var err error
	if slices.ContainsFunc(all, func(n news) bool { return n.forPods() || n.reason == DeviceRemoved }) {
		held, err = f.holders(ctx)
	}
	for _, n := range all {
		if n.forPods() {
			f.forgetLate(n.is.device.ID)
		}
	}
	for _, n := range all {
		pods, known := podsOf(held[n.is.device.ID])
		known = known && err == nil
		f.note(apiserver.Object{Kind: "Node", Name: f.cfg.Node, UID: f.cfg.Node}, n, n.forNode(pods, known))
		switch {
		case !n.forPods():
		case known:
			f.notePods(n, pods)
		default:
			if len(f.late) == 0 {
				f.askAt = time.Now().Add(askAgain)
			}
			f.late = append(f.late, n)
		}
	}
}

// reportLate asks again for the pods that hold devices: the kubelet has not answered, or a
// device was given out just before.
func (f *following) reportLate(ctx context.Context) {
	held, err := f.holders(ctx)
	f.askAt = time.Now().Add(askAgain)
	f.late = slices.DeleteFunc(f.late, func(n news) bool {
		pods, known := podsOf(held[n.is.device.ID])
		if (!known || err != nil) && time.Since(n.at) < giveUp {
			return false
		}
		f.notePods(n, pods)
		return true
	})
}

// notePods adds an Event on each of these pods.
func (f *following) notePods(n news, pods []pod) {
	for _, p := range pods {
		f.note(apiserver.Object{Kind: "Pod", Namespace: p.namespace, Name: p.name}, n, n.forPod(p))
	}
}
