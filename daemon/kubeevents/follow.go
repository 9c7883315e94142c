package kubeevents

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
)

const (
	settle   = time.Second      // time from a change to its Events, because a newly plugged-in card is unhealthy for a few ms
	askAgain = 10 * time.Second // time between queries for unknown holders

	maxRecords = 512         // maximum number of Events in the table
	reportPace = time.Minute // minimum time between log lines about dropped Events

	// Rate limit for all Events together: a burst, and then one Event per refill. client-go limits the rate per object,
	// with the same burst and a refill of 5 minutes.
	burst  = 25
	refill = 5 * time.Second
)

// Follow adds Events about the devices to the table until ctx is done, and then returns nil.
func (r *Recorder) Follow(ctx context.Context, devices Devices, holders Holders) error {
	f := following{Recorder: r, holders: holders, devices: make(map[string]state)}
	defer f.logDropped(0)
	var settled, again <-chan time.Time
	var changed time.Time
	var missed <-chan struct{}
	for {
		if r.cfg.Missing != nil {
			missed = f.reportMissing()
		}
		snapshot, stale := devices.Latest()
		if settled == nil && snapshot.Version != f.last.Version {
			changed, settled = time.Now(), time.After(settle)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
			continue
		case <-missed:
			continue
		case <-settled:
			settled = nil
			f.report(ctx, f.changes(snapshot, changed))
		case <-again:
			f.report(ctx, nil)
		}
		again = nil
		if len(f.pending) > 0 {
			again = time.After(askAgain)
		}
	}
}

// following is Follow's state.
type following struct {
	*Recorder
	holders Holders
	last    inventory.Snapshot // the last snapshot that was reported
	devices map[string]state   // by id; only listed devices
	missing []ledger.Missing   // the missing cards that have been reported
	pending []change           // changes for which the pods aren't known yet

	full      time.Time // when the token bucket will be full again
	dropped   int       // Events dropped since the last log line about them
	droppedAt time.Time // when that log line was written
}

// change is a change to a device that causes an Event on the node, and perhaps also on pods.
type change struct {
	reason  Reason
	was, is state
	at      time.Time
	cordon  string // the message's text about the cordon; "" if the cordon isn't known
}

// forPods reports whether the change also causes an Event on each pod that holds the device.
func (n change) forPods() bool {
	return texts[n.reason].pod != "" && (n.reason != DeviceRecovered || n.was.health == unhealthy)
}

// changes returns the changes between the reported states and a snapshot, sorted by id, and records the snapshot's
// states as reported. It omits unwanted devices.
//
// At startup and after a mode change, until all cards have been read, a device that wasn't listed before counts as
// found rather than added. A device from the previous mode that is no longer listed counts as removed only if its card
// has left. Otherwise it has been replaced by the card's devices in the new mode.
func (f *following) changes(s inventory.Snapshot, changed time.Time) []change {
	var before []*inventory.Device
	for _, id := range slices.Sorted(maps.Keys(f.devices)) {
		before = append(before, f.devices[id].device)
	}
	complete := f.last.Complete && f.last.Generation == s.Generation // f.last lists all devices of this generation
	var all []change
	for _, c := range inventory.Changes(before, s.Devices) {
		if c.New != nil && c.New.Unwanted() {
			delete(f.devices, c.ID) // for example, when the last rule that matched it was removed
			continue
		}
		was := f.devices[c.ID]
		is := state{kind: kindOf(c.New, was.kind), device: cmp.Or(c.New, c.Old), since: changed, health: was.health}
		if is.kind.judged() {
			is.health = is.kind
		}
		if is.kind == absent {
			if !s.Complete {
				continue // its card may not have been read yet
			}
			delete(f.devices, c.ID)
		}
		left := was.kind.inSlot() && (is.kind == absent || is.kind == removed)
		former := !complete || !kindOf(f.last.Device(c.ID), absent).inSlot()
		if left && former && !cardLeft(s, c.Old.PCIAddress) {
			continue
		}
		switch was.kind {
		case is.kind:
			is.since, is.found = was.since, was.found
		case absent:
			is.found = !complete
		}
		for _, reason := range reasons(was, is) {
			all = append(all, change{reason: reason, was: was, is: is, at: changed, cordon: f.cordonText(reason, c.ID)})
		}
		if is.kind != absent {
			f.devices[c.ID] = is
		}
	}
	f.last = s
	return all
}

// cordonText returns what an Event with the given reason says about the device's cordon, or "" if it says nothing.
func (f *following) cordonText(reason Reason, id string) string {
	if reason != DeviceCordoned || f.cfg.Cordon == nil {
		return ""
	}
	c := f.cfg.Cordon(id)
	if c == nil { // the cordon has ended in the meantime
		return ""
	}
	return ": " + c.String()
}

// cardLeft reports whether the snapshot no longer contains the card at the given address. It returns false if the
// address is "" or if the snapshot contains pool units, because pool units don't have an address.
func cardLeft(s inventory.Snapshot, address string) bool {
	return address != "" && !slices.ContainsFunc(s.Devices, func(d *inventory.Device) bool {
		return d.PCIAddress == "" || d.PCIAddress == address && kindOf(d, absent).inSlot()
	})
}

// report adds Events for the given changes to the table. It also adds the Events on pods for earlier changes, if the
// pods weren't known at the time because the kubelet hadn't answered or the device had just been allocated.
func (f *following) report(ctx context.Context, all []change) {
	f.pending = slices.DeleteFunc(f.pending, func(n change) bool { return f.devices[n.is.device.ID].kind != n.is.kind })
	var use inventory.Holdings
	if len(all)+len(f.pending) > 0 {
		use = f.holders(ctx)
	}
	held, err := use.Of, use.Err
	notePods := func(n change) (done bool) {
		pods, k := podsOf(held[n.is.device.ID])
		if (k != known || err != nil) && time.Since(n.at) < giveUp {
			return false
		}
		for _, pod := range slices.Sorted(maps.Keys(pods)) {
			namespace, name, _ := strings.Cut(pod, "/")
			f.note(apiserver.Object{Kind: "Pod", Namespace: namespace, Name: name}, n, n.onPod(pod, pods[pod]))
		}
		return true
	}
	f.pending = slices.DeleteFunc(f.pending, notePods)
	for _, n := range all {
		pods, k := podsOf(held[n.is.device.ID])
		if err != nil {
			k = unknown
		}
		f.note(apiserver.Object{Kind: "Node", Name: f.cfg.Node, UID: f.cfg.Node}, n, n.onNode(pods, k))
		if n.forPods() && !notePods(n) {
			f.pending = append(f.pending, n)
		}
	}
	f.logDropped(reportPace)
}

// reportMissing adds Events about missing cards that haven't been reported yet. It returns a channel that is closed
// when the missing cards change.
func (f *following) reportMissing() <-chan struct{} {
	all, stale := f.cfg.Missing()
	for _, m := range all {
		if !slices.Contains(f.missing, m) {
			n := change{reason: DeviceMissing, is: state{device: &inventory.Device{ID: m.Card}, since: m.Since}}
			f.note(apiserver.Object{Kind: "Node", Name: f.cfg.Node, UID: f.cfg.Node}, n, n.onNode(nil, known))
		}
	}
	f.missing = all
	return stale
}

// note adds an Event to the table, or updates the one that is already there, and wakes Run to write it. If there are
// too many Events, it drops and counts this one instead.
func (f *following) note(object apiserver.Object, n change, message string) {
	now := time.Now()
	k := key{object, n.reason, n.is.device.ID}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.events, func(e *record) bool { return e.key == k })
	if i < 0 {
		if len(f.events) >= maxRecords {
			f.events = slices.DeleteFunc(f.events, func(e *record) bool { return !e.pending })
		}
		if len(f.events) >= maxRecords {
			f.drop()
			return
		}
		i = len(f.events)
		f.events = append(f.events, &record{key: k, uid: object.UID, first: now})
	}
	e := f.events[i]
	e.warning, e.message, e.last = n.warning(), message, now
	e.count++
	if e.pending {
		return
	}
	if f.full.Before(now) {
		f.full = now
	}
	if f.full.Sub(now) > (burst-1)*refill {
		f.drop()
		return
	}
	f.full = f.full.Add(refill)
	e.pending = true
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// drop counts a dropped Event.
func (f *following) drop() {
	f.dropped++
	f.cfg.Count(Dropped)
}

// logDropped logs the number of dropped Events if the last line about them is at least pace old.
func (f *following) logDropped(pace time.Duration) {
	if now := time.Now(); f.dropped > 0 && now.Sub(f.droppedAt) >= pace {
		f.log.Warn("events dropped", logevent.EventsDropped, logevent.Count(f.dropped))
		f.dropped, f.droppedAt = 0, now
	}
}
