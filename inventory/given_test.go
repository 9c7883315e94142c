package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// The start and the end of each holding are logged once, with the holders.
func TestHoldersNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := twoCards(), newFakeKubelet()
		d.hold("0001:5e:00.0", "default/old/main")
		cfg := withKubelet(d)
		given := make(chan struct{}, 1)
		cfg.Given = given
		r := start(t, cfg, f)
		step := func(name string, wait time.Duration, want ...string) {
			t.Helper()
			r.after(wait)
			var got []string
			for _, l := range r.logs.TakeAll() {
				m := l.ContextMap()
				if m["holders"] == nil {
					continue
				}
				text := fmt.Sprint(m["event"], " ", m["device"], " ", m["holders"])
				for _, key := range []string{"reason", "lasted_ms", "new"} {
					if m[key] != nil && (key != "lasted_ms" || m["event"] == "device.freed") {
						text += fmt.Sprint(" ", key, "=", m[key])
					}
				}
				got = append(got, text)
			}
			compare.Values(t, name, want, got)
		}
		step("held before the daemon started", 0, "device.held 0001:5e:00.0 [default/old/main] reason=before the daemon started")
		d.hold("3b:00.0")
		given <- struct{}{}
		step("given, the answer does not have the pod yet", 300*time.Millisecond)
		d.hold("3b:00.0", pod)
		step("a second later the answer has the pod", time.Second, "device.held 3b:00.0 [default/job/main]")
		d.fail("restarts")
		d.free("3b:00.0")
		step("does not answer", time.Hour)
		d.fail("")
		d.hold("3b:00.0", pod)
		step("answers again", time.Minute)

		bad := good(1, 0)
		bad.Conditions = []inventory.Condition{{Reason: "port-ap6", Health: inventory.Unhealthy}}
		r.set(cardB, bad)
		step("a card breaks", 0, "device.health 0001:5e:00.0 [default/old/main] new=unhealthy")
		r.pull(cardB)
		step("and is pulled", 0, "device.removed 0001:5e:00.0 [default/old/main]", "device.tombstone 0001:5e:00.0 [default/old/main]")

		d.hold("3b:00.0", "default/next/main")
		given <- struct{}{}
		step("another pod", 250*time.Millisecond,
			"device.freed 3b:00.0 [default/job/main] lasted_ms=3.6603e+06", "device.held 3b:00.0 [default/next/main]")
		d.free("3b:00.0")
		step("no pod", 10*time.Second, "device.freed 3b:00.0 [default/next/main] lasted_ms=10000")
	})
}

// A new pod with the same name, as in a StatefulSet, is a different holder because it has a different UID.
func TestPodOfTheSameName(t *testing.T) {
	withKubeletAndCard(t, func(t *testing.T, r *rig, _ *fakeFamily, d *fakeKubelet) {
		for _, step := range []struct {
			containers []string
			want       []string
		}{
			{[]string{"uid-1/main"}, []string{"device.held [default/job/main] [uid-1]"}},
			{nil, nil}, // the checkpoint can't be read
			{[]string{"uid-1/main"}, nil},
			{[]string{"uid-1/main", "uid-2/main"}, nil}, // the kubelet hasn't removed the first pod's entry yet
			{[]string{"uid-2/main"}, []string{"device.freed [default/job/main] [uid-1]", "device.held [default/job/main] [uid-2]"}},
			{[]string{"uid-3/init"}, nil}, // an init container had the device
		} {
			d.hold("3b:00.0", pod)
			d.set(func() { d.held["3b:00.0"][0].Containers = step.containers })
			r.after(time.Minute)
			var got []string
			for _, l := range r.logs.TakeAll() {
				if m := l.ContextMap(); m["holders"] != nil {
					got = append(got, fmt.Sprint(m["event"], " ", m["holders"], " ", m["pod_uids"]))
				}
			}
			compare.Values(t, fmt.Sprintf("checkpoint %q", step.containers), step.want, got)
		}
	})
}

// Log lines stay short even if an answer contains many containers. Each holder is logged once.
func TestTooManyHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := oneCard(), newFakeKubelet()
		var all []string
		for i := range 5_000 {
			all = append(all, fmt.Sprintf("default/pod/%05d", i))
		}
		d.hold("3b:00.0", all...)
		r := start(t, withKubelet(d), f)
		r.after(time.Minute)
		d.hold("3b:00.0", all[1:]...)
		r.after(time.Minute)
		d.hold("3b:00.0", append(all[1:], all[1:]...)...) // each is listed twice
		r.after(time.Minute)
		var got []string
		for _, l := range r.logs.TakeAll() {
			if m := l.ContextMap(); m["holders"] != nil {
				names := m["holders"].([]any)
				got = append(got, fmt.Sprint(m["event"], " ", names[0], " ", len(names), " ", names[len(names)-1]))
			}
		}
		want := []string{"device.held default/pod/00000 9 and 4992 more", "device.freed default/pod/00000 1 default/pod/00000"}
		compare.Values(t, "given devices", want, got)
	})
}

// While no device is held, the inventory asks about holders at each resync. While a device is held, it asks every
// HoldersInterval.
func TestQuestionsWhileHeld(t *testing.T) {
	for _, test := range []struct {
		name string
		held bool
		want int
	}{{"idle", false, 10}, {"held", true, 60}} {
		runInBubble(t, test.name, func(t *testing.T) {
			f, d := oneCard(), newFakeKubelet()
			if test.held {
				d.hold("3b:00.0", pod)
			}
			begin := time.Now()
			r := start(t, withKubelet(d), f)
			r.after(10*time.Minute + time.Second)
			compare.Equal(t, "questions in 10 minutes", test.want, len(d.questions(begin))-1)
		})
	}
}

// Holdings can be called while the next answer is being processed, which go test -race checks.
func TestHoldingsWhileAnswersArrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := oneCard(), newFakeKubelet()
		d.hold("3b:00.0", pod)
		r := start(t, withKubelet(d), f)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for range 3 {
			<-tick.C // when the next answer arrives
			compare.Equal(t, fmt.Sprintf("holdings in %v", r.Holdings()), 1, len(r.Holdings().Of))
		}
	})
}
