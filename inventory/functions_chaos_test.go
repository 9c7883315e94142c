package inventory_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"b-com.com/accelerator-device-plugin/inventory"
)

// TestFunctionsInAnyOrder makes random changes to functions on vfio-pci. It binds, unbinds and pulls groups of several
// functions, virtual functions and single ones, with and without hints, while pods start and end, processes have groups
// open, and the daemon restarts. A device must never be offered while another device's pod has its device node, and no
// two offered devices may have the same node.
func TestFunctionsInAnyOrder(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				c := &chaos{
					scenario: newScenario(t), random: rand.New(rand.NewPCG(seed, 21)),
					pods: map[string][]string{}, used: map[string]bool{},
				}
				c.step("plug 5f:00.0 driver=pci-pf-stub")
				for _, address := range []string{"5e:00.0", "5e:00.1"} {
					c.step("plug " + address + " driver=vfio-pci group=slot")
				}
				c.step("plug 6e:00.0 driver=vfio-pci")
				c.step("start")
				for range 150 {
					c.change()
					if err := c.check(); err != nil {
						t.Fatalf("%v, after\n\t%s", err, strings.Join(c.history, "\n\t"))
					}
				}
				for _, id := range slices.Sorted(maps.Keys(c.pods)) {
					c.end(id)
				}
				c.step("wait 15m")
				snapshot, _ := c.rig.Latest()
				for _, d := range snapshot.Devices {
					if d.Health != inventory.Healthy && !strings.HasPrefix(d.Reasons[0], "group-not-viable") {
						t.Errorf("%s: found %v at the end, want it healthy, after\n\t%s", d.ID, d.Reasons, strings.Join(c.history, "\n\t"))
					}
				}
			})
		})
	}
}

// chaos plays random scenario steps.
type chaos struct {
	*scenario
	random  *rand.Rand
	pods    map[string][]string // nodes that a device's pod was given
	used    map[string]bool     // functions through which a pod has opened a group
	history []string
}

// step plays a step and reports whether it was possible. An impossible step, such as plugging in a function twice,
// isn't a failure.
func (c *chaos) step(line string) bool {
	err := c.play(line)
	if errors.As(err, new(mismatch)) {
		c.t.Errorf("%s: %v", line, err)
	}
	if err == nil {
		c.history = append(c.history, line)
	} else {
		synctest.Wait()
	}
	return err == nil
}

func (c *chaos) pick(words ...string) string { return words[c.random.IntN(len(words))] }

// change plays a random step.
func (c *chaos) change() {
	group := c.pick("5e:00.0", "5e:00.1", "5e:00.2")
	address, plug := group, " group=slot"
	switch c.random.IntN(5) {
	case 0:
		address, plug = c.pick("5f:00.1", "5f:00.2"), " vf-of=5f:00.0"
	case 1:
		address, plug = c.pick("6e:00.0", "7e:00.0"), ""
	}
	silently := c.pick("", "silently ")
	switch c.random.IntN(10) {
	case 0, 1:
		c.step(silently + "plug " + address + " driver=" + c.pick("vfio-pci", "vfio-pci", "none", "dfl-pci") + plug)
	case 2:
		c.step(silently + "unplug " + address)
	case 3, 4:
		c.step(silently + "driver " + address + " " + c.pick("vfio-pci", "vfio-pci", "none", "pci-stub", "vfio-pci", "dfl-pci"))
	case 5, 6:
		c.start()
		c.start()
	case 7:
		if len(c.pods) > 0 {
			c.end(c.pick(slices.Sorted(maps.Keys(c.pods))...))
		}
	case 8:
		c.step("wait " + c.pick("1ms", "300ms", "1s", "5s", "10s", "1m"))
	case 9:
		if c.random.IntN(4) == 0 {
			c.step("restart")
		}
	}
}

// start starts a pod with a device that is offered and free.
func (c *chaos) start() {
	snapshot, _ := c.rig.Latest()
	for _, d := range snapshot.Devices {
		if d.Health == inventory.Unhealthy || c.pods[d.ID] != nil {
			continue
		}
		c.pods[d.ID] = slices.Concat(d.Nodes, d.NodeNumbers)
		c.step("hold " + d.ID + " default/" + d.ID + "/main")
		if c.random.IntN(2) == 0 && c.step("use "+d.ID) {
			c.used[d.ID] = true
		}
		return
	}
}

// end ends the pod that has a device.
func (c *chaos) end(id string) {
	delete(c.pods, id)
	if c.used[id] {
		c.step("end-use " + id)
		delete(c.used, id)
	}
	c.step("free " + id)
}

// check returns an error if a container could be given another container's device node.
func (c *chaos) check() error {
	snapshot, _ := c.rig.Latest()
	owner := map[string]string{}
	for _, d := range snapshot.Devices {
		if d.Health == inventory.Unhealthy {
			continue
		}
		for _, node := range slices.Concat(d.Nodes, d.NodeNumbers) {
			if other := owner[node]; other != "" {
				return fmt.Errorf("%s and %s have node %s", d.ID, other, node)
			}
			owner[node] = d.ID
			for id, nodes := range c.pods {
				if id != d.ID && slices.Contains(nodes, node) {
					return fmt.Errorf("%s is offered, with node %s of the pod of %s", d.ID, node, id)
				}
			}
		}
	}
	return nil
}
