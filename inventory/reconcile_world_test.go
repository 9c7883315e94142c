package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var reconcileConfig = Config{
	RecoveryHold: 10 * time.Second, ReprogramTimeout: time.Minute, HealthInterval: 5 * time.Second,
	HoldersInterval: 10 * time.Second, TombstoneGrace: 5 * time.Minute,
	Holders: func(context.Context) (map[string][]Holding, error) { return nil, errors.New("not called") },
}

// world is a host with two slots for cards, the pods that use them, and a node whose readings and
// answers come from them. It changes by operations. After each one, the published devices are
// compared with the world.
type world struct {
	n        *node
	now      time.Time
	cards    [2]*testCard
	minors   [2][]int // of the device nodes of the newest card in each slot
	made     uint64   // directories so far
	family   string   // port or region
	name     string   // under which ports are offered
	pods     []*testPod
	started  int       // pods so far
	question *question // nil: none is under way
	heard    time.Time // when the newest answer was asked for, or the start

	shown   map[string]*Device // by the changes: the device of each unit that is present
	holders map[string]bool    // by the changes: those that are named
	claimed map[string]bool    // ids with a claim, after the newest reconcile
	changes []change           // of the newest operation
	trusted bool               // the snapshot has been checked before
	err     error              // the first invariant that did not hold
}

// testCard is a card in a slot.
type testCard struct {
	model     string
	minors    []int // of the device nodes of its ports
	directory uint64
	vague     bool // its AFU cannot be read
	sick      bool // its units have an unhealthy condition
	dark      bool // the card cannot be read
}

// testPod is a pod that was given a device.
type testPod struct {
	name, id, as string
	nodes        []string
	model        string // of the card
	named        bool   // by an answer: the nodes that it was given are known
	// forgotten: the claim for the pod has ended, because no answer came for the grace time.
	forgotten bool
}

// question is a question for holders that is under way.
type question struct {
	asked time.Time
	held  map[string][]Holding
	pods  []*testPod
}

var addresses = [2]string{"0000:3b:00.0", "0000:5e:00.0"}

// operations change a world. They report whether they were possible.
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
}

func init() {
	for i := range addresses {
		plug := func(name string, ports int, aside bool, c testCard) {
			operations[fmt.Sprint(name, i)] = func(w *world) bool { return w.plug(i, ports, aside, c) && w.read(i) }
		}
		plug("plug", 1, false, testCard{model: "a"})
		plug("vague", 1, false, testCard{model: "a", vague: true})
		plug("other", 1, false, testCard{model: "b"})
		plug("aside", 1, true, testCard{model: "a"}) // under another node than the card before it
		plug("pair", 2, false, testCard{model: "c"})
		on := func(name string, do func(w *world, c *testCard) bool) {
			operations[fmt.Sprint(name, i)] = func(w *world) bool { return w.cards[i] != nil && do(w, w.cards[i]) && w.read(i) }
		}
		on("pull", func(w *world, _ *testCard) bool { w.cards[i] = nil; return true })
		on("part", func(_ *world, c *testCard) bool { c.minors = c.minors[:1]; return true }) // the other port is released
		on("clear", func(_ *world, c *testCard) bool { return set(&c.vague, false) })
		on("sick", func(_ *world, c *testCard) bool { return set(&c.sick, true) })
		on("well", func(_ *world, c *testCard) bool { return set(&c.sick, false) })
		on("dark", func(_ *world, c *testCard) bool { return set(&c.dark, true) })
		on("light", func(_ *world, c *testCard) bool { return set(&c.dark, false) })
		operations[fmt.Sprint("take", i)] = func(w *world) bool { return w.n.ready && w.startPod(i) }
	}
}

func set(flag *bool, to bool) (changed bool) {
	changed, *flag = *flag != to, to
	return changed
}

// play does operations in a new world that has one card, and checks the published devices from the
// operation with the given index on. Operations that are not possible are left out; done reports
// whether the last one was possible.
func play(history []string, from int) (w *world, done bool) {
	w = &world{now: time.Unix(1e9, 0), family: "port", name: "one", shown: map[string]*Device{}, holders: map[string]bool{}, claimed: map[string]bool{}}
	w.heard = w.now
	cfg := reconcileConfig
	cfg.Policy = w.policy()
	w.n = newNode(cfg, w.now)
	w.n.ready, w.n.complete = true, true
	operations["plug0"](w)
	for i, name := range history {
		w.now, w.changes, w.trusted = w.now.Add(time.Millisecond), nil, i < from
		done = operations[name](w)
		w.check()
	}
	return w, done
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

// plug puts a card into a slot, and removes the card that is there. Its device nodes get the
// lowest numbers that are free.
func (w *world) plug(i, ports int, aside bool, c testCard) bool {
	if w.cards[i] != nil && !w.n.ready {
		return false // a card that replaces another one, unread while the mode changes, counts as the same
	}
	w.made++
	c.directory = w.made
	for minor := 0; len(c.minors) < ports; minor++ {
		other := w.cards[1-i]
		if (other == nil || !slices.Contains(other.minors, minor)) && !(aside && slices.Contains(w.minors[i], minor)) {
			c.minors = append(c.minors, minor)
		}
	}
	w.cards[i], w.minors[i] = &c, c.minors
	return true
}

func (c *testCard) units(family string) (all []Unit) {
	for port, minor := range c.minors {
		u := Unit{
			Name: "port", Incarnation: c.directory, PortID: port, PortIDKnown: true, AFUIDKnown: !c.vague,
			InterfaceIDKnown: true, PCIID: c.model, NUMANode: -1,
			Nodes: []string{fmt.Sprint("port", minor)}, NodeNumbers: []string{fmt.Sprint("245:", minor)},
		}
		if !c.vague {
			u.AFUID = c.model
		}
		if c.sick {
			u.Conditions = []Condition{{Reason: "sick", Health: Unhealthy}}
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

// read hands the state of the card in a slot to the node.
func (w *world) read(i int) bool {
	address, c := addresses[i], w.cards[i]
	if c == nil {
		w.n.removeCard(address, w.now, w.now)
		return w.reconcile()
	}
	r := result{family: w.family, reading: Reading{Units: c.units(w.family)}, outline: c.dark}
	var trouble []Condition
	if c.dark {
		trouble = []Condition{{Reason: ReasonScanFailed, Health: Unhealthy}}
	}
	if !c.dark || !w.n.known(address) {
		w.n.takeReading(address, r, w.now, w.now)
	}
	w.n.setTrouble(address, trouble, w.now)
	return w.reconcile()
}

// wait lets time pass. A question is answered before, and cards are read again when they are due.
func (w *world) wait(d time.Duration) bool {
	if w.question != nil {
		w.arrive()
	}
	until := w.now.Add(d)
	for range 50 {
		next := w.n.nextExpiry()
		for _, at := range w.n.recheck {
			next = earlier(next, at)
		}
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
	return w.wrong("the node wants to be called at once, again and again")
}

// expire ends the claims and rights that have waited too long for an answer.
func (w *world) expire() bool {
	claims := func(p *testPod) (n int) {
		if s := w.n.slots[p.id]; s != nil {
			n = len(s.lost.nodes)
			if s.claim != nil {
				n++
			}
		}
		return n
	}
	before := make([]int, len(w.pods))
	for i, p := range w.pods {
		before[i] = claims(p)
	}
	w.n.expire(w.now)
	for i, p := range w.pods {
		p.forgotten = p.forgotten || claims(p) < before[i] && w.now.Sub(w.heard) >= reconcileConfig.TombstoneGrace
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

// changeMode does the steps of the loop if the policy has other families: the devices are withheld
// first, and no list is published until all cards have been read.
func (w *world) changeMode() bool {
	w.n.supersede(w.now)
	if !w.reconcile() {
		return false
	}
	for _, d := range w.n.devices {
		if d.Health < Unhealthy && d.OfferedAs != "" {
			return w.wrong("%s is offered while the mode changes", d.ID)
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
	return w.reconcile()
}

// startPod gives a device of a slot to a pod, if the list has an offered one that, by the kubelet,
// is not in use under this name.
func (w *world) startPod(i int) bool {
	for _, d := range w.n.devices {
		used := slices.ContainsFunc(w.pods, func(p *testPod) bool { return p.id == d.ID && p.as == d.OfferedAs })
		if used || d.PCIAddress != addresses[i] || d.Health == Unhealthy || d.OfferedAs == "" {
			continue
		}
		w.started++
		pod := &testPod{name: fmt.Sprint("default/pod", w.started, "/main"), id: d.ID, as: d.OfferedAs, nodes: nodesOf(d), model: w.cards[i].model}
		pod.forgotten = slices.ContainsFunc(w.pods, func(p *testPod) bool { // there are two holders then
			return p.forgotten && (p.id == pod.id || share(p.nodes, pod.nodes))
		})
		w.pods = append(w.pods, pod)
		return true
	}
	return false
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

// ask begins a question. Its answer is the state of this moment.
func (w *world) ask() bool {
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
	w.question = &question{w.now, held, slices.Clone(w.pods)}
	return true
}

func (w *world) arrive() bool {
	q := w.question
	w.question, w.heard, w.n.holders.err = nil, q.asked, ""
	w.n.takeAnswer(q.held, q.asked, w.now)
	for _, p := range q.pods {
		p.named = true
	}
	return w.expire()
}

func (w *world) fail() bool {
	w.question, w.n.holders.err = nil, "refused"
	return w.expire()
}

func (w *world) wrong(format string, args ...any) bool {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
	return true
}
