package holders

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// entriesOf returns the checkpoint's entries, keyed by device and then by container.
//
// If an entry lists another plugin's devices, only the first device is kept, because all of them have the same nodes,
// and a pod can have thousands of such devices in each of its init containers. If the nodes aren't known, all ids that
// are PCI addresses are kept, because they show which devices a container got through CDI.
func (r Rules) entriesOf(record checkpoint.Record) map[Key]map[string]checkpoint.Entry {
	entries := map[Key]map[string]checkpoint.Entry{}
	for _, e := range record.Entries {
		known := false
		for i, id := range e.IDs {
			key := Key{Resource: e.Resource, ID: id}
			if i == 0 {
				_, err := e.Nodes(id, r.DevRoot)
				known = err == nil
			} else if (functionOf(id) == "" || known && !inventory.IsAddress(id)) && !r.Owns(e.Resource, id) && !e.Ours(id) {
				continue
			}
			if entries[key] == nil {
				entries[key] = map[string]checkpoint.Entry{}
			}
			entries[key][e.Holder()] = e
		}
	}
	return entries
}

// functionOf extracts the PCI address (including the domain) from a device id, whether the id is ours or another
// plugin's. It returns "" if the id contains no address.
func functionOf(id string) string {
	if !strings.Contains(id, ":") { // the usual case; parsing is slower
		return ""
	}
	if address, err := sysfs.ParsePCIAddress(id); err == nil {
		return address
	}
	return inventory.AddressOf(id)
}

// mergeEntries updates u.entries from the checkpoint, and returns the number of entries whose containers may be alive.
func (u *use) mergeEntries(key Key, r reading, entries map[string]checkpoint.Entry, named, ended bool, forgotten map[string]bool) (alive int) {
	if r.CheckpointErr != nil { // keep the last entries that could be read
		for _, e := range u.entries {
			if !e.ended {
				alive++
			}
		}
		return alive
	}
	insists := r.KubeletErr == nil && r.Checkpoint.Written.After(r.Answered)
	after := map[string]entryState{}
	for holder := range entries {
		e, known := u.entries[holder]
		switch {
		case !known:
			// If the checkpoint was written after the query began, the kubelet's answer may still list the device's
			// previous container.
			e.since, e.named = r.Asked, named && r.Checkpoint.Written.Before(r.Asked)
			e.ended = !named && slices.Contains(r.Known.Ended[key.String()], holder)
		case insists:
			e.since, e.ended, e.named, e.lingers = r.Asked, false, named, time.Time{}
		case !named && forgotten[holder]:
			e.lingers = cmp.Or(e.lingers, r.Asked)
		case named:
			e.named, e.ended, e.lingers = true, false, time.Time{}
		case ended && (e.named || r.Asked.Sub(e.since) >= r.rules.Grace):
			e.ended = true
		}
		// Ignore Known.Named after a kubelet restart, because the new kubelet may not know its pods yet, and this
		// daemon can't tell whether it does.
		if !e.named && r.Answer.Started.Equal(r.Known.Kubelet) && slices.Contains(r.Known.Named[key.String()], holder) {
			e.named, u.namedBy = true, r.Answer.Started
		}
		after[holder] = e
		if !e.ended {
			alive++
		}
	}
	for holder, e := range u.entries {
		if _, written := entries[holder]; !written && forgotten[holder] {
			e.lingers = cmp.Or(e.lingers, r.Asked)
			after[holder] = e
			alive++
		}
	}
	u.entries = after
	if len(after) == 0 {
		u.entries = nil
	}
	return alive
}

// leftover reports whether the checkpoint is older than the kubelet's answer and has entries for devices that the
// answer doesn't list. Once the kubelet has rewritten the file, the new file shows whether the containers in these
// entries have exited.
func (r Rules) leftover(is Report) bool {
	if is.KubeletErr != nil || is.CheckpointErr != nil || is.Checkpoint.Written.After(is.Answered) {
		return false
	}
	return slices.ContainsFunc(is.Checkpoint.Entries, func(e checkpoint.Entry) bool {
		return slices.ContainsFunc(e.IDs, func(id string) bool {
			key := Key{Resource: e.Resource, ID: id}
			return len(is.Answer.Holders[key]) == 0 && r.ours(key, map[string]checkpoint.Entry{"": e}, false)
		})
	})
}

// lacks reports whether the kubelet lists one of our devices for which the checkpoint has no entry. The kubelet may be
// about to write that entry.
func (r Rules) lacks(is Report) bool {
	if is.KubeletErr != nil || is.CheckpointErr != nil {
		return false
	}
	for key := range is.Answer.Holders {
		if key.Resource != draname.Driver && r.ours(key, nil, false) && !slices.ContainsFunc(is.Checkpoint.Entries, func(e checkpoint.Entry) bool {
			return e.Resource == key.Resource && slices.Contains(e.IDs, key.ID)
		}) {
			return true
		}
	}
	return false
}

// known returns the checkpoint entries of containers that have exited, and of containers that the current kubelet has
// listed.
func (s State) known() knownEntries {
	k := knownEntries{Kubelet: s.started, Ended: map[string][]string{}, Named: map[string][]string{}}
	for key, u := range s.uses {
		for _, holder := range slices.Sorted(maps.Keys(u.entries)) {
			switch e := u.entries[holder]; {
			case e.ended:
				k.Ended[key.String()] = append(k.Ended[key.String()], holder)
			case e.named && u.namedBy.Equal(s.started):
				k.Named[key.String()] = append(k.Named[key.String()], holder)
			}
		}
	}
	return k
}
