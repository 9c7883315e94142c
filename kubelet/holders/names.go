package holders

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// mergeNames updates u.names, the containers that the kubelet lists, and reports whether the containers that it used to
// list are gone. If forgotten is true, their pods still have processes, so the containers aren't gone.
func (u *use) mergeNames(key Key, r reading, entries map[string]checkpoint.Entry, forgotten bool) (ended bool) {
	named := r.Answer.Holders[key]
	ends := (r.complete || u.dropped(key, r, entries)) && !forgotten
	switch {
	case r.KubeletErr != nil:
	case len(named) > 0:
		u.lacked, u.names, u.namedAt, u.namedBy = time.Time{}, containersOf(named), r.Answered, r.Answer.Started
	case ends && u.lacked.IsZero():
		u.lacked = r.Answered
	}
	if ended = ends && !u.lacked.IsZero() && r.Asked.Sub(u.lacked) >= r.rules.Confirm; ended {
		u.names = nil
	}
	return ended
}

// forgotten returns the device's containers that the kubelet has forgotten even though their pods still have processes.
// It leaves out a container that still has a checkpoint entry but has never been in an answer, because this may be an
// init container.
func (u use) forgotten(key Key, r reading, entries map[string]checkpoint.Entry) map[string]bool {
	named := containersOf(r.Answer.Holders[key])
	// A static pod can come back with the same UID. Because it is listed without its devices at first, the kubelet only
	// seems to have forgotten it.
	back := slices.ContainsFunc(u.names, func(name string) bool {
		return r.rules.isStatic(podOf(name)) && r.pods[podOf(name)] && !slices.Contains(named, name)
	})
	all := map[string]bool{}
	for container, e := range u.entries {
		_, written := entries[container]
		if !e.ended && r.Alive[podUID(container)] && !back && (!written || e.named && r.complete) {
			all[container] = true
		}
	}
	return all
}

// lingers returns the earliest lingers time of any entry, or the zero time if there is none.
func (u use) lingers() (since time.Time) {
	for _, e := range u.entries {
		if !e.lingers.IsZero() && (since.IsZero() || e.lingers.Before(since)) {
			since = e.lingers
		}
	}
	return since
}

// dropped reports whether the kubelet has written a checkpoint without the device since it last listed the device. The
// kubelet only does so once it knows all its pods.
func (u use) dropped(key Key, r reading, entries map[string]checkpoint.Entry) bool {
	return key.Resource != draname.Driver && len(entries) == 0 && r.KubeletErr == nil && r.CheckpointErr == nil && r.Checkpoint.Written.After(u.namedAt)
}

// mergeLost returns the containers that the previous kubelet listed and the current one has never listed. If the
// current kubelet lists such a container's pod, it has lost its checkpoint and may allocate the container's devices a
// second time. If it doesn't list the pod, the container is gone.
func (u use) mergeLost(key Key, r reading, entries map[string]checkpoint.Entry) []string {
	if r.KubeletErr != nil || key.Resource == draname.Driver {
		return u.lost
	}
	lost := slices.Clone(u.lost)
	if r.restarted {
		lost = append(lost, u.names...)
	}
	if len(lost) == 0 {
		return nil
	}
	for holder := range entries {
		if e, known := u.entries[holder]; known && e.since.Before(r.Answer.Started) && r.Checkpoint.Written.After(r.Answer.Started) {
			return nil // this kubelet has read the previous one's checkpoint
		}
	}
	named := containersOf(r.Answer.Holders[key])
	return slices.DeleteFunc(lost, func(container string) bool {
		return slices.Contains(named, container) || !r.pods[podOf(container)] && (r.complete || r.settled && u.dropped(key, r, entries))
	})
}

// containersOf returns the containers as NAMESPACE/POD/CONTAINER, sorted.
func containersOf(named []podresources.Holder) []string {
	var names []string
	for _, holder := range named {
		names = append(names, holder.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func podOf(container string) string { return container[:max(0, strings.LastIndexByte(container, '/'))] }
