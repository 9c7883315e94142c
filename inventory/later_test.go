package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// The device nodes that a container was given when it was restarted are kept for its device, even when the daemon
// starts. They don't make the device healthy again, because its first container still has the previous node.
func TestLaterNodes(t *testing.T) {
	for _, restart := range []bool{false, true} {
		runInBubble(t, fmt.Sprint("restart=", restart), func(t *testing.T) {
			f, d := oneCard(), newFakeKubelet()
			d.give("b.com/fpga", "3b:00.0", []string{"dfl-port.0"}, pod)
			cfg := withKubelet(d)
			later := func() {
				d.set(func() {
					d.held["3b:00.0"] = []inventory.Holding{{As: "b.com/fpga", Holders: []string{pod}, Nodes: []string{"dfl-port.0"}, Later: []string{"dfl-port.1"}}}
				})
			}
			if restart {
				f.pull(cardA)
				later()
				cfg.Record = d.record()
			}
			cfg.Policy.Name = func(*inventory.Device) (string, error) { return "b.com/fpga", nil }
			r := start(t, cfg, f)
			if !restart {
				r.pull(cardA)
				r.after(time.Second)
				r.set(cardA, good(1, 0))
				later()
				r.after(time.Minute)
				r.want("the same card with another node", map[string]string{"3b:00.0": "unhealthy[node-changed]"})
				r.pull(cardA)
			}
			r.after(time.Minute)
			r.set(cardB, good(1, 0))
			r.after(time.Minute)
			r.want("another card with the later node", map[string]string{"3b:00.0": "unhealthy[removed-in-use]", "0001:5e:00.0": "unhealthy[node-in-use]"})
			d.free("3b:00.0")
			r.after(time.Minute)
			r.want("the pod has ended", map[string]string{"0001:5e:00.0": "healthy[]"})
		})
	}
}
