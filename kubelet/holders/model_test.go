package holders_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// world is a simulated node: a kubelet that behaves as in Kubernetes 1.37.1, its pods, two device plugin daemons, and
// the DRA driver. Nothing in it is real, not even the files or the time.
type world struct {
	rng     *rand.Rand
	now     time.Time
	log     func(format string, args ...any)
	err     error // the first violation of an invariant
	depth   int   // nesting of events that happen during other events
	created int   // number of pods
	entries map[string]checkpoint.Entry

	pods    []*pod // by age
	claims  map[string]*grant
	erased  map[string]*grant // claims missing from claims.json because the file was removed
	daemons [3]*daemon        // the last one is the DRA driver

	// The kubelet.
	up, socket, ready bool
	away, fetched     bool // the API server doesn't respond; the kubelet has received its pods
	starts            int
	started           time.Time
	admitting         bool
	known             map[*pod]bool // pods that it has added
	queue             []*pod        // pods from the API server that it will add next
	memory, file      []*grant      // recorded allocations
	written           time.Time     // when the file was last written

	remembered holders.KnownEntries // entries.json
}

type pod struct {
	uid, name               string
	static, admitted, ended bool
	at                      time.Time // when it was admitted
	killed                  time.Time // for a pod that was force-deleted: when its containers stop
	grants                  []*grant
}

// gone reports whether the pod's containers have ended.
func (w *world) gone(p *pod) bool { return p.ended || !p.killed.IsZero() && !w.now.Before(p.killed) }

// grant is a device that was given to a container.
type grant struct {
	pod       *pod
	container string
	key       holders.Key
	node      string
	lost      bool // missing from the kubelet's checkpoint
}

// daemon is a process. A restart replaces it with a new one.
type daemon struct {
	slot      int
	began     time.Time
	rules     holders.Rules
	resource  string
	pod       *pod // nil: the daemon doesn't run in a pod
	state     holders.State
	allocated map[holders.Key]holders.Allocation
	told      map[*grant]*told // what the sources have told this process
	refresh   bool             // the process can make the kubelet rewrite the checkpoint
	asking    bool
	answered  time.Time            // when a kubelet first answered
	known     holders.KnownEntries // read from entries.json or written to it
}

type told struct {
	at          time.Time // the newest report that confirms the grant: its first one, a name, or a checkpoint newer than the answer
	named, node bool      // the grant was in an answer; a source has reported its node
	informed    bool      // entries.json says that this kubelet has listed the grant
	file, fresh bool      // the checkpoint has the grant; it has had it since the current question
}

const grace = 5 * time.Minute

var (
	devices   = []string{"3b:00.0", "3b:00.0-p1", "5e:00.0"}
	resources = []string{"example.com/port", "example.com/afu"}
	epoch     = time.Unix(1_800_000_000, 0)
)

func (w *world) chance(of int) bool { return w.rng.IntN(of) == 0 }

// pass advances the time. The kubelet adds a pod from the API server at least every nine seconds. In reality an
// admission can take longer while other pods wait, but no source reports that.
func (w *world) pass(d time.Duration) {
	for d > 0 {
		step := min(d, time.Duration(w.rng.Int64N(int64(9*time.Second)))+1)
		w.now, d = w.now.Add(step), d-step
		w.addPod()
	}
}

func (w *world) addPod() {
	if !w.up || w.away && !w.fetched || w.admitting || w.ready {
		return
	}
	w.fetched = true
	if len(w.queue) == 0 {
		w.ready = true
		w.log("the kubelet's sources are ready")
		return
	}
	p := w.queue[0]
	w.queue = w.queue[1:]
	w.log("the kubelet adds %s", p.name)
	w.known[p] = true
	if !p.admitted {
		w.admit(p)
	}
}

func (w *world) newPod(name string, static bool) *pod {
	w.created++
	p := &pod{uid: fmt.Sprintf("uid%d", w.created), name: fmt.Sprintf("ns/%s%d", name, w.created), static: static}
	if static {
		p.name += "-node"
	}
	w.pods = append(w.pods, p)
	return p
}

// admit gives devices to a new pod's containers: the init container, the main container, or both, which may get the
// same device.
func (w *world) admit(p *pod) {
	p.admitted, p.at, w.admitting = true, w.now, true
	defer func() { w.admitting = false }()
	starts, kind := w.starts, w.rng.IntN(4)
	if kind == 3 { // a claim, if the device isn't in use by another pod
		id := devices[w.rng.IntN(len(devices))]
		if w.claims[id] == nil && !p.static {
			g := &grant{pod: p, container: "main", key: holders.Key{Resource: draname.Driver, ID: id}, node: "claimed"}
			w.log("claim: %s gets %v", p.name, g.key)
			w.claims[id], p.grants = g, []*grant{g}
			w.meanwhile(time.Second)
		}
		return
	}
	for i, container := range []string{"init", "main"} {
		if kind == i {
			continue
		}
		d := w.daemons[w.rng.IntN(2)]
		key, node := holders.Key{Resource: d.resource, ID: devices[w.rng.IntN(len(devices))]}, fmt.Sprintf("port.%d", w.rng.IntN(2))
		if len(p.grants) > 0 && w.chance(2) && p.grants[0].key.Resource == key.Resource {
			key = p.grants[0].key // the init container's device
		}
		if len(p.grants) > 0 && key == p.grants[0].key {
			node = p.grants[0].node
		}
		w.collect()
		if slices.ContainsFunc(w.memory, func(g *grant) bool { return g.key == key && g.pod != p }) {
			p.ended = true
			return
		}
		g := &grant{pod: p, container: container, key: key, node: node}
		w.now = w.now.Add(11 * time.Millisecond) // file times lag by up to 10 ms, so an earlier entry could pass for this one
		w.log("daemon %d: %s/%s gets %v with %s", d.slot, p.name, container, key, g.node)
		d.allocated[key] = holders.Allocation{At: w.now, Nodes: []string{g.node}}
		d.told[g], p.grants = &told{at: w.now, node: true}, append(p.grants, g)
		longest := 2 * time.Second
		if w.ready {
			longest = 25 * time.Second // another plugin is slow
		}
		w.meanwhile(longest)
		if w.starts != starts || !w.up {
			w.log("%s ends, because the kubelet has ended", p.name)
			p.ended = true
			return
		}
		if w.memory = append(w.memory, g); w.chance(10) {
			w.log("%s is not admitted", p.name)
			p.ended = true
			return
		}
		w.write()
	}
}

// collect does what the kubelet's UpdateAllocatedDevices does.
func (w *world) collect() {
	if w.ready {
		w.memory = slices.DeleteFunc(slices.Clone(w.memory), func(g *grant) bool { return g.pod.ended || !w.known[g.pod] })
	}
}

func (w *world) write() {
	w.now = w.now.Add(time.Millisecond)
	w.file, w.written = slices.Clone(w.memory), w.now
}

// list does what the pod-resources API's List does.
func (w *world) list() (a podresources.Answer, named []*grant) {
	w.collect()
	a = podresources.Answer{Started: w.started, Holders: map[holders.Key][]podresources.Holder{}}
	for _, p := range w.pods {
		prepared := slices.ContainsFunc(p.grants, func(g *grant) bool { return w.claims[g.key.ID] == g })
		if !w.known[p] || p.ended && !prepared {
			continue
		}
		a.Pods = append(a.Pods, p.name)
		for _, g := range p.grants {
			if g.container == "main" && (prepared || slices.Contains(w.memory, g)) {
				a.Holders[g.key] = append(a.Holders[g.key], podresources.Holder{Namespace: "ns", Pod: p.name[3:], Container: g.container})
				named = append(named, g)
			}
		}
	}
	return a, named
}

// meanwhile lets other things happen while time passes.
func (w *world) meanwhile(longest time.Duration) {
	for w.depth < 2 && w.chance(3) {
		w.depth++
		w.event()
		w.depth--
	}
	d := time.Duration(w.rng.Int64N(int64(longest))) + 1
	w.now = w.now.Add(d)
}

// ask queries the sources the way [holders.Source] does, and checks the invariants.
func (w *world) ask(d *daemon, sound bool) inventory.Holdings {
	d.asking = true
	defer func() { d.asking = false }()
	fails := func() bool { return !sound && w.chance(12) }
	pause := func() {
		if w.now = w.now.Add(time.Millisecond); !sound {
			w.meanwhile(50 * time.Millisecond)
		}
	}
	r := holders.Report{Asked: w.now, Claims: map[string][]inventory.Holding{}}
	pause()
	var named []*grant
	switch {
	case w.up && fails():
		r.KubeletErr = context.DeadlineExceeded
	case w.up:
		r.Answer, named = w.list()
	case w.socket:
		r.KubeletErr = syscall.ECONNREFUSED
	default:
		r.KubeletErr = fs.ErrNotExist
	}
	pause()
	r.Answered = w.now
	pause()
	tell := func(g *grant) *told {
		if d.told[g] == nil {
			d.told[g] = &told{at: r.Asked}
		}
		return d.told[g]
	}
	if r.ClaimsErr = nil; d.rules.DRA {
		if fails() {
			r.ClaimsErr = context.DeadlineExceeded
		} else {
			for id, g := range w.claims {
				if w.erased[id] != g {
					r.Claims[id] = []inventory.Holding{{As: draname.Driver, Nodes: []string{g.node}}}
					tell(g).node = true
				}
			}
		}
	}
	r.Allocated = maps.Clone(d.allocated)
	read := func() {
		if fails() {
			r.Checkpoint, r.CheckpointErr = checkpoint.Record{}, context.DeadlineExceeded
			return
		}
		r.Checkpoint, r.CheckpointErr = checkpoint.Record{Written: w.written}, nil
		for _, g := range w.file {
			e := w.entries[g.key.ID+g.node]
			e.PodUID, e.Container, e.Resource = g.pod.uid, g.container, g.key.Resource
			r.Checkpoint.Entries = append(r.Checkpoint.Entries, e)
		}
	}
	if read(); d.refresh && d.rules.Leftover(r) && w.up {
		pause()
		w.write()
		read()
	}
	file := r.Checkpoint.Written
	r.Known = d.known.Of(file)
	if r.CheckpointErr == nil {
		for _, g := range w.file {
			before := d.told[g] != nil && d.told[g].file
			t := tell(g)
			newer := r.KubeletErr == nil && r.Checkpoint.Written.After(r.Answered)
			if t.fresh = !t.file && !w.written.Before(r.Asked); !t.file || newer {
				t.at, t.named, t.informed = r.Asked, false, false
			}
			if !before && slices.Contains(r.Known.Ended[g.key.String()], g.pod.uid+"/"+g.container) {
				t.at = t.at.Add(-grace) // the writer was checked
			}
			if !newer && r.KubeletErr == nil && r.Known.Kubelet.Equal(w.started) && slices.Contains(r.Known.Named[g.key.String()], g.pod.uid+"/"+g.container) {
				t.informed = true
			}
			t.node, t.file = true, true
		}
	}
	for _, g := range named { // only the checkpoint shows that names now owned by the other plugin are ours
		if d.told[g] != nil || g.key.Resource == d.resource || g.key.Resource == draname.Driver || d.rules.DRA {
			t := tell(g)
			t.at, t.named = r.Asked, r.CheckpointErr == nil && !t.fresh
		}
	}
	if d.answered.IsZero() && r.KubeletErr == nil {
		d.answered = r.Asked
	}
	r.Alive = map[string]bool{}
	for _, p := range w.pods {
		r.Alive[p.uid] = p.admitted && !w.gone(p)
	}
	d.state = holders.Merge(d.state, r, d.rules)
	h := d.state.Holdings()
	if now := d.state.Known(file); len(h.Missing) == 0 && len(now.Ended)+len(now.Named) > 0 && !now.Equal(d.known) && !w.chance(8) { // the disk may be full
		d.known, w.remembered = now, now
	}
	w.log("daemon %d asks: pods %v, names %v, errors %v %v %v, file of %v ago: %v → %v, awaiting %v", d.slot, r.Answer.Pods, keys(named), r.KubeletErr,
		r.CheckpointErr, r.ClaimsErr, w.now.Sub(w.written), keys(w.file), h.Of, h.Awaiting)
	w.check(d, r, h)
	return h
}

func keys(grants []*grant) (all []string) {
	for _, g := range grants {
		all = append(all, g.pod.name+"/"+g.container+":"+g.key.Resource+"="+g.key.ID)
	}
	return all
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.log("VIOLATION: %v", w.err)
	}
}

// check verifies that every device given to a running container counts as in use once a source has reported it, and
// that missing sources are listed.
func (w *world) check(d *daemon, r holders.Report, h inventory.Holdings) {
	for _, p := range w.pods {
		for _, g := range p.grants {
			t, erased := d.told[g], w.erased[g.key.ID] == g
			if w.gone(p) || t == nil || t.at.After(r.Asked) {
				continue
			}
			// Some containers can't be seen by any source even though they are still running: if the pod was
			// force-deleted and the daemon has never seen the container's entry in the checkpoint; if the kubelet has
			// forgotten the container or its claim is no longer in claims.json, and no answer listed it before; if the
			// kubelet has forgotten it and the pod was force-deleted; or if the kubelet has forgotten it and still
			// doesn't know the pod 10 s after it started. If the kubelet has given the device to another container, it
			// counts as in use by the new holder.
			late := !w.known[p] && r.Asked.Sub(w.started) >= 10*time.Second
			if forced := !p.killed.IsZero(); (g.lost || erased) && !t.named || forced && !t.file || g.lost && (forced || late) || (g.lost || forced) && w.given(g) {
				delete(d.told, g)
				continue
			}
			// The exception is an init container that wasn't in any answer, if the file hasn't been rewritten for the
			// grace period.
			if !t.named && w.now.Sub(t.at) >= grace {
				continue
			}
			i := slices.IndexFunc(h.Of[g.key.ID], func(h inventory.Holding) bool { return h.As == g.key.Resource })
			if i < 0 {
				w.fail("daemon %d: %v of %s/%s is free", d.slot, g.key, p.name, g.container)
				continue
			}
			is := h.Of[g.key.ID][i]
			// Without the checkpoint, an earlier holder's device nodes may be mistaken for this holder's.
			if known := t.node || is.NodesErr == nil && len(is.Nodes) == 0; known && !slices.Contains(is.Nodes, g.node) && !is.OtherAPI && !g.lost && !erased {
				w.fail("daemon %d: %v of %s/%s has nodes %v, %v, want %s", d.slot, g.key, p.name, g.container, is.Nodes, is.NodesErr, g.node)
			}
			if is.OtherAPI != ((g.key.Resource == draname.Driver) != d.rules.DRA) || is.Foreign {
				w.fail("daemon %d: %v is wrong: %+v", d.slot, g.key, is)
			}
		}
	}
	// A daemon that has just started waits for a kubelet that has just started, which may not list the claims of all
	// pods yet. If the socket is missing, there is no kubelet that could allocate a device. If neither the daemon nor
	// any listed pod comes from the API server, the daemon can't know that more pods will follow.
	static := func(pod string) bool { return strings.HasSuffix(pod, "-node") }
	listed := slices.ContainsFunc(r.Answer.Pods, func(pod string) bool { return !static(pod) })
	for id, g := range w.claims {
		if d.slot < 2 && (listed || d.pod != nil && !d.pod.static) && (d.answered.IsZero() || d.answered.After(w.started)) && !h.Awaiting && r.KubeletErr != fs.ErrNotExist && g.pod.at.Before(d.began) && r.Asked.Sub(w.started) < 10*time.Second && w.up && h.Of[id] == nil && !w.gone(g.pod) {
			w.fail("daemon %d: %v of %s is free, and nothing is awaited", d.slot, g.key, g.pod.name)
		}
	}
	var want, got []string
	for i, err := range []error{r.KubeletErr, r.CheckpointErr, r.ClaimsErr} {
		if err != nil {
			want = append(want, []string{"pod-resources", "checkpoint", "claims"}[i])
		}
	}
	for _, m := range h.Missing {
		got = append(got, m.Name)
	}
	if !slices.Equal(want, got) {
		w.fail("daemon %d: missing %v, want %v", d.slot, got, want)
	}
}

// start replaces a daemon with one that runs in a new pod, in a static pod, or outside of any pod.
func (w *world) start(slot int, p *pod) {
	d := &daemon{slot: slot, began: w.now, allocated: map[holders.Key]holders.Allocation{}, told: map[*grant]*told{}, pod: p, refresh: slot < 2 && !w.chance(4)}
	d.rules = holders.Rules{DRA: slot == 2, Pod: "host", Node: "node", DevRoot: "/dev", Confirm: holders.Confirm, Admission: holders.Admission, Grace: grace}
	if p != nil {
		d.rules.Pod = p.name[3:]
	}
	d.resource = resources[w.rng.IntN(2)]
	d.rules.Owns = func(resource, _ string) bool { return resource == d.resource && slot < 2 }
	w.daemons[slot] = d
	if d.rules.DRA {
		d.known = w.remembered
	}
	w.log("daemon %d starts as %s, %s, refresh %v", slot, d.rules.Pod, d.resource, d.refresh)
}

// event makes one random event happen.
func (w *world) event() {
	slot := w.rng.IntN(len(w.daemons))
	d := w.daemons[slot]
	switch n := w.rng.IntN(40); {
	case n < 14:
		if !d.asking {
			w.ask(d, false)
		}
	case n < 19:
		if w.depth == 0 {
			w.pass([]time.Duration{time.Second, 4 * time.Second, 20 * time.Second, 2 * time.Minute, grace}[w.rng.IntN(5)])
		}
	case n < 25:
		if static := w.chance(4); len(w.pods) < 12 && !w.admitting && w.up && (static || !w.away) {
			switch p := w.newPod("pod", static); {
			case static || w.ready:
				w.known[p] = true
				w.admit(p)
			default:
				w.queue = append(w.queue, p)
			}
		}
	case n < 29:
		if p := w.pods[w.rng.IntN(len(w.pods))]; p != w.pods[0] && !w.isDaemon(p) && (p.admitted || !w.known[p]) && !w.admitting {
			w.log("%s ends", p.name)
			p.ended = true
			w.queue = slices.DeleteFunc(w.queue, func(q *pod) bool { return p == q })
		}
	case n < 30:
		if p := w.pods[w.rng.IntN(len(w.pods))]; p != w.pods[0] && !w.isDaemon(p) && w.known[p] && p.admitted && !w.admitting && len(p.grants) > 0 && p.grants[0].key.Resource != draname.Driver {
			w.log("%s is removed by force", p.name)
			p.killed = w.now.Add([]time.Duration{time.Second, 4 * time.Second, time.Minute}[w.rng.IntN(3)])
			delete(w.known, p)
		}
	case n < 31:
		if w.unprepare(); w.depth == 0 && w.chance(4) {
			w.log("claims.json is removed")
			w.erased = maps.Clone(w.claims)
		}
	case n < 33:
		if w.up { // another plugin sends a list
			w.log("the kubelet writes the checkpoint")
			w.write()
		}
	case n < 34:
		w.away = !w.away
		w.log("API server away: %v", w.away)
	case n < 37:
		w.restart(d)
	case n < 38:
		d.refresh = slot < 2 && !d.refresh
	case w.up:
		w.up, w.socket = false, w.chance(2)
		w.log("the kubelet ends")
	case !w.admitting:
		w.boot()
	}
}

func (w *world) boot() {
	w.up, w.ready, w.fetched, w.started, w.memory = true, false, false, w.now, slices.Clone(w.file)
	if w.starts++; w.chance(8) {
		w.log("the kubelet has lost its checkpoint")
		for _, g := range w.memory {
			g.lost = true
		}
		w.memory, w.file = nil, nil
	}
	w.known, w.queue = map[*pod]bool{}, nil
	w.log("the kubelet starts")
	for _, p := range w.pods {
		switch {
		case p.ended, !p.killed.IsZero():
		case p.static:
			w.known[p] = true
		default:
			w.queue = append(w.queue, p)
		}
	}
}

func (w *world) isDaemon(p *pod) bool {
	return slices.ContainsFunc(w.daemons[:], func(d *daemon) bool { return d.pod == p })
}

// restart replaces a daemon. If it runs in a pod, only the kubelet can restart it.
func (w *world) restart(d *daemon) {
	if p := d.pod; d.asking || p != nil && (!w.up || !w.known[p]) {
		return
	} else if w.ready && w.up && !w.away && w.chance(2) { // an upgrade
		if p != nil {
			p.ended = true
		}
		w.start(d.slot, w.daemonPod())
		return
	}
	w.start(d.slot, d.pod)
}

// daemonPod returns a pod for a daemon. It may be static, or nil.
func (w *world) daemonPod() *pod {
	if w.chance(4) {
		return nil
	}
	p := w.newPod("daemon", w.chance(4))
	p.admitted, w.known[p] = true, true
	return p
}

// unprepare releases the claims of pods that have ended.
func (w *world) unprepare() {
	for id, g := range w.claims {
		if w.up && w.ready && g.pod.ended {
			w.log("claim: %s is free", id)
			delete(w.claims, id)
		}
	}
}

// settle checks that devices become free within 15 s of their holders' end, provided that everything responds and the
// kubelet has been running for 10 s.
func (w *world) settle() {
	if w.pods[0].static { // only a pod from the API server shows that a restarted kubelet has received its pods
		switch p := w.newPod("late", false); {
		case w.ready:
			p.admitted, w.known[p] = true, true
		case w.up:
			w.queue = append(w.queue, p)
			fallthrough
		default:
			p.admitted = true
		}
	}
	for !w.up || !w.ready { // an admission may stop it again
		if w.away = false; !w.up {
			w.boot()
		}
		w.pass(time.Second)
	}
	w.away = false
	for _, p := range w.pods {
		w.pass(max(0, p.killed.Sub(w.now)))
	}
	for _, d := range w.daemons {
		w.ask(d, true)
	}
	w.unprepare()
	w.pass(10 * time.Second)
	for _, d := range w.daemons {
		h, begin := inventory.Holdings{}, w.now
		for next := w.now.Add(time.Duration(w.rng.IntN(10_001)) * time.Millisecond); next.Sub(begin) <= 15*time.Second; {
			w.now = next
			if h, next = w.ask(d, true), w.now.Add(10*time.Second); h.Again > 0 {
				next = w.now.Add(min(10*time.Second, h.Again))
			}
		}
		if h.Awaiting || len(h.Missing) > 0 {
			w.fail("daemon %d: awaiting %v, missing %v, want neither", d.slot, h.Awaiting, h.Missing)
		}
		for id, all := range h.Of {
			for _, is := range all {
				key := holders.Key{Resource: is.As, ID: strings.TrimPrefix(id, is.As+"/")}
				last := d.allocated[key]
				if !w.runs(key) && !w.excepted(d, key) && w.now.Sub(last.At) > time.Minute+20*time.Second {
					w.fail("daemon %d: %v is held by nothing: %+v", d.slot, key, is)
				}
			}
		}
	}
}

// runs reports whether a device is in use by a running container.
func (w *world) runs(key holders.Key) bool {
	return slices.ContainsFunc(w.pods, func(p *pod) bool {
		return !w.gone(p) && slices.ContainsFunc(p.grants, func(g *grant) bool { return g.key == key })
	})
}

// given reports whether the kubelet has forgotten a container and given its device to another one.
func (w *world) given(g *grant) bool {
	return slices.ContainsFunc(w.memory, func(other *grant) bool { return other.key == g.key && other.pod != g.pod })
}

// excepted reports whether the kubelet's file, which this daemon can't refresh, has an entry that was never in an
// answer. Such an entry counts for the grace period.
func (w *world) excepted(d *daemon, key holders.Key) bool {
	return !d.refresh && slices.ContainsFunc(w.file, func(g *grant) bool {
		return g.key == key && !d.told[g].named && !d.told[g].informed && w.now.Sub(d.told[g].at) < grace+20*time.Second
	})
}

// history runs a random history and returns the first violation of an invariant.
func history(seed uint64, entries map[string]checkpoint.Entry, log func(format string, args ...any)) error {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0)), now: epoch, entries: entries, claims: map[string]*grant{}, socket: true, known: map[*pod]bool{}}
	w.log = func(format string, args ...any) {
		if log != nil {
			log("%10v %*s%s", w.now.Sub(epoch).Round(time.Millisecond), 2*w.depth, "", fmt.Sprintf(format, args...))
		}
	}
	// Most nodes have a pod from the API server that never ends.
	w.newPod("proxy", w.chance(4)).admitted = true
	for slot := range w.daemons {
		w.start(slot, w.daemonPod())
	}
	w.boot()
	for range 25 {
		if w.event(); w.err == nil && w.chance(20) {
			w.settle()
		}
		if w.now = w.now.Add(time.Millisecond); w.err != nil {
			return w.err
		}
		w.pods = slices.DeleteFunc(w.pods, func(p *pod) bool {
			return w.gone(p) && !w.known[p] && !slices.ContainsFunc(p.grants, func(g *grant) bool { return w.claims[g.key.ID] == g })
		})
	}
	w.settle()
	return w.err
}

// templates returns checkpoint entries by device and node.
func templates(t testing.TB) map[string]checkpoint.Entry {
	all := map[string]checkpoint.Entry{}
	for _, id := range devices {
		for _, node := range []string{"port.0", "port.1"} {
			all[id+node] = entryOf(t, "", "", id, node)
		}
	}
	return all
}

func TestModel(t *testing.T) {
	entries, failed := templates(t), 0
	for seed := range uint64(10_000) {
		if err := history(seed, entries, nil); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if failed++; failed == 1 {
				_ = history(seed, entries, t.Logf)
			}
			if failed > 5 {
				return
			}
		}
	}
}

func FuzzModel(f *testing.F) {
	entries := templates(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		if err := history(seed, entries, nil); err != nil {
			_ = history(seed, entries, t.Logf)
			t.Error(err)
		}
	})
}
