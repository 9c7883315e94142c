package holders

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// Key identifies an allocated device by its ID and by the name it was allocated under, which is a resource name or the
// DRA driver's. The ID is always the inventory's.
type Key = podresources.Key

// Production values for the [Rules] fields of the same name.
const (
	Confirm   = 3 * time.Second
	Admission = time.Minute
)

const (
	settles = 10 * time.Second      // how long a kubelet that has just started may take to list its next pod
	behind  = 10 * time.Millisecond // how far a file's time may lag behind the clock
)

// Rules determine how a daemon interprets the sources. They don't change while it is running, but Owns may recognize
// more names later.
type Rules struct {
	// Owns reports whether this plugin may have given out a device under this resource name, even if the checkpoint has
	// no annotation for it. For the driver, the id of any device in a PCI slot counts.
	Owns      func(resource, id string) bool
	DRA       bool          // this daemon is the DRA driver
	InPod     bool          // this daemon runs in a pod
	Alone     bool          // no container can hold a device through the other API
	Pod       string        // name of the daemon's pod, or any other text if it doesn't run in one
	Node      string        // the node's name, which is at the end of static pods' names; may be ""
	DevRoot   string        // device root on the host
	Confirm   time.Duration // time between two queries that together show that a holder has ended
	Admission time.Duration // the longest that the kubelet takes to admit a pod after Allocate, or to give up
	Grace     time.Duration // how long a checkpoint entry counts if no answer ever explains it
}

// Report contains what the sources reported in one round of queries.
type Report struct {
	Asked    time.Time           // before the first source was asked
	Answered time.Time           // when the kubelet had answered
	Answer   podresources.Answer // devices of claims have their inventory ids
	// KubeletErr means that the kubelet hasn't answered. If it is [fs.ErrNotExist], the kubelet isn't running. If it is
	// [fs.ErrPermission], this daemon is never allowed to query it.
	KubeletErr error

	Checkpoint    checkpoint.Record
	CheckpointErr error
	Known         knownEntries // what an earlier daemon knows about this checkpoint's entries

	Allocated map[Key]Allocation

	Injected map[string][]string // as in the node's [Injected]

	Claims    map[string][]inventory.Holding // prepared claims, by device; not used by the device plugin
	ClaimsErr error
}

// State is what has been reported so far. The zero State belongs to a daemon that has just started. A State is
// immutable: [Merge] returns a new one.
type State struct {
	rules     Rules
	uses      map[Key]use
	asked     time.Time
	claimsErr error
	missing   []inventory.MissingSource
	leftover  bool // the checkpoint has entries, and the kubelet hasn't been made to rewrite it yet

	first        time.Time       // time of the first query since the kubelet started
	down         bool            // the kubelet isn't running
	complete     bool            // there has been a checkpoint and, if needed, a complete answer
	noKubeletYet bool            // there hasn't been any kubelet yet that could have given anything out
	started      time.Time       // when the kubelet started
	pods         map[string]bool // in this kubelet's newest answer or, until it has answered, in the previous kubelet's last one
	former       map[string]bool // the previous kubelet's pods that this one hasn't listed yet
	returned     time.Time       // when the most recent of them was listed
	ownListed    bool            // an answer has included the daemon's own pod
	remote       bool            // the newest answer includes a pod from the API server
	away         bool            // the previous kubelet listed pods from the API server, but this one hasn't yet
	whole        bool            // an answer has been complete at some point, so former contains all of the previous kubelet's pods
}

// use describes how a device is used under one name.
type use struct {
	names   []string              // the containers that the kubelet listed last
	namedAt time.Time             // when it listed them
	namedBy time.Time             // when the kubelet that listed them was started
	lacked  time.Time             // time of the first query since then whose answer shows that they have ended; zero if there is none
	lost    []string              // containers that the previous kubelet listed and this one hasn't; if it lists their pods, it has forgotten the containers
	entries map[string]entryState // the checkpoint's entries, by container

	allocatedAt time.Time // time of the newest allocation by this daemon
	settledAt   time.Time // time of the newest one that another source has confirmed or that has expired
	prepared    bool      // a claim in claims.json or in the previous driver's record
	unprepared  time.Time // first query for which claims.json no longer had the claim; zero if it still has it or never did

	nodes    []string
	nodesErr error
	later    []string
	given    *inventory.Device
	anyAFU   bool
	foreign  bool // given out by another plugin
	perhaps  bool // perhaps given out by this plugin; no checkpoint has shown it
	held     bool
}

// entryState is what is known about a checkpoint entry.
type entryState struct {
	since time.Time // when the kubelet last wrote it after an answer, or when it was first seen
	named bool      // an answer has listed the device since
	ended bool      // its container has ended, even though the file still has the entry
}

// Merge returns the state after a report.
func Merge(before State, r Report, rules Rules) State {
	s := before
	s.rules, s.asked = rules, r.Asked
	if s.down = r.down(); s.down || before.down || s.first.IsZero() {
		s.first = r.Asked // nothing is given out while the kubelet isn't running
	}
	complete, own := s.listen(before, r)
	is := reading{
		Report: r, rules: rules, complete: complete, whole: s.whole, pods: s.pods, settled: own && r.Asked.Sub(s.started) >= settles,
		restarted: r.KubeletErr == nil && !before.started.IsZero() && !before.started.Equal(s.started),
	}
	// The checkpoint shows what was given out under earlier names, even if the kubelet has just started.
	files := r.CheckpointErr == nil || errors.Is(r.CheckpointErr, fs.ErrPermission)
	s.complete = s.complete || files && (is.complete || rules.Alone)
	s.noKubeletYet = files && s.started.IsZero() && r.cannotAsk()

	s.uses, s.missing = mergeUses(before.uses, is), r.missing()
	s.claimsErr, s.leftover = r.ClaimsErr, !rules.DRA && rules.leftover(r)
	return s
}

// entriesOf returns the checkpoint's entries, by device and then by container.
//
// If an entry contains another plugin's devices, it counts for at most the first of them, because they all have the
// same nodes. A pod can have thousands of such devices in each of its init containers.
func (r Rules) entriesOf(record checkpoint.Record) map[Key]map[string]checkpoint.Entry {
	entries := map[Key]map[string]checkpoint.Entry{}
	for _, e := range record.Entries {
		for i, id := range e.IDs {
			key := Key{Resource: e.Resource, ID: id}
			if i > 0 && !inventory.IsAddress(id) && !r.Owns(e.Resource, id) && !e.Ours(id) {
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

// mergeUses returns all devices' uses after a report.
func mergeUses(before map[Key]use, r reading) map[Key]use {
	uses, entries := map[Key]use{}, r.rules.entriesOf(r.Checkpoint)
	for key := range keysOf(before, r.Report, entries) {
		u, used := before[key]
		ours := r.rules.ours(key, entries[key], used && !u.foreign && !u.perhaps)
		u.perhaps = !ours && len(entries[key]) == 0 && (u.perhaps || r.perhapsOurs(key))
		u.foreign = !ours && !u.perhaps
		if u.foreign && len(entries[key]) == 0 && r.CheckpointErr == nil {
			continue
		}
		if u = u.merge(key, r, entries[key]); u.held || len(u.entries) > 0 || !u.settledAt.IsZero() {
			uses[key] = u
		}
	}
	return uses
}

// keysOf returns the devices that were in use before the report or that one of its sources reports.
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

// cannotAsk reports whether the kubelet can't be queried, because its socket is missing or access to it is forbidden.
func (r Report) cannotAsk() bool {
	return errors.Is(r.KubeletErr, fs.ErrNotExist) || errors.Is(r.KubeletErr, fs.ErrPermission)
}

// listen updates what is known about the kubelet from its answer. It reports whether the answer is complete, and
// whether it lists the daemon's own pod if it should.
func (s *State) listen(before State, r Report) (complete, own bool) {
	if r.KubeletErr != nil {
		return false, false
	}
	pods := make(map[string]bool, len(r.Answer.Pods))
	remote := false
	for _, pod := range r.Answer.Pods {
		pods[pod] = true
		_, name, _ := strings.Cut(pod, "/")
		own = own || s.rules.isOwn(name)
		remote = remote || !s.rules.isStatic(name)
	}
	if !r.Answer.Started.Equal(before.started) {
		s.started, s.returned, s.former = r.Answer.Started, r.Answer.Started, map[string]bool{}
		maps.Copy(s.former, before.pods)
		maps.Copy(s.former, before.former) // the kubelet was restarted twice
		s.away = before.away || before.remote
	} else {
		s.former = maps.Clone(before.former)
	}
	was := len(s.former)
	maps.DeleteFunc(s.former, func(pod string, _ bool) bool { return pods[pod] })
	if len(s.former) < was {
		s.returned = r.Asked
	}
	s.pods, s.ownListed, s.remote, s.away = pods, s.ownListed || own, remote, s.away && !remote
	settled := r.Asked.Sub(s.returned) >= settles || r.Answered.Before(s.returned) // the clock was set back
	allBack := s.whole && was > 0 && len(s.former) == 0
	own = own || !s.ownListed && !s.rules.ownExpected()
	if complete = (settled || allBack) && own && !s.away; complete {
		s.former, s.whole = nil, true
	}
	return complete, own
}

// isOwn reports whether a pod has the same name as this daemon's pod and comes from the API server. Static pods don't
// count, because a kubelet that has just started lists them immediately. The kubelet cuts host names to 63 characters
// and then removes trailing dots and dashes.
func (r Rules) isOwn(pod string) bool {
	const longest = 63
	if r.isStatic(pod) {
		return false
	}
	if len(pod) > longest {
		pod = strings.TrimRight(pod[:longest], "-.")
	}
	return r.Pod != "" && pod == r.Pod
}

// ownExpected reports whether a kubelet that knows all its pods lists the daemon's own pod under the pod's host name.
func (r Rules) ownExpected() bool { return r.InPod && r.Pod != r.Node && !r.isStatic(r.Pod) }

func (r Rules) isStatic(pod string) bool { return r.Node != "" && strings.HasSuffix(pod, "-"+r.Node) }

// ours reports whether this project's plugin or driver gave out a device.
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

// perhapsOurs reports whether the kubelet lists a device under a name that may be an earlier one of ours. Its id looks
// like ours, and no checkpoint shows who gave it out.
func (r Report) perhapsOurs(key Key) bool {
	unrecorded := r.CheckpointErr != nil || r.Checkpoint.Written.IsZero() && len(r.Checkpoint.Entries) == 0
	return unrecorded && len(r.Answer.Holders[key]) > 0 && inventory.IsAddress(key.ID)
}

// reading is a report together with what it says about the kubelet as a whole.
type reading struct {
	Report
	rules     Rules
	complete  bool            // the answer lists all containers that are alive
	whole     bool            // this answer or an earlier one was complete
	settled   bool            // the kubelet has been running for some time, and its answer isn't lacking the daemon's own pod
	restarted bool            // it is this kubelet's first one
	pods      map[string]bool // the pods that the kubelet lists
}

// merge returns a device's use after a report.
func (u use) merge(key Key, r reading, entries map[string]checkpoint.Entry) use {
	named := r.Answer.Holders[key]
	u.lost = u.mergeLost(key, r, entries)
	ended := u.mergeNames(key, r, entries)
	alive := u.mergeEntries(key, r, entries, len(named) > 0, ended)
	allocation := r.Allocated[key]
	pending := u.mergeAllocation(key, r, entries, allocation)
	u.mergeClaims(key, r)
	if u.held = len(u.names) > 0 || len(u.lost) > 0 || alive > 0 || pending || u.prepared; u.held {
		u.mergeNodes(key, r, entries, allocation)
	}
	if u.foreign { // only its nodes matter, if they are known
		u.nodesErr, u.held = nil, u.held && len(u.nodes) > 0
	}
	if !u.held {
		return use{entries: u.entries, settledAt: u.settledAt, foreign: u.foreign}
	}
	return u
}

// mergeNames updates the containers that the kubelet lists, and reports whether those it listed before have ended.
func (u *use) mergeNames(key Key, r reading, entries map[string]checkpoint.Entry) (ended bool) {
	named := r.Answer.Holders[key]
	ends := r.complete || u.dropped(key, r, entries)
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

// mergeAllocation updates when this daemon gave the device out. It reports whether the allocation is pending, which
// means that no other source has confirmed it yet but one still may.
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
	if r.CheckpointErr != nil { // it may belong to an init container
		expires = max(expires, r.rules.Grace)
	}
	named := len(r.Answer.Holders[key]) > 0 && r.Asked.After(allocation.At)
	if named || recorded || r.complete && r.Asked.Sub(allocation.At) >= expires {
		u.settledAt = allocation.At
		return false
	}
	return true
}

// mergeClaims updates whether one of the DRA driver's claims has the device.
func (u *use) mergeClaims(key Key, r reading) {
	claims, known := r.Claims[key.ID]
	was := u.prepared
	if r.ClaimsErr == nil {
		u.prepared = key.Resource == draname.Driver && len(claims) > 0
	}
	if !r.rules.DRA && !r.whole { // the previous driver's record counts until the kubelet has listed all its pods
		u.prepared = key.Resource == draname.Driver && r.Injected[claimedKey(key.ID)] != nil
	}
	switch {
	case u.prepared:
		u.unprepared = time.Time{}
	case was:
		u.unprepared = r.Asked
	}
	// If the kubelet still lists the device, its answer is older than Unprepare, or claims.json was removed while the
	// driver was running. A kubelet that was restarted after it listed the device may not know the pod yet.
	unprepared := !u.unprepared.IsZero() && r.KubeletErr == nil && len(r.Answer.Holders[key]) == 0 && u.namedBy.Equal(r.Answer.Started)
	if r.rules.DRA && key.Resource == draname.Driver && !u.prepared && (unprepared || known) {
		u.names = nil // known: all of its claims have admin access
	}
}

// dropped reports whether the kubelet, after listing the device, has written its checkpoint without it. The kubelet
// doesn't do this before it knows all its pods.
func (u use) dropped(key Key, r reading, entries map[string]checkpoint.Entry) bool {
	return key.Resource != draname.Driver && len(entries) == 0 && r.KubeletErr == nil && r.CheckpointErr == nil && r.Checkpoint.Written.After(u.namedAt)
}

// mergeLost returns the containers that the previous kubelet listed and that this one has never listed. If this kubelet
// lists a container's pod, it has lost its checkpoint, and may give the container's devices out again. If it doesn't list
// the pod, the container has ended.
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

// containersOf returns the sorted containers as NAMESPACE/POD/CONTAINER.
func containersOf(named []podresources.Holder) []string {
	var names []string
	for _, holder := range named {
		names = append(names, holder.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func podOf(container string) string { return container[:max(0, strings.LastIndexByte(container, '/'))] }

// mergeEntries updates the checkpoint's entries, and returns how many belong to containers that may be alive.
func (u *use) mergeEntries(key Key, r reading, entries map[string]checkpoint.Entry, named, ended bool) (alive int) {
	if r.CheckpointErr != nil { // keep those that were read last
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
			e.since, e.named = r.Asked, named && r.Checkpoint.Written.Before(r.Asked) // otherwise the answer may list the previous container
			e.ended = !named && slices.Contains(r.Known.Ended[key.String()], holder)
		case insists:
			e.since, e.ended, e.named = r.Asked, false, named
		case named:
			e.named, e.ended = true, false
		case ended && (e.named || r.Asked.Sub(e.since) >= r.rules.Grace):
			e.ended = true
		}
		// A kubelet that has been started since then may not know its pods yet, and this daemon can't tell.
		if !e.named && r.Answer.Started.Equal(r.Known.Kubelet) && slices.Contains(r.Known.Named[key.String()], holder) {
			e.named, u.namedBy = true, r.Answer.Started
		}
		after[holder] = e
		if !e.ended {
			alive++
		}
	}
	u.entries = after
	if len(after) == 0 {
		u.entries = nil
	}
	return alive
}

var errNotRecorded = errors.New("no source has the nodes of the device")

// mergeNodes updates the nodes that the containers were given. They come from the checkpoint, this daemon's own
// allocation and claims.json.
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
		if !r.rules.DRA { // a driver that finishes claims gives them the device's current nodes
			u.later = r.Injected[key.ID]
		}
		return
	}
	u.later = r.Injected[key.ID]
	var nodes []string
	err := errNotRecorded
	if (r.CheckpointErr != nil || len(entries) == 0 || len(u.lost) > 0) && u.nodes != nil {
		nodes, err = slices.Clone(u.nodes), u.nodesErr // keep those that were read last
	}
	for holder, e := range entries {
		if u.entries[holder].ended {
			continue
		}
		more, failed := e.Nodes(key.ID, r.rules.DevRoot)
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
		err = nil // another plugin's device must not withhold ours
	}
	slices.Sort(nodes)
	u.nodes, u.nodesErr = slices.Compact(nodes), err
}

// leftover reports whether the checkpoint has entries that the kubelet's answer doesn't explain and that aren't newer
// than the answer. If the kubelet rewrites the file, the new file shows whether their containers have ended.
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

// lacks reports whether the checkpoint has no entry for one of our devices that the kubelet lists. The kubelet may be
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

// allAnswered reports whether all sources have answered completely.
func (s State) allAnswered() bool { return s.complete && len(s.missing) == 0 }

// known returns the checkpoint entries whose containers have ended, and those whose containers the kubelet has listed.
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

// injects reports whether a container may have received a device's nodes through CDI. injected is a key of [Injected].
// The driver itself forgets its claims' devices, because it may have prepared a claim since the report.
func (s State) injects(injected string) bool {
	id, claimed := strings.CutPrefix(injected, claimedPrefix)
	if claimed && s.rules.DRA {
		return true
	}
	for key, u := range s.uses {
		if key.ID == id && ((key.Resource == draname.Driver) == claimed || !claimed && !s.rules.DRA) && u.held {
			return true
		}
	}
	return false
}
