package holders

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// Key identifies an allocated device by its inventory ID and the name under which it was allocated: a resource name or
// the DRA driver's name.
type Key = podresources.Key

// The production values of the [Rules] fields with the same names.
const (
	Confirm   = 3 * time.Second
	Admission = time.Minute
)

const (
	settles = 10 * time.Second      // the longest that a newly started kubelet takes to list its next pod
	behind  = 10 * time.Millisecond // how far a file's time can lag behind the clock
)

// Ends is how long the daemon waits for a force-deleted pod's processes to exit. During this time, the pod's devices
// stay advertised, and an Allocate call that asks for one of them waits. After that, they are withheld. The kubelet
// takes two to three seconds to stop the processes, unless the pod was already being deleted with a longer grace
// period.
const Ends = 5 * time.Second

// Rules determine how a daemon interprets the sources. They don't change while the daemon is running, except that Owns
// may come to recognize more names.
type Rules struct {
	// Owns reports whether this plugin may have allocated the device under this resource name, even if the checkpoint
	// has no annotation for it. In the DRA driver, it accepts the id of any device in a PCI slot.
	Owns      func(resource, id string) bool
	DRA       bool          // this daemon is the DRA driver
	InPod     bool          // this daemon runs in a pod
	Alone     bool          // no container can hold a device through the other API
	Pod       string        // name of the daemon's pod; arbitrary if it doesn't run in a pod
	Node      string        // node name, which is the suffix of static pods' names; may be ""
	DevRoot   string        // device root on the host
	Confirm   time.Duration // minimum time between the two queries that prove that a holder is gone
	Admission time.Duration // the longest that the kubelet takes after Allocate to admit or reject the pod
	Grace     time.Duration // how long a checkpoint entry counts if its container is never in an answer
}

// Report holds what the sources reported in one round of queries.
type Report struct {
	Asked    time.Time           // just before the first source was queried
	Answered time.Time           // when the kubelet had answered
	Answer   podresources.Answer // with inventory ids for devices that belong to claims
	// KubeletErr is set if the kubelet hasn't answered. It wraps [fs.ErrNotExist] if the kubelet isn't running, and
	// [fs.ErrPermission] if this daemon isn't allowed to query it, which is permanent.
	KubeletErr error

	// Checkpoint also contains entries that the kubelet has removed since the previous query even though their pods
	// still have processes.
	Checkpoint    checkpoint.Record
	CheckpointErr error
	Known         knownEntries // what an earlier daemon stored about this checkpoint's entries

	Allocated map[Key]Allocation

	Alive map[string]bool // UIDs of pods that have or had a checkpoint entry and still have a process

	Injected map[string][]string // from [Injected]

	Claims    map[string][]inventory.Holding // prepared claims, by device id; not used by the device plugin
	ClaimsErr error
}

// State combines all reports so far. A daemon starts with the zero State. States are immutable; [Merge] returns a new
// one.
type State struct {
	rules     Rules
	uses      map[Key]use
	asked     time.Time
	claimsErr error
	missing   []inventory.MissingSource
	leftover  bool // the checkpoint has entries, and the kubelet hasn't been made to rewrite it yet

	first        time.Time       // time of the first query since the kubelet started
	down         bool            // the kubelet isn't running
	complete     bool            // the checkpoint has been read and, if needed, an answer was complete
	noKubeletYet bool            // there hasn't been a kubelet yet, so nothing can have been allocated
	started      time.Time       // when the kubelet started, by the wall clock; identifies the kubelet
	appeared     time.Time       // when the kubelet started, or 10 s (settles) before its first answer if that is later
	pods         map[string]bool // pods in the newest answer; until this kubelet answers, the previous kubelet's last answer counts
	former       map[string]bool // pods that the previous kubelet listed and this one hasn't listed yet
	returned     time.Time       // when this kubelet last listed another one of the previous kubelet's pods
	ownListed    bool            // an answer has included the daemon's own pod
	remote       bool            // the newest answer includes a pod from the API server
	away         bool            // the previous kubelet listed pods from the API server, but this one hasn't yet
	whole        bool            // an answer was complete at some point, so former includes all of the previous kubelet's pods
}

// use describes how a device is used under one of its resource names.
type use struct {
	names   []string  // containers with the device, from the last answer that listed any
	namedAt time.Time // time of that answer
	namedBy time.Time // when the kubelet that gave that answer started
	lacked  time.Time // time of the first answer since then that shows them gone, or zero
	// lost contains containers that the previous kubelet listed but the current one doesn't. If the current kubelet
	// lists their pods, it has forgotten their devices.
	lost    []string
	entries map[string]entryState // the checkpoint's entries, by container

	allocatedAt time.Time // time of the newest allocation by this daemon
	settledAt   time.Time // time of the newest allocation that another source has confirmed or that has expired
	prepared    bool      // the device belongs to a claim in claims.json or in the previous driver's record
	unprepared  time.Time // time of the first query that found the claim gone from claims.json; zero if it is still there or never was
	recorded    time.Time // time of the first complete answer while the device was in the previous driver's record, or zero
	listed      bool      // an answer has listed the device while it was in that record

	nodes    []string
	nodesErr error
	later    []string
	given    *inventory.Device
	anyAFU   bool
	foreign  bool // allocated by another plugin
	perhaps  bool // perhaps allocated by this plugin, but no checkpoint has shown it yet
	held     bool
}

// entryState is what is known about a checkpoint entry.
type entryState struct {
	since time.Time // when the kubelet last wrote the entry after an answer, or when the entry was first seen
	named bool      // an answer has listed the device since then
	ended bool      // the container has exited, even though the file still has the entry
	// lingers is when a query first found that the kubelet had forgotten the container even though its pod still had
	// processes, for example because the pod was force-deleted. It is zero if the kubelet knows the container.
	lingers time.Time
}

// Merge combines the previous state with a report, and returns the new state.
func Merge(before State, r Report, rules Rules) State {
	s := before
	s.rules, s.asked = rules, r.Asked
	if s.down = r.down(); s.down || before.down || s.first.IsZero() {
		s.first = r.Asked // nothing is allocated while the kubelet isn't running
	}
	complete, own := s.listen(before, r)
	is := reading{
		Report: r, rules: rules, complete: complete, whole: s.whole, pods: s.pods, settled: own && r.Asked.Sub(s.appeared) >= settles,
		restarted: r.KubeletErr == nil && !before.started.IsZero() && !before.started.Equal(s.started),
	}
	// Unless reading it isn't allowed, the checkpoint must have been read too: even if the kubelet has just started, it
	// shows what was allocated under earlier names.
	files := r.CheckpointErr == nil || errors.Is(r.CheckpointErr, fs.ErrPermission)
	s.complete = s.complete || files && (is.complete || rules.Alone)
	s.noKubeletYet = files && s.started.IsZero() && r.cannotAsk()

	s.uses, s.missing = mergeUses(before.uses, is), r.missing()
	s.claimsErr, s.leftover = r.ClaimsErr, !rules.DRA && rules.leftover(r)
	return s
}

// mergeUses combines the previous uses of all devices with a report, and returns the new uses.
func mergeUses(before map[Key]use, r reading) map[Key]use {
	uses, entries := map[Key]use{}, r.rules.entriesOf(r.Checkpoint)
	for key := range keysOf(before, r.Report, entries) {
		u, used := before[key]
		ours := r.rules.ours(key, entries[key], used && !u.foreign && !u.perhaps)
		u.perhaps = !ours && len(entries[key]) == 0 && (u.perhaps || r.perhapsOurs(key))
		u.foreign = !ours && !u.perhaps
		if u.foreign && len(entries[key]) == 0 && r.CheckpointErr == nil && len(u.forgotten(key, r, nil)) == 0 {
			continue
		}
		if u = u.merge(key, r, entries[key]); u.held || len(u.entries) > 0 || !u.settledAt.IsZero() || !u.recorded.IsZero() {
			uses[key] = u
		}
	}
	return uses
}

// keysOf returns the devices that were in use before the report and those that the report mentions.
func keysOf(before map[Key]use, r Report, entries map[Key]map[string]checkpoint.Entry) map[Key]bool {
	keys := map[Key]bool{}
	add(keys, before)
	add(keys, r.Answer.Holders)
	add(keys, entries)
	add(keys, r.Allocated)
	for id := range r.Claims {
		keys[Key{Resource: draname.Driver, ID: id}] = true
	}
	for injected := range r.Injected {
		if id, claimed := strings.CutPrefix(injected, claimedPrefix); claimed {
			keys[Key{Resource: draname.Driver, ID: id}] = true
		}
	}
	return keys
}

func add[V any](keys map[Key]bool, more map[Key]V) {
	for key := range more {
		keys[key] = true
	}
}

// missing returns the sources that haven't answered.
func (r Report) missing() (missing []inventory.MissingSource) {
	for _, source := range []inventory.MissingSource{
		{Name: "pod-resources", Err: r.KubeletErr}, {Name: "checkpoint", Err: r.CheckpointErr}, {Name: "claims", Err: r.ClaimsErr},
	} {
		if source.Err != nil {
			missing = append(missing, source)
		}
	}
	return missing
}

// down reports whether the kubelet isn't running.
func (r Report) down() bool {
	return errors.Is(r.KubeletErr, syscall.ECONNREFUSED) || errors.Is(r.KubeletErr, fs.ErrNotExist)
}

// cannotAsk reports whether the kubelet can't be queried because its socket is missing or inaccessible.
func (r Report) cannotAsk() bool {
	return errors.Is(r.KubeletErr, fs.ErrNotExist) || errors.Is(r.KubeletErr, fs.ErrPermission)
}

// ours reports whether this project's plugin or driver allocated a device.
func (r Rules) ours(key Key, entries map[string]checkpoint.Entry, before bool) bool {
	if key.Resource == draname.Driver || r.DRA { // the driver doesn't have pool units
		return inventory.IsAddress(key.ID)
	}
	if before || r.Owns(key.Resource, key.ID) {
		return true
	}
	for _, e := range entries {
		if e.Ours(key.ID) {
			return true
		}
	}
	return false
}

// perhapsOurs reports whether the kubelet lists a device that this plugin may have allocated under an earlier resource
// name, because its id looks like one of ours and no checkpoint shows who allocated it.
func (r Report) perhapsOurs(key Key) bool {
	unrecorded := r.CheckpointErr != nil || r.Checkpoint.Written.IsZero() && len(r.Checkpoint.Entries) == 0
	return unrecorded && len(r.Answer.Holders[key]) > 0 && inventory.IsAddress(key.ID)
}

// reading is a report, along with what it says about the kubelet.
type reading struct {
	Report
	rules     Rules
	complete  bool            // the answer lists all containers that are alive
	whole     bool            // this answer or an earlier one was complete
	settled   bool            // the kubelet has been running for a while and lists the daemon's own pod if it should
	restarted bool            // this is the first answer from a kubelet that replaced another one
	pods      map[string]bool // the pods that the kubelet lists
}

// merge combines a device's previous use with a report, and returns the new use.
func (u use) merge(key Key, r reading, entries map[string]checkpoint.Entry) use {
	named := r.Answer.Holders[key]
	u.lost = u.mergeLost(key, r, entries)
	forgotten := u.forgotten(key, r, entries)
	ended := u.mergeNames(key, r, entries, len(forgotten) > 0)
	alive := u.mergeEntries(key, r, entries, len(named) > 0, ended, forgotten)
	allocation := r.Allocated[key]
	pending := u.mergeAllocation(key, r, entries, allocation)
	u.mergeClaims(key, r)
	if u.held = len(u.names) > 0 || len(u.lost) > 0 || alive > 0 || pending || u.prepared; u.held {
		u.mergeNodes(key, r, entries, allocation)
	}
	if u.foreign { // only the nodes matter, and only if they are known
		u.nodesErr, u.held = nil, u.held && len(u.nodes) > 0
	}
	if !u.held {
		return use{entries: u.entries, settledAt: u.settledAt, recorded: u.recorded, listed: u.listed, foreign: u.foreign}
	}
	return u
}

// mergeAllocation updates the times of this daemon's allocations of the device. It reports whether the newest
// allocation is pending: no other source has confirmed it yet, but one still may.
func (u *use) mergeAllocation(key Key, r reading, entries map[string]checkpoint.Entry, allocation Allocation) (pending bool) {
	if !allocation.At.After(u.settledAt) {
		return false
	}
	u.allocatedAt = allocation.At
	recorded := false
	for holder, e := range entries {
		recorded = recorded || !u.entries[holder].ended && (e.Ours(key.ID) || len(allocation.Nodes) == 0)
	}
	recorded = recorded && r.CheckpointErr == nil && r.Checkpoint.Written.After(allocation.At.Add(-behind))
	expires := r.rules.Admission
	if r.CheckpointErr != nil { // the allocation may be for an init container
		expires = max(expires, r.rules.Grace)
	}
	named := len(r.Answer.Holders[key]) > 0 && r.Asked.After(allocation.At)
	if named || recorded || r.complete && r.Asked.Sub(allocation.At) >= expires {
		u.settledAt = allocation.At
		return false
	}
	return true
}

var errNotRecorded = errors.New("no source has the nodes of the device")

// mergeNodes updates the device nodes that the containers got, using the checkpoint, this daemon's own allocation and
// claims.json.
func (u *use) mergeNodes(key Key, r reading, entries map[string]checkpoint.Entry, allocation Allocation) {
	if key.Resource == draname.Driver {
		claims := r.Claims[key.ID]
		switch {
		case len(claims) > 0:
			u.nodes, u.later, u.nodesErr, u.given, u.anyAFU = nil, nil, nil, claims[0].Given, claims[0].AnyAFU
			for _, c := range claims {
				u.nodes, u.later = append(u.nodes, c.Nodes...), append(u.later, c.Later...)
			}
		case !r.rules.DRA && r.Injected[claimedKey(key.ID)] != nil:
			u.nodes, u.nodesErr = r.Injected[claimedKey(key.ID)], nil
		case !u.prepared && u.nodes == nil:
			u.nodesErr = errNotRecorded
		}
		if !r.rules.DRA { // when a driver finishes claims, their containers get the device's current nodes
			u.later = r.Injected[key.ID]
		}
		return
	}
	u.later = r.Injected[key.ID]
	var nodes []string
	err := errNotRecorded
	if (r.CheckpointErr != nil || len(entries) == 0 || len(u.lost) > 0 || !u.lingers().IsZero()) && u.nodes != nil {
		nodes, err = slices.Clone(u.nodes), u.nodesErr // keep the last nodes that could be read
	}
	for holder, e := range entries {
		if u.entries[holder].ended {
			continue
		}
		more, failed := e.Nodes(key.ID, r.rules.DevRoot)
		// Another plugin's device is probably the PCI function whose address is its id. One of our devices may have any
		// nodes. The driver can't tell them apart by the resource name, and takes another plugin's device for ours if
		// its PCI domain isn't 0, so it checks the response too.
		another := u.foreign || !inventory.IsAddress(key.ID) || r.rules.DRA && e.AnotherPlugins()
		if function := functionOf(key.ID); failed != nil && function != "" && another {
			more, failed = []string{inventory.FunctionNode(function)}, nil
		}
		nodes = append(nodes, more...)
		if err == errNotRecorded || failed != nil {
			err = failed
		}
	}
	if !u.allocatedAt.IsZero() && !allocation.At.IsZero() { // exact, and more recent than the entries
		nodes, err = append(nodes, allocation.Nodes...), nil
	}
	if r.CheckpointErr != nil && err == errNotRecorded {
		err = r.CheckpointErr
	}
	if !r.rules.Owns(key.Resource, key.ID) && len(entries) == 0 {
		err = nil // don't withhold our devices because of another plugin's devices
	}
	slices.Sort(nodes)
	u.nodes, u.nodesErr = slices.Compact(nodes), err
}

// allAnswered reports whether all sources have answered completely.
func (s State) allAnswered() bool { return s.complete && len(s.missing) == 0 }
