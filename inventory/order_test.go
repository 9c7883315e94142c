package inventory_test

import (
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/compare"
)

// A device's changes are logged in order. The line for the first snapshot comes after the lines for all devices in it.
func TestOrderOfLines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		first, second := good(7, 0), good(7, 0)
		first.Incarnation, second.Incarnation = 1, 2
		f.set(cardA, first)
		d.hold("3b:00.0", pod)
		r := start(t, withKubelet(d), f)
		f.set(cardA, second) // pulled and plugged in between two readings
		r.hint(cardA)
		r.after(10 * time.Second)
		r.pull(cardA)
		r.after(time.Minute)
		d.free("3b:00.0")
		r.after(time.Minute)
		var said []string
		for _, line := range r.logs.All() {
			if name := line.ContextMap()["event"].(string); name != "hint.received" {
				said = append(said, name)
			}
		}
		want := []string{
			"device.added", "device.held", "scan.done", "device.removed", "device.returned", "device.added", "device.health",
			"device.removed", "device.tombstone", "device.freed", "device.released",
		}
		compare.Values(t, "lines", want, said)
	})
}
