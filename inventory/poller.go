package inventory

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// poller calls [Config.Holders], one call at a time. Only the loop uses it.
type poller struct {
	*Inventory
	node      *node
	scheduler *scheduler // for its goroutines
	answers   chan answer
	asking    bool          // a question is under way
	again     bool          // another question follows the one under way
	answered  bool          // a question after since was answered, or failed
	since     time.Time     // the start, or the newest change of the families
	next      time.Time     // time of the next question; zero: not planned
	wait      time.Duration // between the last two questions for the holder of a device that was given out
}

// answer is the answer to one question.
type answer struct {
	asked time.Time
	held  map[string][]Holding
	err   error
}

// ask asks a question in a new goroutine. If a question is under way, ask repeats it afterwards.
func (p *poller) ask(ctx context.Context) {
	p.next = time.Time{}
	if p.cfg.Holders == nil {
		p.answered = true
		return
	}
	if p.asking {
		p.again = true
		return
	}
	p.asking, p.again = true, false
	p.scheduler.readers.Go(func() {
		a := answer{asked: time.Now()}
		asking, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		a.held, a.err = p.cfg.Holders(asking)
		select {
		case p.answers <- a:
		case <-ctx.Done():
		}
	})
}

// askWhenIdle asks a question although no device needs the answer. So a kubelet that does not answer
// is logged before a card is pulled.
func (p *poller) askWhenIdle(ctx context.Context) {
	if !p.asking && p.next.IsZero() && time.Since(p.node.holders.heldAt) >= p.cfg.HoldersInterval {
		p.ask(ctx)
	}
}

// given plans a question for the holders of devices that have just been given out.
func (p *poller) given(now time.Time) {
	p.wait = min(confirmAfter, p.cfg.HoldersInterval)
	p.next = earlier(p.next, now.Add(p.wait))
}

// take applies an answer and plans the next question.
func (p *poller) take(ctx context.Context, a answer, now time.Time) {
	h := &p.node.holders
	p.asking, p.answered = false, p.answered || !a.asked.Before(p.since)
	p.cfg.Metrics.HoldersAsked(a.err)
	before, blind := h.err, h.blind
	wasPartial := h.partial
	var partial Partial
	h.err, h.partial = "", errors.As(a.err, &partial)
	if a.err != nil && !h.partial {
		h.err = a.err.Error()
	} else {
		if h.partial {
			h.keepElsewhere(a.held)
		}
		p.node.takeAnswer(a.held, a.asked, now)
		held := h.held // a copy for readers, because the next answer replaces the field
		p.holdings.Store(&held)
	}
	if a.err == nil || errors.Is(a.err, fs.ErrNotExist) || errors.Is(a.err, fs.ErrPermission) { // no answer will come
		p.node.offer()
	}
	p.node.expire(now)
	switch {
	case h.partial && !wasPartial:
		p.log.Warn("holders through the other API not known", event.HoldersUnknown, event.Err(a.err), event.Grace(p.cfg.TombstoneGrace))
	case wasPartial && !h.partial && a.err == nil:
		p.log.Info("holders through the other API known again", event.HoldersKnown)
	case a.err != nil && !h.partial && before == "":
		p.log.Warn("holders not known, removed devices stay listed for the grace time", event.HoldersUnknown,
			event.Err(a.err), event.Grace(p.cfg.TombstoneGrace))
	case a.err == nil && before != "":
		p.log.Info("holders known again", event.HoldersKnown)
	}
	if h.blind != blind {
		p.logBlind(h)
	}
	if p.again || h.again {
		p.ask(ctx)
	} else {
		plan := func(after time.Duration) { p.next = earlier(p.next, a.asked.Add(min(p.cfg.HoldersInterval, after))) }
		if h.awaits {
			plan(untilOffered)
		}
		if h.heldAt.IsZero() { // until the first answer, a device may be held under another name
			plan(untilAnswered)
		}
		if a.err == nil && h.awaited {
			p.wait = max(4*p.wait, confirmAfter)
			plan(p.wait)
		}
		if a.asked.Before(h.askUntil) { // at least two questions before a released device is offered
			plan(max(p.cfg.RecoveryHold/2, time.Second))
		}
		if h.blind || a.err != nil || len(h.held) > 0 { // to find the end of a holding
			plan(p.cfg.HoldersInterval)
		}
	}
	h.again = false
}

// logBlind logs that the nodes of held devices are not known, or that they are known again.
func (p *poller) logBlind(h *holders) {
	if !h.blind {
		p.log.Info("nodes of held devices known", event.NodesKnown)
		return
	}
	var ids []string
	var why error
	for _, id := range slices.Sorted(maps.Keys(h.held)) {
		for _, holding := range h.held[id] {
			if holding.NodesErr != nil {
				ids, why = append(ids, id), holding.NodesErr
			}
		}
	}
	p.log.Warn("nodes of held devices not known, free devices are withheld", event.NodesUnknown, event.Devices(slices.Compact(ids)), event.Err(why))
}

// plan plans the next question for the devices that wait for an answer.
func (p *poller) plan(ctx context.Context, now time.Time) {
	h := &p.node.holders
	switch want := h.ask; {
	case !want.IsZero() && !want.After(now):
		p.ask(ctx)
	case !want.IsZero():
		p.next = earlier(p.next, want)
	}
	h.ask = time.Time{}
	if len(p.node.waiting) > 0 && p.next.IsZero() && !p.asking && p.cfg.Holders != nil {
		p.next = now.Add(p.cfg.HoldersInterval)
	}
}

// onTime ends expired claims, and asks the next question if it is due.
func (p *poller) onTime(ctx context.Context, now time.Time) {
	p.node.expire(now)
	if !p.next.IsZero() && !now.Before(p.next) {
		p.ask(ctx)
	}
}
