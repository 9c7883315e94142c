package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

var reconcileConfig = Config{
	RecoveryHold: 10 * time.Second, ReprogramTimeout: time.Minute, HealthInterval: 5 * time.Second,
	HoldersInterval: 10 * time.Second, TombstoneGrace: 5 * time.Minute,
	Holders: func(context.Context) Holdings { return Holdings{Err: errors.New("not called")} },
}

// world is a host with two card slots, the pods that use the cards, and a node that is fed readings of the cards and
// answers about the pods. Operations change it. After each operation, the published devices are compared with the
// world.
type world struct {
	n          *node
	now        time.Time
	cards      [2]*testCard
	minors     [2][]int // the last card's minor numbers, in each slot
	made       uint64   // number of directories so far
	family     string   // port or region
	name       string   // the name under which ports are offered
	pods       []*testPod
	started    int                  // number of pods so far
	question   *question            // nil: no question is pending
	answeredAt time.Time            // when the last answered question was asked, or when the daemon started
	known      map[string][]Holding // according to the last answer, or to the checkpoint at startup
	awaiting   bool                 // there has been no answer since the daemon restarted
	settled    bool                 // the daemon has received an answer and read all cards

	shown        map[string]*Device // each present unit's device, according to the changes
	holders      map[string]bool    // the holders in the last answer, according to the changes
	reservations map[string]bool    // IDs with a reservation after the last reconcile
	changes      []change           // from the last operation
	skipChecks   bool               // the published devices were already checked in an earlier history
	err          error              // the first violation of an invariant
}

type testCard struct {
	model      string
	minors     []int // its ports' minor numbers
	directory  uint64
	noAFU      bool // the AFU ID can't be read
	bad        bool // the units have an unhealthy condition
	unreadable bool
}

// testPod is a pod that was given a device.
type testPod struct {
	name, id, as string
	nodes        []string
	model        string // the card's model
	named        bool   // the pod was in an answer, so it is known which nodes it was given
	// forgotten: the pod's reservation has ended, because there was no answer during the grace period and the pod
	// wasn't in any earlier answer.
	forgotten bool
}

// question is a pending question about holders.
type question struct {
	answer Holdings
	pods   []*testPod
}

var addresses = [2]string{"0000:3b:00.0", "0000:5e:00.0"}

// operations contains the operations that change a world. An operation reports whether it was possible.
var operations = map[string]func(w *world) bool{
	"end":    func(w *world) bool { return w.endPod(0) },
	"last":   func(w *world) bool { return w.endPod(len(w.pods) - 1) },
	"ask":    func(w *world) bool { return w.question == nil && w.ask() },
	"arrive": func(w *world) bool { return w.question != nil && w.arrive() },
	"answer": func(w *world) bool { return w.question == nil && w.ask() && w.arrive() },
	"fail":   (*world).fail,
	"one":    func(w *world) bool { return w.rename("one") },
	"two":    func(w *world) bool { return w.rename("two") },
	"none":   func(w *world) bool { return w.rename("") },
	"hold":   func(w *world) bool { return w.wait(reconcileConfig.RecoveryHold) },
	"grace":  func(w *world) bool { return w.wait(reconcileConfig.TombstoneGrace) },
	"mode":   (*world).changeMode,
	"ready":  func(w *world) bool { return !w.n.ready && w.finish() },

	"restart": (*world).restart,
}

func init() {
	for i := range addresses {
		plug := func(name string, ports int, renumbered bool, c testCard) {
			operations[fmt.Sprint(name, i)] = func(w *world) bool { return w.plug(i, ports, renumbered, c) && w.read(i) }
		}
		plug("plug", 1, false, testCard{model: "a"})
		plug("noafu", 1, false, testCard{model: "a", noAFU: true})
		plug("other", 1, false, testCard{model: "b"})
		plug("renumbered", 1, true, testCard{model: "a"}) // with a different node than the card before it
		plug("twoports", 2, false, testCard{model: "c"})
		on := func(name string, do func(w *world, c *testCard) bool) {
			operations[fmt.Sprint(name, i)] = func(w *world) bool { return w.cards[i] != nil && do(w, w.cards[i]) && w.read(i) }
		}
		on("pull", func(w *world, _ *testCard) bool { w.cards[i] = nil; return true })
		on("release", func(_ *world, c *testCard) bool { c.minors = c.minors[:1]; return true }) // the second port is released
		on("afu", func(_ *world, c *testCard) bool { return set(&c.noAFU, false) })
		on("bad", func(_ *world, c *testCard) bool { return set(&c.bad, true) })
		on("good", func(_ *world, c *testCard) bool { return set(&c.bad, false) })
		on("unreadable", func(_ *world, c *testCard) bool { return set(&c.unreadable, true) })
		on("readable", func(_ *world, c *testCard) bool { return set(&c.unreadable, false) })
		operations[fmt.Sprint("take", i)] = func(w *world) bool { return w.n.ready && w.startPod(i) }
	}
}

func set(flag *bool, to bool) (changed bool) {
	changed, *flag = *flag != to, to
	return changed
}

// play plays a history's operations in a new world with one card. From the operation at index from on, it checks the
// published devices. It skips operations that aren't possible. done reports whether the last operation was possible.
func play(history []string, from int) (w *world, done bool) {
	w = &world{now: time.Unix(1e9, 0), family: "port", name: "one"}
	w.start(reconcileConfig)
	w.n.ready, w.n.complete = true, true
	operations["plug0"](w)
	for i, name := range history {
		w.now, w.changes, w.skipChecks = w.now.Add(time.Millisecond), nil, i < from
		done = operations[name](w)
		w.check()
	}
	return w, done
}

// start starts a daemon that knows only its configuration.
func (w *world) start(cfg Config) {
	cfg.Policy = w.policy()
	w.n, w.question, w.answeredAt, w.known, w.settled = newNode(cfg, w.now), nil, w.now, cfg.Record, cfg.Record == nil
	w.shown, w.holders, w.reservations = map[string]*Device{}, map[string]bool{}, map[string]bool{}
}

// restart restarts the daemon, which finds all containers' nodes in the checkpoint. The cards are read one at a time,
// or by the ready operation.
func (w *world) restart() bool {
	cfg := reconcileConfig
	cfg.HoldersUnknown, cfg.Record = true, w.held()
	for _, p := range w.pods {
		p.named, p.model = true, "" // the checkpoint contains the nodes, but not the card
	}
	w.awaiting = true
	w.start(cfg)
	return true
}

func (w *world) policy() Policy {
	family, name := w.family, w.name
	return Policy{Name: func(d *Device) (string, error) {
		switch {
		case d.Family != family:
			return "", fmt.Errorf("named in family %s: %s", family, d.Family)
		case family == "region":
			return family, nil
		}
		return name, nil
	}}
}

// plug plugs a card into a slot and removes the card that was there. The device nodes get the lowest free numbers.
func (w *world) plug(i, ports int, renumbered bool, c testCard) bool {
	if w.cards[i] != nil && !w.n.ready {
		return false // if a card is replaced during a mode change before it is read, it counts as the same card
	}
	w.made++
	c.directory = w.made
	for minor := 0; len(c.minors) < ports; minor++ {
		other := w.cards[1-i]
		if (other == nil || !slices.Contains(other.minors, minor)) && !(renumbered && slices.Contains(w.minors[i], minor)) {
			c.minors = append(c.minors, minor)
		}
	}
	w.cards[i], w.minors[i] = &c, c.minors
	return true
}

func (c *testCard) units(family string) (all []Unit) {
	for port, minor := range c.minors {
		u := Unit{
			Name: "port", Incarnation: c.directory, Facts: Facts{PortID: port, PCIID: c.model, NUMANode: -1, Nodes: []string{fmt.Sprint("port", minor)}, NodeNumbers: []string{fmt.Sprint("245:", minor)}}, PortIDKnown: true, AFUIDKnown: !c.noAFU,
			InterfaceIDKnown: true,
		}
		if !c.noAFU {
			u.AFUID = c.model
		}
		if c.bad {
			u.Conditions = []Condition{{Reason: "bad", Health: Unhealthy}}
		}
		if family == "region" && port > 0 {
			all[0].Nodes, all[0].NodeNumbers = append(all[0].Nodes, u.Nodes...), append(all[0].NodeNumbers, u.NodeNumbers...)
			continue
		}
		u.Name = fmt.Sprint(family, minor)
		all = append(all, u)
	}
	return all
}

func (c *testCard) nodes() (all []string) {
	for _, u := range c.units("port") {
		all = append(all, u.Nodes...)
	}
	return all
}

// read passes the state of the card in a slot to the node.
func (w *world) read(i int) bool {
	address, c := addresses[i], w.cards[i]
	if c == nil {
		w.n.apply(outcome{address: address, cause: w.now, gone: true}, w.now)
		return w.reconcile()
	}
	o := outcome{address: address, cause: w.now, family: w.family, outline: c.unreadable}
	if known := w.n.cards[address]; !c.unreadable || known == nil || len(known.units) == 0 || known.former {
		o.reading = &Reading{Units: c.units(w.family)}
	}
	if c.unreadable {
		o.trouble = []Condition{{Reason: ReasonScanFailed, Health: Unhealthy}}
	}
	w.n.apply(o, w.now)
	return w.reconcile()
}

// wait advances the time. Before that, it answers the pending question. It rereads cards when they are due.
func (w *world) wait(d time.Duration) bool {
	if w.question != nil {
		w.arrive()
	}
	until := w.now.Add(d)
	for range 50 {
		next := w.n.next(w.now)
		if next.IsZero() || next.After(until) {
			w.now = until
			return w.expire()
		}
		if next.After(w.now) {
			w.now = next
		}
		for i, address := range addresses {
			if at, wanted := w.n.recheck[address]; wanted && !w.now.Before(at) {
				delete(w.n.recheck, address)
				w.read(i)
			}
		}
		w.expire()
	}
	return w.violated("found 50 timers in a row without an end")
}

// expire ends reservations that have waited too long for an answer, and drops nodes that were kept for too long.
func (w *world) expire() bool {
	reservations := func(p *testPod) (n int) {
		if s := w.n.entries[p.id]; s != nil {
			n = len(s.lost.nodes)
			if s.reservation != nil {
				n++
			}
		}
		return n
	}
	before := make([]int, len(w.pods))
	for i, p := range w.pods {
		before[i] = reservations(p)
	}
	w.n.expire(w.now)
	for i, p := range w.pods {
		p.forgotten = p.forgotten || !p.named && reservations(p) < before[i] && w.now.Sub(w.answeredAt) >= reconcileConfig.TombstoneGrace
	}
	return w.reconcile()
}

func (w *world) rename(name string) bool {
	if w.family == "region" || w.name == name {
		return false
	}
	w.name = name
	w.n.usePolicy(w.policy())
	return w.reconcile()
}

// changeMode goes through the loop's steps when the policy has different families: the devices are withheld first, and
// no list is published until all cards have been read.
func (w *world) changeMode() bool {
	w.n.supersede(w.now)
	if !w.reconcile() {
		return false
	}
	for _, d := range w.n.devices {
		if d.Health < Unhealthy && d.OfferedAs != "" {
			return w.violated("found %s offered while the mode changes, want it unhealthy", d.ID)
		}
	}
	w.family = map[string]string{"port": "region", "region": "port"}[w.family]
	w.n.ready, w.n.complete = false, false
	w.n.usePolicy(w.policy())
	return w.reconcile()
}

func (w *world) finish() bool {
	for i := range addresses {
		w.read(i)
	}
	w.n.finish(w.now)
	w.n.ready = true
	w.n.markAll()
	return w.settle()
}

// startPod gives one of a slot's devices to a pod, if the list contains an offered device that isn't used by a pod
// under that name.
func (w *world) startPod(i int) bool {
	for _, d := range w.n.devices {
		used := slices.ContainsFunc(w.pods, func(p *testPod) bool { return p.id == d.ID && p.as == d.OfferedAs })
		if used || d.PCIAddress != addresses[i] || d.Health == Unhealthy || d.OfferedAs == "" {
			continue
		}
		w.started++
		pod := &testPod{name: fmt.Sprint("default/pod", w.started, "/main"), id: d.ID, as: d.OfferedAs, nodes: nodesOf(d), model: w.cards[i].model}
		pod.forgotten = slices.ContainsFunc(w.pods, func(p *testPod) bool { // the device then has two holders
			return p.forgotten && (p.id == pod.id || share(p.nodes, pod.nodes))
		})
		w.pods = append(w.pods, pod)
		return true
	}
	return false
}

// settle reconciles the node after an answer, or once all cards have been read.
func (w *world) settle() bool {
	w.settled = w.settled || w.n.holders.taken && w.n.complete && !slices.ContainsFunc(addresses[:], func(address string) bool {
		return w.n.cards[address] != nil && !w.n.cards[address].read
	})
	return w.expire()
}

func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(node string) bool { return slices.Contains(b, node) })
}

func (w *world) endPod(i int) bool {
	if len(w.pods) == 0 {
		return false
	}
	w.pods = slices.Delete(slices.Clone(w.pods), i, i+1)
	return true
}

// held returns who is using which device now.
func (w *world) held() map[string][]Holding {
	held := map[string][]Holding{}
	for _, p := range w.pods {
		i := slices.IndexFunc(held[p.id], func(h Holding) bool { return h.As == p.as })
		if i < 0 {
			i = len(held[p.id])
			held[p.id] = append(held[p.id], Holding{As: p.as})
		}
		h := &held[p.id][i]
		h.Holders, h.Nodes = append(h.Holders, p.name), append(h.Nodes, p.nodes...)
	}
	return held
}

// ask asks about holders. The answer will be the current state.
func (w *world) ask() bool {
	w.question = &question{Holdings{Of: w.held(), Asked: w.now, Shared: map[string][]string{}}, slices.Clone(w.pods)}
	for id, holdings := range w.question.answer.Of {
		if names := namesOf(holdings); len(names) > 1 {
			w.question.answer.Shared[id] = names
		}
	}
	return true
}

func (w *world) arrive() bool {
	q := w.question
	w.question, w.answeredAt, w.known, w.awaiting = nil, q.answer.Asked, q.answer.Of, false
	w.n.takeHoldings(q.answer, w.now)
	for _, p := range q.pods {
		p.named = true
	}
	return w.settle()
}

// fail reports that the kubelet didn't answer, so what is known to be held stays held.
func (w *world) fail() bool {
	w.question = nil
	awaiting := w.awaiting && w.now.Sub(w.answeredAt) < reconcileConfig.TombstoneGrace
	w.n.takeHoldings(Holdings{Of: maps.Clone(w.known), Asked: w.now, Err: errors.New("refused"), Awaiting: awaiting}, w.now)
	return w.settle()
}

func (w *world) violated(format string, args ...any) bool {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
	return true
}
