package deviceplugin_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// model changes a node and computes the lists that the kubelet should receive.
type model struct {
	d         *testDaemon
	inventory *inventory.Inventory
	slots     []simnode.Card         // cards that can be plugged in
	ports     map[string][]portState // the plugged-in cards' ports, by address
	pods      int                    // number of pods so far
	held      map[string]grant       // by device ID
}

type portState struct {
	broken, unbound, nodeless bool
	released                  bool   // released from the physical function, so the port doesn't have a directory
	afu                       string // the AFU that the port is programmed with
	seen                      bool   // the daemon has read it since it was last plugged in or programmed
}

func (s portState) good() bool { return !s.broken && !s.unbound && !s.nodeless }

// grant is a device that was given to a pod.
type grant struct {
	pod, resource string
	kind          string   // kind of the device that the pod was given, see modelDevice
	given         []string // names of the device nodes that the pod was given
	owed          []string // names of device nodes that the device has had since, and lost
}

// modelDevice is a device that is present.
type modelDevice struct {
	id, resource string
	kind         string // if the kind differs, it's another device even with the same ID
	good         bool   // its ports don't have a fault
	afu          string // the AFU that a driver shows, or ""
	nodes        []string
	numbered     []string // nodes, plus the nodes of released ports, which keep their numbers
}

func newModel(d *testDaemon, inventory *inventory.Inventory) *model {
	m := &model{d: d, inventory: inventory, ports: map[string][]portState{}, held: map[string]grant{}}
	for i := range 8 {
		c := cardA
		c.Address = fmt.Sprintf("0000:%02x:00.0", 0x30+i)
		c.Ports = 1 + i%3
		m.slots = append(m.slots, c)
	}
	return m
}

// devices returns the plugged-in cards' devices in the current mode.
func (m *model) devices() []modelDevice {
	var all []modelDevice
	for _, c := range m.slots {
		states, in := m.ports[c.Address]
		switch {
		case !in:
		case m.d.cfg.Mode == offer.Region:
			all = append(all, m.region(c, states))
		default:
			for port, s := range states {
				all = append(all, m.port(c, port, s))
			}
		}
	}
	return all
}

// port returns a port's device in the single and af modes.
func (m *model) port(c simnode.Card, port int, s portState) modelDevice {
	d := modelDevice{
		id: portID(c, port), resource: testResource, kind: s.afu, good: s.good(),
		nodes: []string{m.d.node.PortNode(c.Address, port)},
	}
	d.numbered = d.nodes
	if !s.unbound {
		d.afu = s.afu
	}
	if m.d.cfg.Mode == offer.AF {
		d.resource = map[string]string{cardA.AFUID: afAa, cardB.AFUID: afAb}[s.afu]
		d.kind = d.resource
	}
	return d
}

// region returns a card's device in region mode: all ports that aren't released, with any AFU.
func (m *model) region(c simnode.Card, states []portState) modelDevice {
	d := modelDevice{id: portID(c, 0), resource: map[string]string{cardA.InterfaceID: regionA, cardB.InterfaceID: regionB}[c.InterfaceID]}
	d.kind = d.resource
	bad := false
	for port, s := range states {
		d.numbered = append(d.numbered, m.d.node.PortNode(c.Address, port))
		if !s.released {
			d.nodes = append(d.nodes, m.d.node.PortNode(c.Address, port))
			bad = bad || !s.good()
		}
	}
	d.good = !bad && len(d.nodes) > 0
	return d
}

func portID(c simnode.Card, port int) string {
	id := c.Address[len("0000:"):]
	if port > 0 {
		id += fmt.Sprintf("-p%d", port)
	}
	return id
}

// want returns the lists that the kubelet should receive. A held device stays in the resource that it was allocated
// under. It is unhealthy there unless it is present, of the same kind, and has the same nodes. A device is also
// unhealthy while a pod that holds another device may have one of its nodes.
func (m *model) want() resourceLists {
	want := resourceLists{}
	list := func(resource, id string, healthy bool) {
		if want[resource] == nil {
			want[resource] = health{}
		}
		want[resource][id] = healthy
	}
	for id, h := range m.held {
		list(h.resource, id, false)
	}
	given := m.givenNodes()
	for _, d := range m.devices() {
		for _, node := range d.nodes {
			d.good = d.good && !slices.ContainsFunc(given[node], func(id string) bool { return id != d.id })
		}
		if h, held := m.held[d.id]; held {
			list(h.resource, d.id, d.good && d.kind == h.kind && among(h.given, d.numbered))
		} else {
			list(d.resource, d.id, d.good)
		}
	}
	return want
}

// among reports whether others contains all elements of some.
func among(some, others []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(others, s) })
}

// givenNodes returns the device nodes that pods may still have, each with the IDs of the devices it was allocated with.
// A container can use a device number until it ends, even if another card has that number now.
func (m *model) givenNodes() map[string][]string {
	given := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(m.held)) {
		for _, node := range slices.Concat(m.held[id].given, m.held[id].owed) {
			given[node] = append(given[node], id)
		}
	}
	return given
}

func (m *model) String() string {
	return fmt.Sprintf("ports %v, held %v, nodes given %v", m.ports, m.held, m.givenNodes())
}

// turn makes a random change to one card.
func (m *model) turn(random *rand.Rand) {
	c := m.slots[random.IntN(len(m.slots))]
	if m.ports[c.Address] == nil {
		m.plug(c)
		return
	}
	switch random.IntN(6) {
	case 0:
		m.unplug(c)
	case 1: // pulled and plugged in right away: the daemon may miss that, but not the new state
		m.unplug(c)
		m.plug(c)
	default:
		m.turnPort(random, c, random.IntN(c.Ports))
	}
}

// turnPort makes a random change to one port of a plugged-in card.
func (m *model) turnPort(random *rand.Rand, c simnode.Card, port int) {
	mode, node := m.d.cfg.Mode, m.d.node
	states := m.ports[c.Address]
	s := &states[port]
	switch turn := random.IntN(6); {
	case s.released:
		m.d.do(node.Assign(c.Address, port))
		s.released, s.unbound = false, true
	case s.unbound: // without attributes, all that can be done is bind it
		m.d.do(node.Bind(c.Address, port))
		s.unbound, s.broken = false, false
	case turn == 0:
		m.d.do(node.Set(c.Address, port, "errors/errors", "0x4000000000000"))
		s.broken = true
	case turn == 1:
		m.d.do(node.Set(c.Address, port, "errors/errors", "0x0"))
		s.broken = false
	case turn == 2 && !s.nodeless:
		m.d.do(os.Remove(filepath.Join(node.Dev, node.PortNode(c.Address, port))))
		s.nodeless = true
	case turn == 2:
		m.d.do(os.WriteFile(filepath.Join(node.Dev, node.PortNode(c.Address, port)), nil, 0o600))
		s.nodeless = false
	case turn == 3:
		if m.mayUnbind(states, *s) {
			m.d.do(node.Unbind(c.Address, port))
			s.unbound = true
		}
	case turn == 4 && mode != offer.Single: // in single mode, a different AFU makes it another device only after it was pulled
		s.afu, s.seen = otherOf(s.afu, cardA.AFUID, cardB.AFUID), false
		m.d.do(node.Reprogram(c.Address, port, s.afu))
	case turn == 5 && mode == offer.Region && !s.nodeless && s.seen: // otherwise it looks like a card that returned without the port
		m.owe(portID(c, 0), node.PortNode(c.Address, port))
		m.d.do(node.Release(c.Address, port))
		*s = portState{released: true, afu: s.afu}
	}
}

// owe records that a held device loses nodes that its holder may still have.
func (m *model) owe(id string, nodes ...string) {
	if h, held := m.held[id]; held && !among(nodes, h.given) {
		h.owed = append(h.owed, nodes...)
		m.held[id] = h
	}
}

// seen reports whether the daemon has read a card since it was plugged in.
func (m *model) seen(c simnode.Card) bool {
	return !slices.ContainsFunc(m.ports[c.Address], func(s portState) bool { return !s.seen && !s.released })
}

// mayUnbind reports whether the model can predict the device if a port loses its driver. A port that the daemon has
// never read while it was bound gets the remaining port number, so this works for only one port per card. In af mode,
// its AFU must be known too.
func (m *model) mayUnbind(states []portState, s portState) bool {
	if m.d.cfg.Mode == offer.AF && !s.seen {
		return false
	}
	return !slices.ContainsFunc(states, func(o portState) bool { return o.unbound })
}

// otherOf returns whichever of a and b is not s.
func otherOf(s, a, b string) string {
	if s == a {
		return b
	}
	return a
}

func (m *model) plug(c simnode.Card) {
	m.d.do(m.d.node.Plug(c))
	m.ports[c.Address] = slices.Repeat([]portState{{afu: c.AFUID}}, c.Ports)
}

// unplug pulls a card after the daemon has had time to read its device nodes. A holder can still open nodes that its
// device has lost, so the daemon must know them.
func (m *model) unplug(c simnode.Card) {
	m.d.t.Helper()
	for _, d := range m.devices() {
		h, held := m.held[d.id]
		if address := m.slot(d.id).Address; address != c.Address || !held || among(d.nodes, h.given) {
			continue
		}
		if !m.seen(c) {
			m.settle("before a card is pulled whose nodes are others than were given")
		}
		m.owe(d.id, d.nodes...)
	}
	m.d.do(m.d.node.Unplug(c.Address))
	delete(m.ports, c.Address)
}

// swap replaces a card with a different one, after the daemon has removed the first. The daemon couldn't notice a
// faster swap.
func (m *model) swap(random *rand.Rand, when string) {
	m.d.t.Helper()
	c := &m.slots[random.IntN(len(m.slots))]
	if m.ports[c.Address] == nil {
		return
	}
	m.settle(when + ", before")
	m.unplug(*c)
	m.awaitGone(when+", out", c.Address)
	m.settle(when + ", out")
	if m.d.cfg.Mode == offer.Region {
		c.InterfaceID = otherOf(c.InterfaceID, cardA.InterfaceID, cardB.InterfaceID)
	} else {
		c.AFUID = otherOf(c.AFUID, cardA.AFUID, cardB.AFUID)
	}
	m.plug(*c)
	m.settle(when + ", in")
}

// turnPod ends a pod, or starts one that requests a healthy device.
func (m *model) turnPod(random *rand.Rand) {
	if ids := slices.Sorted(maps.Keys(m.held)); len(ids) > 4 || len(ids) > 0 && random.IntN(3) == 0 {
		m.release(ids[random.IntN(len(ids))])
		return
	}
	type candidate struct{ resource, id string }
	var candidates []candidate
	for resource, devices := range m.d.lists() {
		for _, d := range devices {
			if _, held := m.held[d.ID]; d.Healthy && !held {
				candidates = append(candidates, candidate{resource, d.ID})
			}
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return strings.Compare(a.id+a.resource, b.id+b.resource) })
	if len(candidates) > 0 {
		c := candidates[random.IntN(len(candidates))]
		m.start(c.resource, c.id)
	}
}

// start starts a pod if the daemon allocates the device to it. The daemon may refuse, because the kubelet's list can be
// out of date.
func (m *model) start(resource, id string) {
	m.pods++
	pod := fmt.Sprint("pod", m.pods)
	answer, err := m.d.kubelet.Allocate(m.d.t.Context(), resource, id)
	if err != nil {
		return
	}
	m.d.pods.Hold("default", pod, "main", resource, id)
	h := grant{pod: pod, resource: resource, kind: resource}
	if m.d.cfg.Mode == offer.Single {
		h.kind = m.slot(id).AFUID
	}
	for _, node := range answer.Devices {
		h.given = append(h.given, filepath.Base(node.HostPath))
	}
	m.held[id] = h
}

// slot returns a port's card, plugged in or not, or a zero card if the device isn't a port.
func (m *model) slot(id string) (found simnode.Card) {
	address, _, _ := strings.Cut("0000:"+id, "-p")
	if i := slices.IndexFunc(m.slots, func(c simnode.Card) bool { return c.Address == address }); i >= 0 {
		found = m.slots[i]
	}
	return found
}

func (m *model) release(id string) {
	m.d.pods.Release("default", m.held[id].pod)
	owed := m.held[id].owed
	delete(m.held, id)
	if len(owed) > 0 { // before another pod gets the device, because then its nodes wouldn't be known
		m.settle("a pod has ended that was owed nodes")
	}
}

func (m *model) releaseAll() {
	for id := range m.held {
		m.release(id)
	}
}

// settle waits until the kubelet has the lists that it should receive, and the daemon has read all devices' nodes and
// AFUs. If a stream was cut during Allocate, the daemon may have allocated a device that the kubelet hasn't. Such a
// device counts as in use for as long as an admission may take.
func (m *model) settle(when string) {
	m.d.t.Helper()
	m.d.pods.Behave(simkubelet.PodBehaviour{})
	ctx, cancel := context.WithTimeout(m.d.t.Context(), 2*patient.Limit) // an allocation may have to expire
	defer cancel()
	want, got := m.want(), resourceLists{}
	_, err := m.d.kubelet.AwaitLists(ctx, func(lists map[string]simkubelet.List) bool {
		got = resourceLists{}
		for resource, list := range lists {
			if len(list.Devices) > 0 { // a resource without devices is retired later
				got[resource] = told(list)
			}
		}
		return maps.EqualFunc(got, want, maps.Equal)
	})
	if err != nil {
		m.d.t.Fatalf("%s: %v; lists (-want +got):\n%s", when, err, cmp.Diff(want, got))
	}
	m.awaitSnapshot(when, func(s inventory.Snapshot) error {
		for _, d := range m.devices() {
			found := s.Device(d.id)
			if found == nil || !slices.Equal(slices.Sorted(slices.Values(found.Nodes)), slices.Sorted(slices.Values(d.nodes))) {
				return fmt.Errorf("found device %s as %+v, want the nodes %v", d.id, found, d.nodes)
			}
			// The lists don't show this if the device is held under another resource.
			if d.afu != "" && found.AFUID != d.afu {
				return fmt.Errorf("found device %s as %+v, want the AFU %s", d.id, found, d.afu)
			}
		}
		return nil
	})
	for _, states := range m.ports {
		for port := range states {
			states[port].seen = true
		}
	}
}

// awaitGone waits until the daemon has removed a card. The lists may not show this, because a held device that was
// already unhealthy stays unhealthy.
func (m *model) awaitGone(when, address string) {
	m.d.t.Helper()
	m.awaitSnapshot(when, func(s inventory.Snapshot) error {
		for _, d := range s.Devices {
			removed := slices.Contains(d.Reasons, inventory.ReasonRemoved) || slices.Contains(d.Reasons, inventory.ReasonRemovedInUse)
			if d.PCIAddress == address && (!removed || len(d.Nodes) > 0) {
				return fmt.Errorf("found device %s as %+v, want it gone", d.ID, d)
			}
		}
		return nil
	})
}

// awaitSnapshot waits until the latest snapshot passes the check.
func (m *model) awaitSnapshot(when string, check func(inventory.Snapshot) error) {
	m.d.t.Helper()
	patient.Await(m.d.t, when, func() error {
		s, _ := m.inventory.Latest()
		return check(s)
	})
}
