package inventory

import (
	"context"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// Holding is a device that is held under one name.
type Holding struct {
	As      string   // the name under which it was given out
	Holders []string // namespace/pod/container; empty: given out, it is not known yet to whom
	// Nodes are the names and numbers (MAJOR:MINOR) of the nodes that the holders were
	// given. If they are not known, NodesErr is the reason.
	Nodes    []string
	NodesErr error
}

// heldAs finds how a device is held under a name. One that has no name is held
// under any.
func heldAs(holdings []Holding, name string) (Holding, bool) {
	i := slices.IndexFunc(holdings, func(h Holding) bool { return name == "" || h.As == name })
	if i < 0 {
		return Holding{}, false
	}
	return holdings[i], true
}

// answerWithin is how long the answer may take.
const answerWithin = 2 * time.Second

// untilHeard is the longest time between two questions before the first answer.
const untilHeard = time.Second

// holders is what the loop knows of who holds what.
type holders struct {
	answers chan answer
	asking  bool                 // a question is under way
	again   bool                 // what it may not know yet has happened since
	next    time.Time            // when to ask again; zero: not
	doubt   time.Time            // until when a device that was said to be free may turn out to be held
	heard   bool                 // the first question was answered, or failed
	held    map[string][]Holding // the newest answer; nil: none yet
	heldAt  time.Time            // when it was asked for
	err     string               // why the newest question failed, ""
	record  map[string][]Holding // holdings of before the start, until there is an answer
	blind   bool                 // by the newest answer, the nodes of a held device are not known
}

// answer is what the one who was asked says.
type answer struct {
	asked time.Time
	held  map[string][]Holding
	err   error
}

// askHolders asks who holds what, outside the loop. While a question is under way
// another one follows it.
func (l *loop) askHolders(ctx context.Context) {
	l.holders.next = time.Time{}
	if l.cfg.Holders == nil {
		l.holders.heard = true
		return
	}
	if l.holders.asking {
		l.holders.again = true
		return
	}
	l.holders.asking, l.holders.again = true, false
	l.readers.Go(func() {
		a := answer{asked: time.Now()}
		asking, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		a.held, a.err = l.cfg.Holders(asking)
		select {
		case l.holders.answers <- a:
		case <-ctx.Done():
		}
	})
}

// askIdly asks though nothing hangs on the answer now: that nobody can give one is to
// be known before a card is pulled, not after.
func (l *loop) askIdly(ctx context.Context) {
	h := &l.holders
	if !h.asking && h.next.IsZero() && time.Since(h.heldAt) >= l.cfg.HoldersInterval {
		l.askHolders(ctx)
	}
}

// takeAnswer takes in who holds what.
func (l *loop) takeAnswer(ctx context.Context, a answer) {
	h := &l.holders
	h.asking, h.heard = false, true
	l.cfg.Metrics.HoldersAsked(a.err)
	l.sayHolders(a.err)
	if a.err == nil {
		l.takeHoldings(a)
		l.compareHolders(a)
	}
	l.expire(time.Now())
	switch {
	case h.again:
		l.askHolders(ctx)
	case h.heldAt.IsZero(): // what we offer may be held as something else
		h.next = a.asked.Add(min(l.cfg.HoldersInterval, untilHeard))
	case a.asked.Before(h.doubt): // at least twice before a released device is offered
		h.next = a.asked.Add(min(l.cfg.HoldersInterval, max(l.cfg.RecoveryHold/2, time.Second)))
	case h.blind, len(l.tombstones) > 0, len(l.owed) > 0, len(l.waiting) > 0, a.err != nil:
		h.next = a.asked.Add(l.cfg.HoldersInterval)
	}
}

// compareHolders drops the tombstones of what is free and puts up those of what
// is held and missing. An answer may be older than a removal: then it cannot tell
// that nobody took the device just before.
func (l *loop) compareHolders(a answer) {
	for id, t := range l.tombstones {
		holding, held := heldAs(a.held[id], t.device.OfferedAs)
		switch {
		case held:
			l.confirm(t, holding)
		case t.left.After(a.asked):
			l.holders.again = true
		default:
			l.drop(t, "free")
			l.askOn(a)
		}
	}
	l.keepNames(time.Now())
	if l.complete {
		l.raise(a.held)
	}
}

// askOn makes the loop repeat the question for some time, and at least once, after an
// answer that a device is free: a kubelet that has just started may not know its pods yet.
func (l *loop) askOn(a answer) {
	l.holders.doubt = a.asked.Add(max(l.cfg.TombstoneGrace, time.Nanosecond))
}

// expire drops the tombstones of which nobody has been able to say for the grace
// time whether they are held.
func (l *loop) expire(now time.Time) {
	if l.holders.err == "" {
		return
	}
	for _, t := range l.tombstones {
		if !now.Before(l.expiry(t.left)) {
			l.drop(t, "not known for "+l.cfg.TombstoneGrace.String())
		}
	}
	l.expireNodes(now)
}

// expiry returns the time at which a state that began at since, and that waits for an
// answer, ends if no answer comes.
func (l *loop) expiry(since time.Time) time.Time {
	if l.holders.heldAt.After(since) {
		since = l.holders.heldAt
	}
	return since.Add(l.cfg.TombstoneGrace)
}

// nextQuestion is when the clock alone changes something about tombstones; zero:
// it does not.
func (l *loop) nextQuestion() time.Time {
	next := l.holders.next
	if l.holders.err == "" {
		return next
	}
	earliest := func(since time.Time) {
		if at := l.expiry(since); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if len(l.holders.record) > 0 {
		earliest(l.began)
	}
	for _, t := range l.tombstones {
		earliest(t.left)
	}
	for _, o := range l.owed {
		earliest(o.since)
	}
	return next
}

// lookAtHolders does what nextQuestion has called for.
func (l *loop) lookAtHolders(ctx context.Context, now time.Time) {
	l.expire(now)
	if next := l.holders.next; !next.IsZero() && !now.Before(next) {
		l.askHolders(ctx)
	}
}

// sayHolders logs that nobody can say who holds what, or can again; each once.
func (l *loop) sayHolders(err error) {
	var now string
	if err != nil {
		now = err.Error()
	}
	switch was := l.holders.err; {
	case now != "" && was == "":
		l.log.Warn("holders not known, removed devices stay listed for the grace time", event.HoldersUnknown,
			event.Err(err), event.Grace(l.cfg.TombstoneGrace))
	case now == "" && was != "":
		l.log.Info("holders known again", event.HoldersKnown)
	}
	l.holders.err = now
}
