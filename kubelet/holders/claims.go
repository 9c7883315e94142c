package holders

import (
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/offer/draname"
)

// mergeClaims updates u.prepared, that is, whether the device belongs to one of the DRA driver's claims.
func (u *use) mergeClaims(key Key, r reading) {
	claims, known := r.Claims[key.ID]
	was := u.prepared
	if r.ClaimsErr == nil {
		u.prepared = key.Resource == draname.Driver && len(claims) > 0
	}
	if !r.rules.DRA {
		u.prepared = u.mergeRecorded(key, r)
	}
	switch {
	case u.prepared:
		u.unprepared = time.Time{}
	case was:
		u.unprepared = r.Asked
	}
	// While the kubelet still lists the device, it doesn't count as unprepared: either the kubelet's answer is older
	// than the Unprepare call, or claims.json was removed while the driver was running. The same goes if the kubelet
	// has restarted since it listed the device, because the new kubelet may not know the pod yet.
	unprepared := !u.unprepared.IsZero() && r.KubeletErr == nil && len(r.Answer.Holders[key]) == 0 && u.namedBy.Equal(r.Answer.Started)
	if r.rules.DRA && key.Resource == draname.Driver && !u.prepared && (unprepared || known) {
		u.names = nil // if known, all of the device's claims have admin access
	}
}

// mergeRecorded reports whether a claim in the previous driver's record may still be in use, even if the kubelet
// doesn't list it. Until the kubelet has listed all its pods, that is true of any recorded claim. After that, a claim
// that the kubelet has never listed may belong to an init container, and counts as in use for the grace time.
func (u *use) mergeRecorded(key Key, r reading) bool {
	if key.Resource != draname.Driver || r.Injected[claimedKey(key.ID)] == nil {
		u.recorded, u.listed = time.Time{}, false
		return false
	}
	u.listed = u.listed || len(r.Answer.Holders[key]) > 0
	if !r.whole {
		return true
	}
	if u.recorded.IsZero() {
		u.recorded = r.Asked
	}
	return !u.listed && r.Asked.Sub(u.recorded) < r.rules.Grace
}

// injects reports whether a container may still have the device nodes that are stored in [Injected] under the given
// key. In the DRA driver, it always returns true for devices that belong to claims, because the driver may have
// prepared a claim since the report. The driver removes these keys with [Injected.SetClaimed].
func (s State) injects(injected string) bool {
	id, claimed := strings.CutPrefix(injected, claimedPrefix)
	if claimed && s.rules.DRA || !claimed && !s.allAnswered() { // claims aren't in the checkpoint, so it isn't needed for them
		return true
	}
	for key, u := range s.uses {
		if key.ID == id && ((key.Resource == draname.Driver) == claimed || !claimed && !s.rules.DRA) && u.held {
			return true
		}
	}
	return false
}
