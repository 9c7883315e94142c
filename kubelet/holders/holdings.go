package holders

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// Holdings returns the devices that are in use and their holders, in the form that the inventory needs.
func (s State) Holdings() inventory.Holdings {
	h := inventory.Holdings{
		Of: map[string][]inventory.Holding{}, Asked: s.asked, Missing: s.missing,
		Awaiting: !s.complete && !s.noKubeletYet && s.asked.Sub(s.first) < s.rules.Grace,
		// The previous daemon may have allocated a device just before exiting, and no source may have reported it yet.
		Unnamed: s.asked.Sub(s.first) < s.rules.Admission,
	}
	if h.Awaiting || s.leftover && s.asked.Sub(s.first) < s.rules.Admission {
		h.Again = time.Second
	}
	known := map[string][]string{} // by device id, the containers that hold the device at the moment
	for key, u := range s.uses {
		if !u.held {
			continue
		}
		id, lost, lingers := key.ID, s.lost(u), u.lingers()
		holding := s.holding(key, u, lost)
		withheld := len(lost) > 0 || !lingers.IsZero() && s.asked.Sub(lingers) >= Ends
		if !lingers.IsZero() && !withheld {
			h.Again = time.Second
		}
		if withheld && !u.foreign {
			// Add a foreign holding as well, so that the kubelet can't allocate the device again even under the same
			// name.
			foreign := key.Resource + "/" + key.ID
			h.Of[foreign] = append(h.Of[foreign], inventory.Holding{As: key.Resource, Nodes: u.nodes, Foreign: true})
		}
		if u.foreign {
			id = key.Resource + "/" + id
		}
		h.Of[id] = append(h.Of[id], holding)
		wait := s.rules.Confirm - s.asked.Sub(u.lacked)
		if u.unprepared.Equal(s.asked) {
			wait = s.rules.Confirm
		}
		if again := wait + s.rules.Confirm/30; wait > 0 && (h.Again == 0 || again < h.Again) { // slightly later, not a moment too soon
			h.Again = again
		}
		h.Unnamed = h.Unnamed || len(u.names) == 0 && s.asked.Sub(u.allocatedAt) < s.rules.Admission
		known[id] = append(known[id], u.holdersNow(key, holding.Holders, lost)...)
	}
	h.Shared = sharedOf(known, h.Of)
	for _, holdings := range h.Of {
		slices.SortFunc(holdings, func(a, b inventory.Holding) int { return strings.Compare(a.As, b.As) })
	}
	if kubelet := s.missing; len(kubelet) > 0 && kubelet[0].Name == "pod-resources" && !s.rules.DRA {
		h.Err = kubelet[0].Err
	}
	if s.claimsErr != nil {
		h.Err = s.claimsErr
	}
	return h
}

// holding converts u, a device's use under one name, into a holding for the inventory.
func (s State) holding(key Key, u use, lost []string) inventory.Holding {
	holding := inventory.Holding{
		As: key.Resource, Holders: u.names, Containers: u.containers(), Nodes: u.nodes, NodesErr: u.nodesErr, Later: u.later,
		Given: u.given, AnyAFU: u.anyAFU, OtherAPI: (key.Resource == draname.Driver) != s.rules.DRA, Foreign: u.foreign, Perhaps: u.perhaps,
	}
	if len(lost) > 0 {
		holding.Holders = slices.Compact(slices.Sorted(slices.Values(slices.Concat(u.names, lost))))
	}
	return holding
}

// lost returns the containers whose devices the kubelet has forgotten: it still lists their pods, but without the
// devices.
func (s State) lost(u use) []string {
	return slices.DeleteFunc(slices.Clone(u.lost), func(container string) bool { return !s.pods[podOf(container)] })
}

// holdersNow returns the holders that haven't exited. All pods with a claim count as a single holder, the driver,
// because they may share the claim. Claims with admin access don't hold devices.
func (u use) holdersNow(key Key, holders, lost []string) []string {
	switch {
	case u.foreign:
	case key.Resource != draname.Driver && u.lacked.IsZero():
		return holders
	case key.Resource != draname.Driver:
		return lost
	case u.prepared && len(u.names) > 0:
		return []string{draname.Driver}
	}
	return nil
}

// sharedOf returns the holders of each device that several containers hold at once, or nil if there is no such device.
func sharedOf(known map[string][]string, all map[string][]inventory.Holding) (shared map[string][]string) {
	for id, containers := range known {
		slices.Sort(containers)
		if len(slices.Compact(containers)) < 2 { // a single container may hold a device under two names
			continue
		}
		if shared == nil {
			shared = map[string][]string{}
		}
		for _, holding := range all[id] {
			shared[id] = append(shared[id], holding.Holders...)
		}
		slices.Sort(shared[id])
	}
	return shared
}

// containers returns the sorted list of containers that have a checkpoint entry and may be alive.
func (u use) containers() (all []string) {
	for holder, e := range u.entries {
		if !e.ended {
			all = append(all, holder)
		}
	}
	slices.Sort(all)
	return all
}

// podUIDs returns, for each device, the UIDs of the pods that have a checkpoint entry for it and may be alive.
func (s State) podUIDs() map[Key][]string {
	all := map[Key][]string{}
	for key, u := range s.uses {
		for _, container := range u.containers() {
			all[key] = append(all[key], podUID(container))
		}
	}
	return all
}

// has reports whether the state already contains the checkpoint entry e.
func (s State) has(e checkpoint.Entry) bool {
	return slices.ContainsFunc(e.IDs, func(id string) bool {
		_, found := s.uses[Key{Resource: e.Resource, ID: id}].entries[e.Holder()]
		return found
	})
}

// unlisted returns the UIDs of pods with a device that is no longer in the kubelet's answer, or with an entry that is
// no longer in the checkpoint.
func (s State) unlisted(r Report, rules Rules) (uids []string) {
	written := rules.entriesOf(r.Checkpoint)
	for key, u := range s.uses {
		for _, container := range u.containers() {
			if _, found := written[key][container]; !found || r.KubeletErr == nil && len(r.Answer.Holders[key]) == 0 {
				uids = append(uids, podUID(container))
			}
		}
	}
	return uids
}

// podUID returns the pod's UID from a container's name of the form POD-UID/NAME.
func podUID(container string) string { uid, _, _ := strings.Cut(container, "/"); return uid }
