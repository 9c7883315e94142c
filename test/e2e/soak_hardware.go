package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// slots lists the card slots.
var slots = []string{first, second, third, "0000:04:00.0"}

// soakBreaks lists ways to break a port. All of them can be healed without lasting effects.
var soakBreaks = []string{"port-ap6", "power-throttled", "fme-fatal", "driver-unbound", "node-missing"}

// bench is the simulated hardware's state.
type bench struct {
	mu    sync.Mutex
	cards map[string]*card // by address; includes cards that have been pulled

	excluded []string // used only by the hardware lane
}

type card struct {
	plugged bool
	ports   []port
}

// port is a card's port. The embedded Port is what the checker knows about it.
type port struct {
	soak.Port
	device  string  // the device's name in the simulate command
	plugged float64 // when it was plugged in

	unsureCordon, unsureExclusion bool // whether a command that changes the state is running or has failed
}

// fit reports whether the port can be offered.
func (p port) fit() bool {
	return p.Node != "" && p.Broken == "" && !p.Cordoned && !p.Excluded && !p.Unsure
}

// all returns the ports of all cards that are plugged in.
func (b *bench) all() []port {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []port
	for _, address := range slices.Sorted(maps.Keys(b.cards)) {
		if b.cards[address].plugged {
			found = append(found, b.cards[address].ports...)
		}
	}
	return found
}

// choose returns the address of a random slot whose card satisfies want, or "" if there is none. If plugged is true,
// the card must be plugged in; otherwise, it must not be.
func (b *bench) choose(random *rand.Rand, plugged bool, want func(*card) bool) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for _, address := range slots {
		c := b.cards[address]
		if c == nil {
			c = &card{}
		}
		if c.plugged == plugged && (want == nil || want(c)) {
			found = append(found, address)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return found[random.IntN(len(found))]
}

// ofCard returns a function that chooses a card for an operation.
func ofCard(plugged bool, want func(*card) bool, args func(*rand.Rand) []string) func(*soaking, *rand.Rand) (string, []string, bool) {
	return func(s *soaking, random *rand.Rand) (string, []string, bool) {
		address := s.bench.choose(random, plugged, want)
		var more []string
		if args != nil {
			more = args(random)
		}
		return address, more, address != ""
	}
}

func anyOf(want func(port) bool) func(*card) bool {
	return func(c *card) bool { return slices.ContainsFunc(c.ports, want) }
}

// plain reports whether a card is neither cordoned nor excluded. Only plain cards are pulled, because a cordon or an
// exclusion would also affect the next card in the slot.
func plain(c *card) bool {
	return !slices.ContainsFunc(c.ports, func(p port) bool { return p.Cordoned || p.Excluded || p.Unsure })
}

// single returns a condition that is met by cards with a single port for which want is true. Such a card is the same
// device in every mode.
func single(want func(port) bool) func(*card) bool {
	return func(c *card) bool { return len(c.ports) == 1 && want(c.ports[0]) }
}

var hardwareOperations = map[string]operation{
	"plug": {weight: 6, choose: ofCard(false, nil, func(random *rand.Rand) []string {
		return []string{strconv.Itoa(1 + random.IntN(2)), []string{afuID, otherAFU}[random.IntN(2)]}
	}), run: func(a act, address string, args []string) { a.plugIn(address, must(strconv.Atoi(args[0])), args[1]) }},
	"pull": {weight: 3, choose: ofCard(true, plain, nil), run: func(a act, address string, _ []string) { a.pullOut(address) }},
	// The card is pulled and plugged in again. It gets new device numbers if another card has taken its old ones.
	"renumber": {weight: 1, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		one, other := s.bench.choose(random, true, plain), s.bench.choose(random, true, plain)
		return one, []string{other}, one != other
	}, run: func(a act, address string, args []string) {
		ports := a.bench.ports(address)
		others := a.bench.ports(args[0])
		a.pullOut(address)
		a.pullOut(args[0])
		a.plugIn(args[0], len(others), others[0].AFU)
		a.plugIn(address, len(ports), ports[0].AFU)
	}},
	"break": {weight: 4, choose: ofCard(true, anyOf(port.fit), func(random *rand.Rand) []string {
		return []string{soakBreaks[random.IntN(len(soakBreaks))]}
	}), run: func(a act, address string, args []string) {
		a.change(address, func(n *simnode.Node, c *card) error {
			i := slices.IndexFunc(c.ports, port.fit)
			if i < 0 {
				return errors.New("no port is fit now")
			}
			for j := range c.ports {
				if j == i || args[0] == "fme-fatal" {
					c.ports[j].Broken = args[0]
				}
			}
			return n.Break(c.ports[i].device, args[0])
		})
	}},
	"heal": {weight: 4, choose: ofCard(true, anyOf(func(p port) bool { return p.Broken != "" }), nil), run: func(a act, address string, _ []string) {
		a.change(address, func(n *simnode.Node, c *card) error { return c.heal(n) })
	}},
	"reprogram": {weight: 1, choose: ofCard(true, anyOf(port.fit), nil), run: func(a act, address string, _ []string) {
		a.change(address, func(n *simnode.Node, c *card) error {
			i := slices.IndexFunc(c.ports, port.fit)
			if i < 0 {
				return errors.New("no port is fit now")
			}
			c.ports[i].AFU = map[string]string{afuID: otherAFU, otherAFU: afuID}[c.ports[i].AFU]
			return n.Reprogram(address, i, c.ports[i].AFU)
		})
	}},
	"cordon":   {weight: 1, choose: ofCard(true, single(port.fit), nil), run: func(a act, address string, _ []string) { a.cordon(address, true) }},
	"uncordon": {weight: 2, choose: ofCard(true, single(func(p port) bool { return p.Cordoned || p.unsureCordon }), nil), run: func(a act, address string, _ []string) { a.cordon(address, false) }},
	"exclude":  {weight: 1, choose: ofCard(true, single(port.fit), nil), run: func(a act, address string, _ []string) { a.exclude(address, true) }},
	// Another plugin allocates the card to a pod.
	"other-uses": {weight: 6, choose: chooseOther, run: func(a act, address string, args []string) { a.useByOther(address, args) }},
	"include":    {weight: 2, choose: ofCard(true, single(func(p port) bool { return p.Excluded || p.unsureExclusion }), nil), run: func(a act, address string, _ []string) { a.exclude(address, false) }},
}

// heal heals all of a card's ports.
func (c *card) heal(n *simnode.Node) (err error) {
	for i := range c.ports {
		if c.ports[i].Broken != "" {
			err = errors.Join(err, n.Heal(c.ports[i].device))
			c.ports[i].Broken = ""
		}
	}
	return err
}

// ports returns a card's ports.
func (b *bench) ports(address string) []port {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.cards[address]; c != nil {
		return slices.Clone(c.ports)
	}
	return nil
}

// change changes the simulated node and a card, and writes a line for each of the card's ports that has changed.
func (a act) change(address string, change func(*simnode.Node, *card) error) {
	a.bench.mu.Lock()
	defer a.bench.mu.Unlock()
	c := a.bench.cards[address]
	if c == nil {
		c = &card{}
		a.bench.cards[address] = c
	}
	before := slices.Clone(c.ports)
	since := a.at(time.Now())
	var nodes map[string]string
	a.hardware(func(n *simnode.Node) error {
		err := change(n, c)
		nodes = nodesOf(n)
		return err
	})
	for i := range c.ports {
		p := &c.ports[i]
		p.Since, p.Node = since, nodes[p.device]
		if i >= len(before) || before[i].Port.ID != p.ID || withoutSince(before[i].Port) != withoutSince(p.Port) {
			a.write(soak.Line{Port: &p.Port})
		}
	}
}

func withoutSince(p soak.Port) soak.Port {
	p.Since = 0
	return p
}

// nodesOf maps devices' names to the numbers of their device nodes.
func nodesOf(n *simnode.Node) map[string]string {
	nodes := map[string]string{}
	for _, d := range n.Devices() {
		if _, number, ok := strings.Cut(d.Node, "dfl-port."); ok {
			nodes[d.ID] = "120:" + number
		}
	}
	return nodes
}

func (a act) plugIn(address string, ports int, afu string) {
	a.change(address, func(n *simnode.Node, c *card) error {
		c.plugged, c.ports = true, nil
		for i := range ports {
			device := strings.TrimPrefix(address, "0000:")
			if i > 0 {
				device += fmt.Sprintf("-p%d", i)
			}
			c.ports = append(c.ports, port{Port: soak.Port{ID: deviceName(device), AFU: afu}, device: device, plugged: a.at(time.Now())})
		}
		return n.Plug(simnode.Card{Address: address, Ports: ports, AFUID: afu, InterfaceID: interfaceID, NUMANode: -1})
	})
}

func (a act) pullOut(address string) {
	a.change(address, func(n *simnode.Node, c *card) error {
		if !c.plugged {
			return errors.New("it is pulled already")
		}
		c.plugged = false
		return n.Unplug(address)
	})
}

// mark updates the state of a single-port card's port, and writes a line for it.
func (a act) mark(address string, mark func(*port)) {
	a.bench.mu.Lock()
	defer a.bench.mu.Unlock()
	p := &a.bench.cards[address].ports[0]
	p.Since = a.at(time.Now())
	mark(p)
	p.Unsure = p.unsureCordon || p.unsureExclusion
	a.write(soak.Line{Port: &p.Port})
}

// notCordoned matches uncordon's error for a device without a cordon, whether or not other devices have one.
var notCordoned = regexp.MustCompile("is not cordoned|want one that is cordoned")

// cordon cordons a card's only port, or ends the cordon. A command that failed may still have taken effect, so the port
// stays unsure until a command succeeds.
func (a act) cordon(address string, cordoned bool) {
	id := a.bench.ports(address)[0].device
	args := []string{"uncordon", id, "--by", "soak"}
	if cordoned {
		args = []string{"cordon", id, "--by", "soak", "--why", "soak", "--absent"}
	}
	a.mark(address, func(p *port) { p.unsureCordon = true })
	out, err := a.inDaemon(args...)
	if already := !cordoned && notCordoned.MatchString(fmt.Sprint(out, err)); err != nil && !already {
		a.failf("%w: %s", err, out)
	}
	a.mark(address, func(p *port) { p.unsureCordon, p.Cordoned = false, cordoned })
}

// exclude excludes a card's only port in the node's overrides, or ends the exclusion.
func (a act) exclude(address string, excluded bool) {
	id := a.bench.ports(address)[0].device
	a.mark(address, func(p *port) { p.unsureExclusion = true })
	a.bench.excluded = slices.DeleteFunc(a.bench.excluded, func(other string) bool { return other == id })
	if excluded {
		a.bench.excluded = append(a.bench.excluded, id)
	}
	a.patchOverrides("nodes: {" + cluster.NodeName + ": {exclude: [" + strings.Join(a.bench.excluded, ", ") + "]}}")
	a.syncConfigMaps()
	await(a.scene, "excluded", func() (bool, error) { return a.settled(id, "excluded", excluded), nil }, true)
	a.mark(address, func(p *port) { p.unsureExclusion, p.Excluded = false, excluded })
}

// settled reports whether the daemon lists a device with the reason or, if want is false, without it.
func (a act) settled(id, reason string, want bool) bool {
	rows, err := a.rows()
	for _, row := range rows {
		if row.ID == id {
			return slices.Contains(row.Reasons, reason) == want
		}
	}
	return err == nil && !want
}

// shownDevice is a device as the daemon shows it.
type shownDevice struct {
	ID, Resource, Health string
	Reasons              []string
}

// rows returns the devices as the daemon shows them.
func (a act) rows() ([]shownDevice, error) {
	text, err := a.inDaemon("devices", "-o", "json")
	if err != nil {
		return nil, err
	}
	var rows []shownDevice
	return rows, json.Unmarshal([]byte(text), &rows)
}

// inDaemon runs a command in a ready pod that serves the current API.
func (a act) inDaemon(args ...string) (string, error) {
	pods, err := a.daemonsOf(a.present().labels())
	if err != nil {
		return "", err
	}
	for _, pod := range pods {
		if !ready(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(a.ctx, 30*time.Second)
		defer cancel()
		return a.Run(ctx, "kubectl", append([]string{"--namespace", namespace, "exec", pod.Name, "--", "accelerator-device-plugin"}, args...)...)
	}
	return "", errors.New("no daemon is ready")
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
