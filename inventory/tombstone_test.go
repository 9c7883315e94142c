package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const pod = "default/job/main"

// version returns the version of the newest snapshot.
func (r *rig) version() uint64 {
	s, _ := r.Latest()
	return s.Version
}

// history collects the published lists, from now until the test ends.
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
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		d.takes = time.Millisecond
		f.set(cardA, good(0, 0))
		r := start(t, withKubelet(d), f)
		r.after(time.Second)
		history := r.history()
		r.pull(cardA)
		r.want("not known yet", map[string]string{"3b:00.0": "unhealthy[removed]"})
		r.after(time.Millisecond)
		r.want("free", map[string]string{})
		want := []string{"map[3b:00.0:unhealthy[removed]]", "map[]"}
		if diff := cmp.Diff(want, history()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		s, _ := r.Latest()
		if s.Device("3b:00.0") != nil {
			t.Error("the device is still in the snapshot")
		}
	})
}

func TestRemovedInUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		f.set(cardA, good(0, 0))
		f.set(cardB, good(1, 0))
		d.hold("3b:00.0", pod)
		r := start(t, withKubelet(d), f)
		r.pull(cardA)
		r.want("pulled", map[string]string{"3b:00.0": "unhealthy[removed-in-use]", "0001:5e:00.0": "healthy[]"})
		s, _ := r.Latest()
		if got := s.Device("3b:00.0"); got.PCIAddress != cardA || got.AFUID != afu1 || len(got.Nodes) != 0 {
			t.Errorf("tombstone = %+v, want its card and AFU, and no node", got)
		}
		lines := r.logs.FilterMessage("removed device is held").All()
		if len(lines) != 1 {
			t.Fatalf("%d lines that the device is held, want 1", len(lines))
		}
		if diff := cmp.Diff([]any{pod}, lines[0].ContextMap()["holders"]); diff != "" {
			t.Errorf("holders in the log (-want +got):\n%s", diff)
		}

		begin := time.Now()
		before := len(d.questions(begin))
		r.after(time.Hour)
		r.want("an hour later", map[string]string{"3b:00.0": "unhealthy[removed-in-use]", "0001:5e:00.0": "healthy[]"})
		if asked := len(d.questions(begin)) - before; asked != 360 {
			t.Errorf("%d questions in an hour, want one every 10 s", asked)
		}
		d.free("3b:00.0")
		r.after(10 * time.Second)
		r.want("free", map[string]string{"0001:5e:00.0": "healthy[]"})
		if n := r.logs.FilterMessage("removed device released").Len(); n != 1 {
			t.Errorf("%d lines that the device was released, want 1", n)
		}

		begin = time.Now()
		before = len(d.questions(begin))
		r.after(time.Hour)
		if asked := len(d.questions(begin)) - before; asked != 60 {
			t.Errorf("%d questions without a tombstone, want one with each listing", asked)
		}
	})
}

func TestReleasedPortOfACardThatStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		f.set(cardA, good(0, 0), good(1, 1))
		d.hold("3b:00.0-p1", pod)
		r := start(t, withKubelet(d), f)
		r.set(cardA, good(0, 0))
		r.want("port 1 released", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[removed-in-use]"})
		d.free("3b:00.0-p1")
		r.after(10 * time.Second)
		r.want("free", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// A removal is published with its latency, as any other change.
func TestRemovalIsTimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		f.set(cardA, good(0, 0))
		d.stall = true
		r := start(t, withKubelet(d), f)
		r.after(time.Minute)
		f.pull(cardA)
		at := time.Now()
		r.hint(cardA)
		if s, _ := r.Latest(); !s.Hinted.Equal(at) {
			t.Errorf("hinted at %v, want %v", s.Hinted, at)
		}
	})
}
