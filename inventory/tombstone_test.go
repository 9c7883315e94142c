package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
)

const pod = "default/job/main"

// version is the newest snapshot's.
func (r *rig) version() uint64 {
	s, _ := r.Latest()
	return s.Version
}

// history collects what is published, from now until the test ends.
func (r *rig) history() func() []string {
	var seen []string
	done := make(chan struct{})
	quit := make(chan struct{})
	_, stale := r.Latest()
	go func() {
		defer close(done)
		for {
			select {
			case <-stale:
				_, stale = r.Latest()
				seen = append(seen, fmt.Sprint(r.states()))
			case <-quit:
				return
			}
		}
	}()
	return func() []string {
		close(quit)
		<-done
		return seen
	}
}

func TestRemovedWhileFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		d.takes = time.Millisecond
		f.set(cardA, good(0, 0))
		r := start(t, withDesk(d), f)
		r.after(time.Second)
		history := r.history()
		f.pull(cardA)
		r.hint(cardA)
		r.want("not known yet", map[string]string{"3b:00.0": "unhealthy[removed]"})
		r.after(time.Millisecond)
		r.want("free", map[string]string{})
		want := []string{"map[3b:00.0:unhealthy[removed]]", "map[]"}
		if diff := cmp.Diff(want, history()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		s, _ := r.Latest()
		if s.Device("3b:00.0") != nil {
			t.Error("still in the snapshot")
		}
	})
}

func TestRemovedInUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		f.set(cardB, good(1, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withDesk(d), f)
		f.pull(cardA)
		r.hint(cardA)
		r.want("pulled", map[string]string{"3b:00.0": "unhealthy[removed-in-use]", "0001:5e:00.0": "healthy[]"})
		s, _ := r.Latest()
		if got := s.Device("3b:00.0"); got.PCIAddress != cardA || got.AFUID != afu1 || len(got.Nodes) != 0 {
			t.Errorf("tombstone = %+v, want its card and AFU, and no node", got)
		}
		lines := r.logs.FilterMessage("removed device is held").All()
		if len(lines) != 1 {
			t.Fatalf("%d lines say that it is held, want 1", len(lines))
		}
		if diff := cmp.Diff([]any{pod}, lines[0].ContextMap()["holders"]); diff != "" {
			t.Errorf("holders in the log (-want +got):\n%s", diff)
		}

		begin := time.Now()
		before := len(d.questions(begin))
		r.after(time.Hour)
		r.want("an hour later", map[string]string{"3b:00.0": "unhealthy[removed-in-use]", "0001:5e:00.0": "healthy[]"})
		if asked := len(d.questions(begin)) - before; asked != 360 {
			t.Errorf("asked %d times in an hour, want every 10 s", asked)
		}
		d.free("3b:00.0")
		r.after(10 * time.Second)
		r.want("free", map[string]string{"0001:5e:00.0": "healthy[]"})
		if n := r.logs.FilterMessage("removed device released").Len(); n != 1 {
			t.Errorf("%d lines say that it was released, want 1", n)
		}

		// For the grace time more, in case that was a slip; then there is nothing to ask.
		begin = time.Now()
		before = len(d.questions(begin))
		r.after(time.Hour)
		if asked := len(d.questions(begin)) - before; asked != 30 {
			t.Errorf("asked %d times without a tombstone, want every 10 s for 5 min", asked)
		}
	})
}

// A question under way when a device leaves cannot know that it was taken a
// moment before.
func TestAnswerOlderThanTheRemoval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		f.set(cardB, good(1, 0))
		r := start(t, withDesk(d), f)
		r.after(time.Second)
		d.set(func() { d.takes = time.Second })
		f.pull(cardB)
		r.hint(cardB) // asks: nobody holds anything
		r.after(500 * time.Millisecond)
		d.hold("3b:00.0", pod)
		f.pull(cardA)
		r.hint(cardA)
		r.after(500 * time.Millisecond) // the answer of before
		r.want("an answer of before", map[string]string{"3b:00.0": "unhealthy[removed]"})
		r.after(time.Second)
		r.want("an answer of now", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
	})
}

// What comes back to the place of a tombstone.
func TestReturn(t *testing.T) {
	changed := func(change func(*inventory.Port)) inventory.Port {
		p := good(7, 0)
		p.Incarnation, p.PCIID, p.InterfaceID = 777, "8086:09c4:8086:0000", afu2
		change(&p)
		return p
	}
	first := changed(func(p *inventory.Port) { p.Incarnation = 1 })
	first.InterfaceID = afu2
	for _, test := range []struct {
		name   string
		anyAFU bool
		back   inventory.Port
		at     string // state when it is back
		held   string // after the hold, still held
		free   string // when its old holder has gone, after the hold
	}{
		{"the same", false, changed(func(*inventory.Port) {}), "unhealthy[recovering=removed-in-use]", "healthy[]", "healthy[]"},
		{"another AFU", false, changed(func(p *inventory.Port) { p.AFUID = afu2 }),
			"unhealthy[replaced-in-use recovering=removed-in-use]", "unhealthy[replaced-in-use]", "healthy[]"},
		{"another AFU, where that is the point", true, changed(func(p *inventory.Port) { p.AFUID = afu2 }),
			"unhealthy[recovering=removed-in-use]", "healthy[]", "healthy[]"},
		{"another interface", true, changed(func(p *inventory.Port) { p.InterfaceID = afu1 }),
			"unhealthy[replaced-in-use recovering=removed-in-use]", "unhealthy[replaced-in-use]", "healthy[]"},
		{"another model", false, changed(func(p *inventory.Port) { p.PCIID = "8086:0b30:8086:0000" }),
			"unhealthy[replaced-in-use recovering=removed-in-use]", "unhealthy[replaced-in-use]", "healthy[]"},
		{"model not known", false, changed(func(p *inventory.Port) { p.PCIID = "" }), "unhealthy[recovering=removed-in-use]", "healthy[]", "healthy[]"},
		{"AFU not known yet", false, changed(func(p *inventory.Port) { p.AFUID, p.AFUIDKnown = "", false }),
			"unhealthy[removed-in-use]", "unhealthy[removed-in-use]", "healthy[]"},
		{"interface not there yet", false, changed(func(p *inventory.Port) { p.InterfaceID = "" }),
			"unhealthy[removed-in-use]", "unhealthy[removed-in-use]", "healthy[]"},
		{"interface not known", true, changed(func(p *inventory.Port) { p.InterfaceID, p.InterfaceIDKnown = "", false }),
			"unhealthy[removed-in-use]", "unhealthy[removed-in-use]", "healthy[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, d := newBench("dfl"), newDesk()
				f.set(cardA, first)
				d.hold("3b:00.0", pod)
				cfg := withDesk(d)
				cfg.AnyAFU = test.anyAFU
				r := start(t, cfg, f)
				f.pull(cardA)
				r.hint(cardA)
				r.after(time.Minute)
				r.want("pulled", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
				f.set(cardA, test.back)
				r.hint(cardA)
				r.want("back", map[string]string{"3b:00.0": test.at})
				r.after(10 * time.Second)
				r.want("held", map[string]string{"3b:00.0": test.held})
				d.free("3b:00.0")
				r.after(10 * time.Second)
				r.after(10 * time.Second)
				r.want("free", map[string]string{"3b:00.0": test.free})
			})
		})
	}
}

// A card that is plugged in again stands unbound for a moment: what it is cannot
// be known yet.
func TestReturnByWayOfUnbound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withDesk(d), f)
		f.pull(cardA)
		r.hint(cardA)
		p := good(1, 0, unbound)
		p.AFUID, p.AFUIDKnown, p.Files = "", false, nil
		f.set(cardA, p)
		r.hint(cardA)
		r.want("unbound", map[string]string{"3b:00.0": "unhealthy[driver-unbound removed-in-use]"})
		f.set(cardA, good(1, 0))
		r.hint(cardA)
		r.want("bound", map[string]string{"3b:00.0": "unhealthy[recovering=driver-unbound recovering=removed-in-use]"})
		r.after(10 * time.Second)
		r.want("held", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// The one in its place may leave as well: the first one is still held.
func TestReplacementLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withDesk(d), f)
		f.pull(cardA)
		r.hint(cardA)
		p := good(0, 0)
		p.AFUID = afu2
		f.set(cardA, p)
		r.hint(cardA)
		f.pull(cardA)
		r.hint(cardA)
		r.want("both gone", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
		f.set(cardA, good(0, 0))
		r.hint(cardA)
		r.after(10 * time.Second)
		r.want("the first is back", map[string]string{"3b:00.0": "healthy[]"})
	})
}

func TestReleasedPortOfACardThatStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0), good(1, 1))
		d.hold("3b:00.0-p1", pod)
		r := start(t, withDesk(d), f)
		f.set(cardA, good(0, 0))
		r.hint(cardA)
		r.want("port 1 released", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[removed-in-use]"})
		d.free("3b:00.0-p1")
		r.after(10 * time.Second)
		r.want("free", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// Nobody can say who holds what: for the grace time anybody might.
func TestGrace(t *testing.T) {
	for _, test := range []struct {
		name  string
		grace time.Duration
		stall bool
		last  time.Duration // still listed this long after the removal
	}{
		{"refused", 5 * time.Minute, false, 5*time.Minute - time.Millisecond},
		{"stalled", 5 * time.Minute, true, 5*time.Minute - time.Millisecond},
		{"shorter than the time between questions", 3 * time.Second, false, 3*time.Second - time.Millisecond},
		{"none", 0, false, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, d := newBench("dfl"), newDesk()
				if d.stall = test.stall; !test.stall {
					d.fail("no such socket")
				}
				f.set(cardA, good(0, 0))
				cfg := withDesk(d)
				cfg.TombstoneGrace = test.grace
				r := start(t, cfg, f)
				r.after(30 * time.Second)
				f.pull(cardA)
				r.hint(cardA)
				if test.last >= 0 {
					r.after(test.last)
					r.want("within the grace time", map[string]string{"3b:00.0": "unhealthy[removed]"})
					r.after(time.Millisecond)
				}
				r.want("after it", map[string]string{})
				if n := r.logs.FilterMessage("holders not known, removed devices stay listed for the grace time").Len(); n != 1 {
					t.Errorf("said %d times that nobody can tell, want once", n)
				}
			})
		})
	}
}

// The grace time begins anew with each answer: while there are some, it is not
// needed.
func TestAnswersThatCease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withDesk(d), f)
		f.pull(cardA)
		r.hint(cardA)
		r.after(time.Hour)
		d.fail("no such socket")
		r.after(4*time.Minute + 49*time.Second)
		r.want("not known for less than the grace time", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
		d.fail("")
		r.after(time.Hour)
		r.want("known again", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
		d.fail("no such socket")
		r.after(6 * time.Minute)
		r.want("not known for longer", map[string]string{})
	})
}

// A kubelet that has just started may not know yet who holds what.
func TestAnswerThatWasWrong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		r := start(t, withDesk(d), f)
		f.pull(cardA)
		r.hint(cardA)
		r.want("said to be free", map[string]string{})
		r.after(4 * time.Minute)
		d.hold("3b:00.0", pod)
		r.after(10 * time.Second)
		r.want("held after all", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
	})
}

// So may it be when two ports leave, one while it is asked after the other, and
// without any grace.
func TestAnswerThatWasWrongTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0), good(1, 1))
		cfg := withDesk(d)
		cfg.TombstoneGrace = 0
		r := start(t, cfg, f)
		f.pull(cardA)
		r.hint(cardA)
		r.want("said to be free", map[string]string{})
		d.hold("3b:00.0-p1", pod)
		r.after(10 * time.Second)
		r.want("held after all", map[string]string{"3b:00.0-p1": "unhealthy[removed-in-use]"})
	})
}

// Who could not be asked for longer than the grace time is asked on: what was
// given up meanwhile may be held.
func TestAnswerAfterTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withDesk(d), f)
		d.fail("no such socket")
		f.pull(cardA)
		r.hint(cardA)
		r.after(time.Hour)
		r.want("given up", map[string]string{})
		d.fail("")
		r.after(10 * time.Second)
		r.want("held after all", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
		if n := r.logs.FilterMessage("holders known again").Len(); n != 1 {
			t.Errorf("said %d times that it is known again, want once", n)
		}
	})
}

// After a restart nothing is remembered: what is held and not here has left.
func TestHeldBeforeWeCame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardB, good(0, 0))
		d.hold("3b:00.0-p1", pod)
		d.hold("0001:5e:00.0", pod)
		d.hold("not an id of ours\x00", pod)
		d.hold("", pod)
		d.hold(string(make([]byte, 10_000)), pod)
		d.takes = 100 * time.Millisecond
		r := start(t, withDesk(d), f)
		if v := r.version(); v != 0 {
			t.Errorf("version %d was published before it was known who holds what", v)
		}
		r.after(100 * time.Millisecond)
		if v := r.version(); v != 1 {
			t.Errorf("version %d, want the first to have them all", v)
		}
		want := map[string]string{
			"0001:5e:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[removed-in-use]", "not an id of ours\x00": "unhealthy[removed-in-use]",
		}
		r.want("at first", want)
		s, _ := r.Latest()
		got := *s.Device("3b:00.0-p1")
		if diff := cmp.Diff(inventory.Device{
			ID: "3b:00.0-p1", HeldAs: "b.com/fpga", Health: inventory.Unhealthy, Reasons: []string{"removed-in-use"},
			PCIAddress: "0000:3b:00.0", NUMANode: -1, PortID: 1,
		}, got); diff != "" {
			t.Errorf("tombstone (-want +got):\n%s", diff)
		}

		f.set(cardA, good(4, 0), good(5, 1))
		r.hint(cardA)
		want["3b:00.0"], want["3b:00.0-p1"] = "healthy[]", "unhealthy[recovering=removed-in-use]"
		r.want("it is back", want)
		r.after(10 * time.Second)
		want["3b:00.0-p1"] = "healthy[]"
		r.want("and has held", want)
		d.set(func() { clear(d.held) })
		r.after(11 * time.Second)
		delete(want, "not an id of ours\x00")
		r.want("nothing is held", want)
	})
}

// The first list does not wait long for somebody who does not answer.
func TestFirstListWithoutAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		d.stall = true
		f.set(cardA, good(0, 0))
		d.hold("0001:5e:00.0", pod)
		r := start(t, withDesk(d), f)
		r.after(250 * time.Millisecond)
		r.want("a quarter of a second later", map[string]string{"3b:00.0": "healthy[]"})
		d.set(func() { d.stall = false })
		r.after(12 * time.Second)
		r.want("answered", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[removed-in-use]"})
	})
}

func TestThousandsThatWereNeverHere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		for i := range 5000 {
			d.hold(fmt.Sprint("id", i), pod)
		}
		r := start(t, withDesk(d), f)
		if s, _ := r.Latest(); len(s.Devices) != 1024 {
			t.Errorf("%d tombstones, want no more than 1024", len(s.Devices))
		}
		d.set(func() { clear(d.held) })
		r.after(10 * time.Second)
		r.want("nothing is held", map[string]string{})
	})
}

// A removal is published with its latency, like any other news.
func TestRemovalIsTimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		d.stall = true
		r := start(t, withDesk(d), f)
		r.after(time.Minute)
		f.pull(cardA)
		at := time.Now()
		r.hint(cardA)
		if s, _ := r.Latest(); !s.Hinted.Equal(at) {
			t.Errorf("hinted at %v, want %v", s.Hinted, at)
		}
	})
}

// The kernel makes and removes a card in parts: the region goes before the FME,
// that before the ports. What is not there any more in between is no other
// identity.
func TestReturnAfterBeingSeenGoing(t *testing.T) {
	for _, test := range []struct {
		name  string
		going func(*inventory.Port)
	}{
		{"without FME", func(p *inventory.Port) { p.InterfaceID = "" }},
		{"without AFU", func(p *inventory.Port) { p.AFUID = "" }},
		{"unbound", func(p *inventory.Port) {
			p.AFUID, p.AFUIDKnown, p.Conditions = "", false, []inventory.Condition{unbound}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				whole := good(0, 0)
				whole.InterfaceID = afu2
				f, d := newBench("dfl"), newDesk()
				f.set(cardA, whole)
				d.hold("3b:00.0", pod)
				r := start(t, withDesk(d), f)
				going := whole
				test.going(&going)
				f.set(cardA, going)
				r.hint(cardA)
				f.pull(cardA)
				r.hint(cardA)
				whole.Incarnation++
				f.set(cardA, whole)
				r.hint(cardA)
				r.after(10 * time.Second)
				r.want("back", map[string]string{"3b:00.0": "healthy[]"})
			})
		})
	}
}

// A card of another driver in the place is another one.
func TestReturnUnderAnotherDriver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, other, d := newBench("dfl"), newBench("opae"), newDesk()
		f.set(cardA, good(0, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withDesk(d), f, other)
		f.pull(cardA)
		r.hint(cardA)
		other.set(cardA, good(0, 0))
		r.hint(cardA)
		r.want("another driver", map[string]string{"3b:00.0": "unhealthy[replaced-in-use recovering=removed-in-use]"})
	})
}

// A replacement that cannot be told any more is not believed to be one; nor is it
// believed to be the first one.
func TestReplacementThatBecomesUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withDesk(d), f)
		f.pull(cardA)
		r.hint(cardA)
		p := good(0, 0)
		p.AFUID = afu2
		f.set(cardA, p)
		r.hint(cardA)
		p.Incarnation++ // swapped unseen
		p.AFUID, p.AFUIDKnown = "", false
		f.set(cardA, p)
		r.hint(cardA)
		r.after(10 * time.Second)
		r.want("who knows", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
	})
}

// The hold of one that has waited ends on time, without a tick.
func TestHoldAfterReleaseEndsOnTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 0))
		d.hold("3b:00.0", pod)
		cfg := withDesk(d)
		cfg.HealthInterval, cfg.ResyncInterval = time.Hour, time.Hour
		r := start(t, cfg, f)
		f.pull(cardA)
		r.hint(cardA)
		p := good(0, 0)
		p.AFUID = afu2
		f.set(cardA, p)
		r.hint(cardA)
		r.after(15 * time.Second)
		d.free("3b:00.0")
		r.after(5 * time.Second)
		r.want("released", map[string]string{"3b:00.0": "unhealthy[recovering=replaced-in-use]"})
		r.after(10 * time.Second)
		r.want("held", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// However often the answer changes, there are no more tombstones than are borne.
func TestEverOthersThatWereNeverHere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		for i := range 1000 {
			d.hold(fmt.Sprint("id", i), pod)
		}
		r := start(t, withDesk(d), f)
		for i := range 1000 {
			d.hold(fmt.Sprint("other", i), pod)
		}
		r.after(10 * time.Second)
		if s, _ := r.Latest(); len(s.Devices) != 1024 {
			t.Errorf("%d tombstones, want no more than 1024", len(s.Devices))
		}
	})
}

// Which ports a card has that hangs from the start is not known: none of them is
// said to be gone.
func TestHeldOnACardThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newBench("dfl"), newDesk()
		f.set(cardA, good(0, 1))
		release := f.hang(cardA)
		d.hold("3b:00.0-p1", pod)
		r := start(t, withDesk(d), f)
		r.after(20 * time.Second)
		r.want("hangs", map[string]string{"3b:00.0": "unhealthy[read-timeout]"})
		release()
		r.after(time.Minute)
		r.want("answers", map[string]string{"3b:00.0-p1": "healthy[]"})
	})
}
