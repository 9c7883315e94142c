package inventory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// TestRightsToNodes makes random changes to cards, pods and the daemon. An offered device must never have a node that
// another device's container is allowed to open, and an offered device that is held must still have one of its
// container's nodes. In the end, when there are no pods, all devices must be healthy.
func TestRightsToNodes(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6, 233} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) { playAtRandom(t, rand.New(rand.NewPCG(seed, 1)), false) })
		})
	}
}

// TestRightsToNodesOverModes is like TestRightsToNodes, but also changes the mode and makes cards hang.
func TestRightsToNodesOverModes(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) { playAtRandom(t, rand.New(rand.NewPCG(seed, 2)), true) })
		})
	}
}

func FuzzRightsToNodes(f *testing.F) {
	f.Add(uint64(36), false)
	f.Fuzz(func(t *testing.T, seed uint64, modes bool) {
		bubble(t, func(t *testing.T) { playAtRandom(t, rand.New(rand.NewPCG(seed, 3)), modes) })
	})
}

// randomScenario plays a random scenario and keeps track of which nodes containers are allowed to open.
type randomScenario struct {
	t        *testing.T
	random   *rand.Rand
	scenario *scenario
	steps    []string
	ports    map[string]int // of each card
	plugged  map[string]bool
	modes    bool // the mode changes, and cards hang
	hung     map[string]bool
	rights   map[string][]string // names and numbers of nodes, by the held device's ID
	failing  time.Time           // since when the kubelet hasn't answered; zero: it answers
}

func playAtRandom(t *testing.T, random *rand.Rand, modes bool) {
	a := &randomScenario{
		t: t, random: random, scenario: newScenario(t), modes: modes,
		ports: map[string]int{}, plugged: map[string]bool{}, hung: map[string]bool{}, rights: map[string][]string{},
	}
	t.Cleanup(func() { // releases hanging readings if the scenario failed
		a.scenario.family.mu.Lock()
		defer a.scenario.family.mu.Unlock()
		for _, hang := range a.scenario.family.hangs {
			close(hang)
		}
		clear(a.scenario.family.hangs)
	})
	if mode := []string{"", "single", "af", "region", "regiondevel"}[random.IntN(5)]; mode != "" {
		a.do("config mode %s", mode)
	}
	cards := []string{"3b:00.0", "5f:00.0", "60:00.0"}
	for i, card := range cards {
		if a.ports[card] = 1 + random.IntN(2); i > 0 {
			a.togglePlug("", card)
		}
	}
	a.do("start")
	for range 60 {
		a.step(cards[random.IntN(len(cards))])
		a.check()
	}
	for card, hung := range a.hung {
		if hung {
			a.hang(card)
		}
	}
	a.do("exclude")
	a.do("cordon")
	a.do("holders ok")
	for id := range a.rights {
		a.do("free %s", id)
	}
	a.do("wait 30m")
	snapshot, _ := a.scenario.rig.Latest()
	for _, d := range snapshot.Devices {
		if d.Health != inventory.Healthy {
			a.fatal("at the end: found %s %s %v, want it healthy", d.ID, d.Health, d.Reasons)
		}
	}
}

// do plays one scenario step.
func (a *randomScenario) do(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	a.steps = append(a.steps, line)
	if err := a.scenario.play(line); err != nil {
		a.fatal("%v", err)
	}
}

func (a *randomScenario) fatal(format string, args ...any) {
	a.t.Fatalf("%s; the scenario:\n%s", fmt.Sprintf(format, args...), strings.Join(a.steps, "\n"))
}

func (a *randomScenario) step(card string) {
	r := a.random
	a.do("wait 1ms") // real questions are never asked at the exact moment of a change
	// Holders must not be unknown for longer than the grace period of 5 minutes.
	if !a.failing.IsZero() && time.Since(a.failing) > 3*time.Minute {
		a.answer("ok")
		a.do("wait 11s")
	}
	turns := 14
	if a.modes {
		turns = 18
	}
	switch r.IntN(turns) {
	case 0, 1, 2:
		a.togglePlug([]string{"silently ", "", "", ""}[r.IntN(4)], card)
	case 3:
		a.do("wait %dms", r.IntN(3000))
	case 4:
		a.do("wait %ds", 1+r.IntN(40))
	case 5, 6, 7:
		a.startPod()
	case 8, 9:
		for id := range a.rights {
			delete(a.rights, id)
			a.do("free %s", id)
			break
		}
	case 10:
		a.do("restart")
		if !a.failing.IsZero() {
			a.failing = time.Now() // the grace period starts over
		}
	case 11:
		a.answer([]string{"ok", "ok", fmt.Sprintf("slow %dms", r.IntN(1900)), "fail connection refused"}[r.IntN(4)])
	case 12:
		if a.plugged[card] && !a.hung[card] {
			a.do("unbind %s p0", card)
			a.check()
			a.do("wait %dms", r.IntN(2000))
			a.check()
			a.do("bind %s p0", card)
		}
	case 13:
		a.do("%s %s", []string{"exclude", "cordon"}[r.IntN(2)], []string{card, ""}[r.IntN(2)])
	case 14, 15, 16:
		if a.scenario.mode != "" {
			a.do("mode %s", []string{"single", "af", "region", "regiondevel"}[r.IntN(4)])
			a.startPod()
			a.check()
			a.do("wait %dms", r.IntN(400))
		}
	case 17:
		a.hang(card)
	}
}

// hang makes a card hang, or respond again if it is hanging.
func (a *randomScenario) hang(card string) {
	if !a.plugged[card] {
		a.togglePlug("", card)
	}
	a.do("%s %s", map[bool]string{false: "hang", true: "answer"}[a.hung[card]], card)
	a.hung[card] = !a.hung[card]
}

func (a *randomScenario) togglePlug(how, card string) {
	if a.plugged[card] {
		a.do("%sunplug %s", how, card)
	} else {
		a.do("%splug %s ports=%d", how, card, a.ports[card])
	}
	a.plugged[card] = !a.plugged[card]
}

func (a *randomScenario) answer(how string) {
	a.do("holders %s", how)
	switch fails := strings.HasPrefix(how, "fail"); {
	case !fails:
		a.failing = time.Time{}
	case a.failing.IsZero():
		a.failing = time.Now()
	}
}

// startPod gives an offered device to a pod.
func (a *randomScenario) startPod() {
	snapshot, _ := a.scenario.rig.Latest()
	free := slices.DeleteFunc(slices.Clone(snapshot.Devices), func(d *inventory.Device) bool {
		return a.rights[d.ID] != nil || d.Health == inventory.Unhealthy || a.scenario.mode != "" && d.OfferedAs == ""
	})
	if len(free) == 0 {
		return
	}
	d := free[a.random.IntN(len(free))]
	a.rights[d.ID] = slices.Concat(d.Nodes, d.NodeNumbers)
	a.do("hold %s default/pod%d/main", d.ID, a.random.IntN(1000))
}

// check compares the nodes of every offered device with what containers are allowed to open.
func (a *randomScenario) check() {
	snapshot, _ := a.scenario.rig.Latest()
	for _, d := range snapshot.Devices {
		if d.Health == inventory.Unhealthy {
			continue
		}
		now := slices.Concat(d.Nodes, d.NodeNumbers)
		has := func(node string) bool { return slices.Contains(now, node) }
		for id, nodes := range a.rights {
			switch open := slices.ContainsFunc(nodes, has); {
			case id == d.ID && !open:
				a.fatal("%s is %s: found nodes %v, want one of its container's %v", d.ID, d.Health, now, nodes)
			case id != d.ID && open:
				a.fatal("%s is %s: found nodes %v, want none of %v of the container of %s", d.ID, d.Health, now, nodes, id)
			}
		}
	}
}
