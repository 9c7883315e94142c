package inventory_test

import (
	"fmt"
	"testing"
	"time"
)

const pod = "default/job/main"

func (r *rig) version() uint64 {
	s, _ := r.Latest()
	return s.Version
}

// history starts collecting the published lists. The returned func stops that and returns them.
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

// A removal is published with its latency, like any other change.
func TestRemovalIsTimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := oneCard(), newFakeKubelet()
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
