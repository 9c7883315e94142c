package inventory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReconcile plays short histories, one for each case that reservation.go distinguishes.
func TestReconcile(t *testing.T) {
	const recovering = "one unhealthy[recovering="
	for _, test := range []struct{ compared, history, want, changes string }{
		{"present, no reservation", "", "one healthy[] [port0]", "listed"},
		{"present, no reservation, bad", "bad0", "one unhealthy[bad] [port0]", "listed"},
		{"absent, not known", "take0 pull0", "one unhealthy[removed] []", "removed"},
		{"absent, held", "take0 pull0 answer", "one unhealthy[removed-in-use] []", "held"},
		{"absent, free", "pull0 answer", "", "released"},
		{"absent, grace over", "pull0 fail grace", "", "released"},

		{"same, not known", "take0 pull0 plug0", recovering + "removed] [port0]", "returned listed"},
		{"same, held", "take0 pull0 answer plug0", recovering + "removed-in-use] [port0]", "returned listed"},
		{"same, recovered", "take0 pull0 answer plug0 hold", "one healthy[] [port0]", "listed"},
		{"same, seen in one reading", "plug0", recovering + "removed] [port0]", "removed returned listed"},
		{"too little known, not known", "take0 pull0 noafu0", "one unhealthy[removed] [port0]", "listed"},
		{"too little known, held", "take0 pull0 noafu0 answer", "one unhealthy[removed-in-use recovering=removed] [port0]", "held listed"},
		{"too little known, free", "pull0 noafu0 answer", recovering + "removed] [port0]", "released listed"},
		{"too little known, grace over", "pull0 noafu0 fail grace", recovering + "removed] [port0]", "released listed"},
		{"too little known, then same", "pull0 noafu0 afu0", recovering + "removed] [port0]", "returned listed"},
		{"too little known, and bad", "pull0 noafu0 bad0", "one unhealthy[bad removed] [port0]", "listed"},
		{"another one, not known", "take0 pull0 other0", "one unhealthy[replaced-in-use recovering=removed] [port0]", "listed"},
		{"another one, held", "take0 pull0 answer other0", "one unhealthy[replaced-in-use recovering=removed-in-use] [port0]", "listed"},
		{"another one, free", "pull0 other0 answer", "one unhealthy[recovering=removed] [port0]", "released listed"},
		{"another one, grace over", "pull0 other0 fail grace", "one healthy[] [port0]", "listed released listed"},
		{"another name, not known", "pull0 two plug0", "one unhealthy[replaced-in-use recovering=removed] [port0]", "listed"},
		{"another name, free", "pull0 two plug0 answer", "two unhealthy[recovering=removed] [port0]", "released listed"},
		{"other nodes, not known", "take0 pull0 renumbered0", "one unhealthy[node-changed recovering=removed] [port1]", "listed"},
		{"other nodes, held", "take0 pull0 renumbered0 answer", "one unhealthy[node-changed recovering=removed] [port1]", "held"},
		{"other nodes, free", "pull0 renumbered0 answer", "one unhealthy[recovering=removed] [port1]", "released listed"},

		{"old name again, not known", "two one", "one healthy[] [port0]", "renamed-back listed"},
		{"old name again, held", "take0 two answer one", "one healthy[] [port0]", "renamed-back listed"},
		{"renamed, not known", "take0 two", "one unhealthy[moving] [port0]", "listed"},
		{"renamed, held", "take0 two answer", "one unhealthy[replaced-in-use] [port0]", "held listed"},
		{"renamed, free", "two answer", "two healthy[] [port0]", "released listed"},
		{"renamed, grace over", "take0 two fail grace", "two healthy[] [port0]", "released listed"},
		{"renamed, held, named again", "take0 two fail grace answer", "one unhealthy[replaced-in-use] [port0]", "held listed"},
		{"renamed, held, no answer", "take0 two answer fail grace", "one unhealthy[replaced-in-use] [port0]", ""},
		{"moved, absent, held under the old name", "take0 two fail grace pull0 answer", "one unhealthy[removed-in-use] []", "released held"},
		{"no name, not known", "take0 none", "one unhealthy[moving] [port0]", "listed"},
		{"no name, held", "take0 none answer", "one unhealthy[moving] [port0]", "held"},
		{"no name, free", "none answer", " healthy[] [port0]", "released listed"},
		{"renamed, then absent", "take0 two pull0", "one unhealthy[removed] []", "removed"},
		{"no name, then absent", "none answer pull0", "", "removed"},

		{"other family, not read yet", "take0 mode", "one unhealthy[moving] [port0]", "listed"},
		{"other family, not read yet, free", "mode answer", "one unhealthy[moving] [port0]", ""},
		{"other family, free before it is read", "mode answer ready", "region healthy[] [port0]", "released listed"},
		{"renamed, then other family, not read yet", "take0 two mode", "one unhealthy[moving] [port0]", ""},
		{"another name, then other family, not read yet", "pull0 two plug0 mode", "one unhealthy[replaced-in-use recovering=removed] [port0]", ""},
		{"other family, not known", "take0 mode ready", "one unhealthy[moving] [port0]", "listed"},
		{"other family, held", "take0 mode ready answer", "one unhealthy[replaced-in-use] [port0]", "held listed"},
		{"other family, free", "mode ready answer", "region healthy[] [port0]", "released listed"},
		{"other family, absent", "take0 mode pull0 ready", "one unhealthy[removed] []", ""},
		{"other family, not readable", "take0 answer mode unreadable0 ready", "one unhealthy[moving scan-failed] [port0]", ""},
		{"port of a region, not known", "pull0 answer twoports0 take0 answer mode ready", "one unhealthy[moving node-in-use] [port0 port1], 3b:00.0-p1 one unhealthy[removed] []", "removed listed"},

		{"node of another one, not known", "take0 pull0 plug1", "one unhealthy[removed] [], 5e:00.0 one unhealthy[node-in-use] [port0]", "listed"},
		{"node of another one, held", "take0 pull0 plug1 answer", "one unhealthy[removed-in-use] [], 5e:00.0 one unhealthy[node-in-use] [port0]", "held"},
		{"node of another one, free", "pull0 plug1 answer", "5e:00.0 one healthy[] [port0]", "released listed"},
		{"node of another one, no answer", "take0 answer pull0 plug1 fail grace", "one unhealthy[removed-in-use] [], 5e:00.0 one unhealthy[node-in-use] [port0]", ""},
		{"node of another one, held before", "take0 answer pull0 plug1 end answer", "5e:00.0 one healthy[] [port0]", "released listed"},

		{"port of a former mode, held", "pull0 answer twoports0 take0 take0 answer mode ready answer", "one unhealthy[node-in-use replaced-in-use] [port0 port1], 3b:00.0-p1 one unhealthy[former-mode] [port1]", "held held listed"},
		{"port of another card, held", "pull0 answer twoports0 take0 take0 answer pull0 answer plug1 other0", "one unhealthy[node-in-use replaced-in-use recovering=removed-in-use] [port1], 3b:00.0-p1 one unhealthy[removed-in-use] [], 5e:00.0 one unhealthy[node-in-use] [port0]", "listed"},

		{"restarted, not known", "take0 restart ready", "one unhealthy[holders-unknown] [port0]", "listed listed"},
		{"restarted, free", "restart answer ready", "one healthy[] [port0]", "listed"},
		{"restarted, held under another name", "take0 two restart answer ready", "one unhealthy[replaced-in-use] [port0]", "held listed"},
		{"restarted, absent, held", "take0 pull0 restart answer ready", "one unhealthy[removed-in-use] []", "held"},
	} {
		w, done := play(strings.Fields(test.history), 0)
		var changes []string
		for _, c := range w.changes {
			if c.kind == deviceGiven || c.kind == deviceFreed { // see TestHoldersNamed
				continue
			}
			changes = append(changes, []string{"listed", "removed", "held", "returned", "renamed-back", "released", "unoffered"}[c.kind])
		}
		var devices []string
		for _, d := range w.n.devices {
			devices = append(devices, strings.TrimPrefix(show(d), "3b:00.0 "))
		}
		got := []string{strings.Join(devices, ", "), strings.Join(changes, " ")}
		if diff := cmp.Diff([]string{test.want, test.changes}, got); diff != "" || w.err != nil {
			t.Errorf("%s (%s): %v (-want +got):\n%s", test.compared, test.history, w.err, diff)
		}
		if !done && test.history != "" {
			t.Errorf("%s (%s): the last operation was not possible", test.compared, test.history)
		}
	}
}

// TestReconcileAll takes some initial histories and plays all short sequences of some operations after each of them,
// shortest first.
func TestReconcileAll(t *testing.T) {
	alphabet := strings.Fields(`plug0 other0 noafu0 afu0 renumbered0 pull0 take0 bad0 unreadable0 readable0 plug1 pull1 take1
		end ask arrive answer fail one two none hold grace restart`)
	var histories [][]string
	for begin := range strings.SplitSeq("/take0/take0 answer/take0 answer two/take0 answer pull0/plug1 take0 take1", "/") {
		histories = append(histories, strings.Fields(begin))
	}
	for range 3 {
		var longer [][]string
		for _, history := range histories {
			for _, name := range alphabet {
				history := append(slices.Clone(history), name)
				w, done := play(history, len(history)-1)
				if !done {
					continue
				}
				longer = append(longer, history)
				answers := len(longer)%2 == 0
				if w.conclude(answers); w.err != nil {
					t.Fatalf("%s, with answers at the end %v: %v", strings.Join(history, " "), answers, w.err)
				}
			}
		}
		histories = longer
	}
}

// TestReconcileRandom plays long sequences of all operations.
func TestReconcileRandom(t *testing.T) {
	names := strings.Fields(strings.Repeat("take0 take1 take0 take1 answer hold hold good0 readable0 good1 readable1 one end last ready ", 3) + `
		ask arrive fail two none grace mode mode restart
		plug0 noafu0 afu0 other0 renumbered0 twoports0 release0 pull0 bad0 unreadable0
		plug1 noafu1 afu1 other1 renumbered1 twoports1 release1 pull1 bad1 unreadable1`)
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 15))
		history := make([]string, 60)
		for i := range history {
			history[i] = names[random.IntN(len(names))]
		}
		fails := func(history []string) error {
			w, _ := play(history, 0)
			w.conclude(seed%2 == 0)
			return w.err
		}
		if fails(history) == nil {
			continue
		}
		for i := 0; i < len(history); i++ { // remove the operations that aren't needed
			if less := slices.Delete(slices.Clone(history), i, i+1); fails(less) != nil {
				history, i = less, -1
			}
		}
		t.Fatalf("seed %d: %s, with answers at the end %v: %v", seed, strings.Join(history, " "), seed%2 == 0, fails(history))
	}
}

// reconcile calls the node's reconcile method, and checks the changes and the published devices.
func (w *world) reconcile() bool {
	before := w.n.devices
	changes := w.n.reconcile(w.now)
	w.n.copied = false
	w.changes = append(w.changes, changes...)
	w.checkChanges(before, changes)
	w.check()
	return true
}

// checkChanges checks that the changes lead from one list to the next, in the order in which they happened.
func (w *world) checkChanges(before []*Device, changes []change) {
	told, ended := map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		told[c.ID] = true
		switch c.kind {
		case deviceListed, deviceRemoved:
			if c.Old != w.shown[c.ID] || c.Old != nil && c.New != nil && c.Old.equal(c.New) {
				w.violated("change: found old %s and new %s, want old %s", show(c.Old), show(c.New), show(w.shown[c.ID]))
			}
			if w.shown[c.ID] = c.New; c.New == nil {
				delete(w.shown, c.ID)
				if c.Old.OfferedAs != "" {
					w.reservations[c.ID] = true
				}
			}
		case deviceHeld:
			if !slices.ContainsFunc(w.n.holders.Of[c.ID], func(h Holding) bool { return slices.Equal(h.Holders, c.holders) }) {
				w.violated("change: %s: found holders %v, want those of an answer", c.ID, c.holders)
			}
		case deviceGiven, deviceFreed:
			for _, name := range c.holders {
				holder := fmt.Sprint(c.ID, " as ", c.as, " by ", name)
				named := slices.ContainsFunc(w.n.holders.Of[c.ID], func(h Holding) bool { return h.As == c.as && slices.Contains(h.Holders, name) })
				if given := c.kind == deviceGiven; named != given || w.holders[holder] == given {
					w.violated("change: %s: found given %v, but in the answer %v, in an earlier change %v", holder, given, named, w.holders[holder])
				}
				w.holders[holder] = c.kind == deviceGiven
			}
		case deviceReturned, deviceRenamedBack, deviceReleased:
			if !w.reservations[c.ID] {
				w.violated("change: %s: found the end of a reservation, but none before", c.ID)
			}
			ended[c.ID] = true
		}
	}
	for _, c := range Changes(before, w.n.devices) {
		// A tombstone can differ without a reported change, because its fault is logged for another device, and because
		// the poller logs that it is held twice.
		same := c.Old != nil && c.New != nil && w.shown[c.ID] == nil && c.Old.OfferedAs == c.New.OfferedAs && worst(c.Old) == worst(c.New)
		if !told[c.ID] && !same {
			w.violated("%s has become %s: found no change", show(c.Old), show(c.New))
		}
	}
	present := map[string]*Device{}
	for id := range w.reservations {
		if s := w.n.entries[id]; (s == nil || s.reservation == nil) && !ended[id] {
			w.violated("the reservation on %s has ended: found no change", id)
		}
	}
	clear(w.reservations)
	for id, s := range w.n.entries {
		if s.unit != nil {
			present[id] = s.unit.device
		}
		if s.reservation != nil {
			w.reservations[id] = true
		}
	}
	if !maps.Equal(present, w.shown) {
		w.violated("present devices: found %v, want %v by the changes", present, w.shown)
	}
}

// check compares the published devices with the world.
func (w *world) check() {
	if w.skipChecks {
		return
	}
	w.checkKept()
	if !w.n.ready {
		return
	}
	units := map[string]Unit{}
	for i, c := range w.cards {
		if c != nil && !c.unreadable {
			for _, u := range c.units(w.family) {
				units[deviceID(addresses[i], u.PortID)] = u
			}
		}
	}
	last := ""
	for _, d := range w.n.devices {
		if d.ID <= last || (d.Health == Healthy) != (len(d.Reasons) == 0) {
			w.violated("found %s after %s, want ids in order, and reasons only if not healthy", show(d), last)
		}
		last = d.ID
		c := w.cards[slices.Index(addresses[:], d.PCIAddress)]
		u, is := units[d.ID]
		switch {
		case d.Health != Unhealthy && (len(d.Nodes) == 0 || c == nil || c.unreadable || c.bad):
			w.violated("found %s, want it unhealthy: the card is gone or bad", show(d))
		case slices.Equal(d.Reasons, []string{ReasonFormerMode}):
			if c == nil || !c.unreadable && lacks(c.nodes(), d.Nodes) {
				w.violated("found %s, want no such nodes: the card does not have them", show(d))
			}
		case len(d.Nodes) > 0 && (c == nil || !c.unreadable && (!is || !slices.Equal(u.Nodes, d.Nodes))):
			w.violated("found %s, want no such nodes: the card does not have them", show(d))
		case len(d.Nodes) > 0:
			delete(units, d.ID)
		}
	}
	if len(units) > 0 {
		w.violated("found no devices of the units %v", slices.Collect(maps.Keys(units)))
	}
	for _, p := range w.pods {
		if !p.forgotten {
			w.checkPod(p)
		}
	}
}

// checkPod checks that a pod's device is listed under the name it was allocated under, and that no other container can
// be given the same device.
func (w *world) checkPod(p *testPod) {
	d := (Snapshot{Devices: w.n.devices}).Device(p.id)
	h, s := w.n.holders, w.n.entries[p.id] // it may also be held under the listed name:
	unsure := d != nil && d.Health == Unhealthy && (h.Err != nil || s.reservation != nil && s.reservation.since.After(h.Asked))
	if w.settled && !unsure && (d == nil || d.OfferedAs != p.as) {
		w.violated("found %s, want %s listed as %s: it is held", show(d), p.id, p.as)
	}
	for _, d := range w.n.devices {
		shares := share(nodesOf(d), p.nodes)
		switch {
		case d.Health == Unhealthy:
		case d.ID != p.id && shares:
			w.violated("found %s, want it unhealthy: a pod has the nodes %v of %s", show(d), p.nodes, p.id)
		case d.ID == p.id && !shares && p.named: // if the pod wasn't in an answer, it may have been given later nodes
			w.violated("found %s, want it unhealthy: its pod has the nodes %v", show(d), p.nodes)
		case d.ID == p.id && d.OfferedAs != p.as && d.OfferedAs != "":
			w.violated("found %s, want it unhealthy: its pod has it as %s", show(d), p.as)
		case d.ID == p.id && p.model != "" && w.cards[slices.Index(addresses[:], d.PCIAddress)].model != p.model:
			w.violated("found %s, want it unhealthy: its pod has a card of model %s", show(d), p.model)
		}
	}
}

// checkKept checks that the index of kept nodes matches the entries.
func (w *world) checkKept() {
	kept := map[string]map[string]bool{}
	for id, s := range w.n.entries {
		nodes := slices.Concat(nodesGiven(w.n.holders.of(id)), s.lost.nodes)
		if s.device != nil {
			nodes = append(nodes, nodesOf(s.device)...)
		}
		slices.Sort(nodes)
		if nodes = slices.Compact(nodes); !slices.Equal(nodes, s.nodes) {
			w.violated("%s: found the nodes %v kept, want %v", id, s.nodes, nodes)
		}
		for _, node := range nodes {
			if kept[node] == nil {
				kept[node] = map[string]bool{}
			}
			kept[node][id] = true
		}
	}
	if !maps.EqualFunc(kept, w.n.kept, maps.Equal) {
		w.violated("kept nodes: found %v, want %v by the entries", w.n.kept, kept)
	}
}

// conclude ends all pods, repairs all cards and checks that all reservations end, either because of answers, or after
// the grace period without answers.
func (w *world) conclude(answers bool) {
	w.pods, w.question, w.skipChecks = nil, nil, false
	for i, c := range w.cards {
		if c != nil {
			c.noAFU, c.bad, c.unreadable = false, false, false
			w.read(i)
		}
	}
	w.finish()
	if !answers {
		w.fail()
		w.wait(reconcileConfig.TombstoneGrace)
		w.checkClaims()
	}
	operations["answer"](w)
	w.wait(reconcileConfig.RecoveryHold)
	w.checkClaims()
	for id, s := range w.n.entries {
		if s.unit == nil || w.n.waiting[id] {
			w.violated("at the end: found entry %+v, want it removed", s)
		} else if name, _ := w.policy().Name(s.device); s.device.Health != Healthy || s.device.OfferedAs != name {
			w.violated("at the end: found %s, want it healthy with the name %s", show(s.device), name)
		}
	}
	if len(w.n.waiting) > 0 {
		w.violated("at the end: found waiting entries %v, want none", w.n.waiting)
	}
}

func (w *world) checkClaims() {
	for id, s := range w.n.entries {
		if (s.reservation != nil || len(s.lost.nodes) > 0) && len(w.n.holders.Of[id]) == 0 {
			w.violated("at the end: %s: found a reservation or kept nodes %+v, want none", id, s)
		}
	}
}

func show(d *Device) string {
	if d == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %s%s %v", d.ID, d.OfferedAs, d.Health, d.Reasons, d.Nodes)
}
