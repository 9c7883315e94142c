package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// poller calls [Config.Holders], one call at a time. Only the loop uses it.
type poller struct {
	*Inventory
	tasks    *sync.WaitGroup // counts the goroutines that call Holders
	answers  chan Holdings
	asking   bool          // a query is in progress
	at       time.Time     // when the newest query was made
	again    bool          // another query follows the one in progress
	answered bool          // a query made after since has been answered or has failed
	since    time.Time     // startup, or when the families last changed
	known    bool          // a query has been answered without an error
	next     time.Time     // when the next query is due; zero if none is planned
	wait     time.Duration // current interval between queries for the holder of an allocated device
}

// needs says when the node needs an answer about holders.
type needs struct {
	at      time.Time // when a query is needed; zero if none is
	waiting bool      // devices are waiting for an answer
}

func newPoller(inv *Inventory, tasks *sync.WaitGroup) *poller {
	return &poller{Inventory: inv, tasks: tasks, answers: make(chan Holdings), answered: inv.cfg.Holders == nil}
}

// restart makes the poller wait for an answer to a query made after now.
func (p *poller) restart(now time.Time) { p.answered, p.since = p.cfg.Holders == nil, now }

// ask starts a query in a new goroutine. If a query is already in progress, another one follows.
func (p *poller) ask(ctx context.Context) {
	p.next = time.Time{}
	if p.cfg.Holders == nil {
		return
	}
	if p.asking {
		p.again = true
		return
	}
	p.asking, p.again, p.at = true, false, time.Now()
	p.tasks.Go(func() {
		asking, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		select {
		case p.answers <- p.cfg.Holders(asking):
		case <-ctx.Done():
		}
	})
}

// askWhenIdle starts a query even if no device needs the answer, so that an unresponsive kubelet gets logged before a
// card is pulled.
func (p *poller) askWhenIdle(ctx context.Context) {
	if !p.asking && p.next.IsZero() && time.Since(p.at) >= p.cfg.HoldersInterval {
		p.ask(ctx)
	}
}

// given plans a query for the holders of devices that have just been allocated.
func (p *poller) given(now time.Time) {
	p.wait = min(confirmAfter, p.cfg.HoldersInterval)
	p.next = earlier(p.next, now.Add(p.wait))
}

// take plans the next query after an answer. asked is when the query was made, before and newest are the holdings
// before and after the answer, and stale means that a reservation needs the answer to a later query.
func (p *poller) take(ctx context.Context, asked time.Time, before, newest Holdings, stale bool) {
	p.asking, p.answered, p.known = false, p.answered || !asked.Before(p.since), p.known || newest.Err == nil
	p.report(before, newest)
	plan := func(after time.Duration) {
		p.next = earlier(p.next, p.at.Add(min(p.cfg.HoldersInterval, after)))
	}
	switch {
	case p.again || stale:
		p.ask(ctx)
	case !p.known: // until the first answer, a device may be held under another name
		plan(untilAnswered)
	default:
		if newest.Unnamed {
			p.wait = max(4*p.wait, confirmAfter)
			plan(p.wait)
		}
		if newest.Again > 0 {
			plan(newest.Again)
		}
		if len(newest.Missing) > 0 || newest.Err != nil || newest.inUse() { // to find out when a holding ends
			plan(p.cfg.HoldersInterval)
		}
	}
}

// report logs and counts sources that have stopped or resumed answering, and logs devices with several holders.
func (p *poller) report(before, now Holdings) {
	failed := func(all []MissingSource, name string) error {
		for _, m := range all {
			if m.Name == name {
				return m.Err
			}
		}
		return nil
	}
	for _, name := range []string{"pod-resources", "checkpoint", "claims"} {
		was, is := failed(before.Missing, name), failed(now.Missing, name)
		p.cfg.Metrics.HoldersSource(name, is)
		switch {
		case is != nil && was == nil:
			p.log.Warn("cannot tell which containers use devices, those that may be in use are withheld", logevent.HoldersUnknown, logevent.Source(name), logevent.Err(is), logevent.Grace(p.cfg.TombstoneGrace))
		case is == nil && was != nil:
			p.log.Info("holders known again", logevent.HoldersKnown, logevent.Source(name))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now.Shared)) {
		if id != "" && !slices.Equal(before.Shared[id], now.Shared[id]) { // a broken kubelet may report devices without an id
			p.log.Error("device is in use by several containers", logevent.DeviceHeldTwice, logevent.Device(id), logevent.Holders(now.Shared[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before.Shared)) {
		if id != "" && now.Shared[id] == nil {
			p.log.Info("device is no longer in use by several containers", logevent.DeviceHeldOnce, logevent.Device(id))
		}
	}
}

// plan plans the next query for the devices that are waiting for an answer.
func (p *poller) plan(ctx context.Context, needs needs, now time.Time) {
	switch {
	case !needs.at.IsZero() && !needs.at.After(now):
		p.ask(ctx)
	case !needs.at.IsZero():
		p.next = earlier(p.next, needs.at)
	}
	if needs.waiting && p.next.IsZero() && !p.asking && p.cfg.Holders != nil {
		p.next = now.Add(p.cfg.HoldersInterval)
	}
}

// onTime starts the next query if it is due.
func (p *poller) onTime(ctx context.Context, now time.Time) {
	if !p.next.IsZero() && !now.Before(p.next) {
		p.ask(ctx)
	}
}
