package deviceplugin_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// functionResource is the resource of functions on vfio-pci.
const functionResource = "example.com/function"

var functionRule = offer.Rule{Resource: functionResource, Match: offer.Match{Family: "vfio"}}

// functionCard is a card with functions in the model.
type functionCard struct {
	simnode.Board
	address   string
	functions []*functionState // of the plugged card; nil: not plugged
}

// functionState is the state of a function of a plugged card.
type functionState struct {
	simnode.Card
	driver         string
	dead, nodeless bool // nodeless: the node of its group was removed by hand
}

// newBoards returns the cards with functions, with their drivers when they are plugged.
func newBoards(t interface{ Fatal(...any) }) (all []*functionCard) {
	for i, name := range []string{"n6001-vfs", "one-group", "n6001-vfs"} {
		b, err := simnode.BoardNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &functionCard{Board: b, address: fmt.Sprintf("0000:%02x:00.0", 0x50+i)})
	}
	return all
}

// groups returns the devices of a card: each IOMMU group with a function on vfio-pci.
func (m *model) groups(b *functionCard) (all []modelDevice) {
	members := map[string][]*functionState{} // by node
	for _, f := range b.functions {
		node, _ := m.d.node.GroupNode(f.Address)
		members[node] = append(members[node], f)
	}
	for _, node := range slices.Sorted(maps.Keys(members)) {
		fs := members[node]
		i := slices.IndexFunc(fs, func(f *functionState) bool { return f.driver == simnode.VFIODriver })
		if i < 0 {
			continue
		}
		d := modelDevice{id: strings.TrimPrefix(fs[i].Address, "0000:"), resource: functionResource, kind: fs[i].PCIID, good: true, nodes: []string{node}}
		for _, f := range fs {
			physical := f
			if f.PhysFn != "" {
				physical = b.functions[0]
			}
			if f.driver == simnode.VFIODriver && (physical.dead || f.nodeless) || !slices.Contains([]string{"", simnode.VFIODriver, "pci-stub"}, f.driver) {
				d.good = false
			}
		}
		number, err := os.ReadFile(filepath.Join(m.d.node.Sys, "class", node, "dev"))
		m.d.do(err)
		d.numbers = []string{strings.TrimSpace(string(number))}
		d.numbered = slices.Concat(d.nodes, d.numbers)
		all = append(all, d)
	}
	return all
}

// turnFunction changes one card with functions at random.
func (m *model) turnFunction(random *rand.Rand) {
	b := m.boards[random.IntN(len(m.boards))]
	if b.functions == nil {
		m.plugBoard(b)
		return
	}
	f := b.functions[random.IntN(len(b.functions))]
	switch turn := random.IntN(8); {
	case turn == 0:
		m.unplugBoard(b)
	case turn == 1:
		m.unplugBoard(b)
		m.plugBoard(b)
	case turn == 2 && f.PhysFn == "":
		config := filepath.Join(m.d.node.CardDir(f.Address), "config")
		if f.dead = !f.dead; f.dead {
			m.d.do(m.d.node.SetFile(config, "\xff\xff\xff\xff"))
		} else {
			m.d.do(m.d.node.SetFile(config, "\x86\x80\xce\xbc"))
		}
	case turn == 3 && m.ticks && f.driver == simnode.VFIODriver:
		m.turnNode(b, f)
	default:
		drivers := []string{simnode.VFIODriver, simnode.VFIODriver, "", "pci-stub", "dfl-pci"}
		m.setDriver(b, f, drivers[random.IntN(len(drivers))])
	}
}

// turnNode removes the node of a group by hand, or makes it again. Nodes of vfio have no watch, so only the
// ticks find this.
func (m *model) turnNode(b *functionCard, f *functionState) {
	name, _ := m.d.node.GroupNode(f.Address)
	path := filepath.Join(m.d.node.Dev, name)
	missing := f.nodeless
	if missing {
		m.d.do(os.WriteFile(path, nil, 0o600))
	} else {
		m.d.do(os.Remove(path))
	}
	for _, o := range b.functions {
		if other, _ := m.d.node.GroupNode(o.Address); other == name {
			o.nodeless = !missing
		}
	}
}

// setDriver binds a function to a driver. The last function of a group that leaves vfio-pci takes the node of
// the group along, and the first one makes it.
func (m *model) setDriver(b *functionCard, f *functionState, driver string) {
	m.d.t.Helper()
	m.leave(b)
	m.d.do(m.d.node.SetDriver(f.Address, driver))
	f.driver = driver
	name, _ := m.d.node.GroupNode(f.Address)
	if _, err := os.Lstat(filepath.Join(m.d.node.Dev, name)); err == nil {
		for _, o := range b.functions {
			if other, _ := m.d.node.GroupNode(o.Address); other == name {
				o.nodeless = false
			}
		}
	}
}

// leave lets the daemon read the nodes of a card's held devices whose nodes differ from the given ones, before the
// card may lose its nodes, as in unplug.
func (m *model) leave(b *functionCard) {
	m.d.t.Helper()
	for _, d := range m.groups(b) {
		if h, held := m.held[d.id]; held && !among(d.numbered, h.given) {
			m.settle("before a function leaves whose nodes are others than were given")
			m.owe(d.id, d.numbered...)
		}
	}
}

func (m *model) plugBoard(b *functionCard) {
	cards, err := b.At(b.address)
	m.d.do(err)
	m.d.do(m.d.node.PlugBoard(b.Board, b.address))
	for _, c := range cards {
		b.functions = append(b.functions, &functionState{Card: c, driver: c.Driver})
	}
}

func (m *model) unplugBoard(b *functionCard) {
	m.d.t.Helper()
	m.leave(b)
	m.d.do(m.d.node.Unplug(b.address))
	b.functions = nil
}

// swapBoard replaces a card with functions by one of another model, as swap.
func (m *model) swapBoard(random *rand.Rand, when string) {
	m.d.t.Helper()
	b := m.boards[random.IntN(len(m.boards))]
	if b.functions == nil {
		return
	}
	m.settle(when + ", before")
	was := b.functions
	m.unplugBoard(b)
	for _, f := range was {
		m.awaitGone(when+", out", f.Address)
	}
	m.settle(when + ", out")
	b.Card.PCIID = otherOf(b.Card.PCIID, "", "8086:bcce:8086:1770")
	b.Others = slices.Clone(b.Others)
	for i := range b.Others {
		b.Others[i].PCIID = otherOf(b.Others[i].PCIID, "", "8086:bccf:8086:1770")
	}
	m.plugBoard(b)
	m.settle(when + ", in")
}

// startFunction is start for a device whose nodes have numbers, of functions. No pod may get a group that another one may have open.
func (m *model) startFunction(resource, id, pod string) {
	m.d.t.Helper()
	m.settle("before a pod gets a group") // the daemon records the numbers of nodes that it has read
	all := m.devices()
	i := slices.IndexFunc(all, func(d modelDevice) bool { return d.id == id })
	if i < 0 {
		return
	}
	d := all[i]
	answer, err := m.d.kubelet.Allocate(m.d.t.Context(), resource, id)
	if err != nil {
		return
	}
	m.d.pods.Hold("default", pod, "main", resource, id)
	var nodes []string
	for _, n := range answer.Devices {
		if name := strings.TrimPrefix(n.HostPath, "/dev/"); name != "vfio/vfio" {
			nodes = append(nodes, name)
		}
	}
	if !slices.Equal(nodes, d.nodes) {
		m.d.t.Errorf("pod %s got the nodes %v of device %s, want %v", pod, nodes, id, d.nodes)
	}
	given := m.givenNodes()
	for _, node := range d.numbered {
		if len(given[node]) > 0 {
			m.d.t.Errorf("pod %s got the node %s, which is that of %v", pod, node, given[node])
		}
	}
	if !d.good {
		m.d.t.Errorf("pod %s got the device %s, which is not good: %+v", pod, id, d)
	}
	m.held[id] = grant{pod: pod, resource: resource, kind: d.kind, given: d.numbered}
}
