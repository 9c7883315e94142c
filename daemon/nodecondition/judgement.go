package nodecondition

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Type is the default type of the condition. It is in our own domain because cloud providers may replace nodes based on
// conditions that they define themselves.
const Type = "accelerator.b-com.com/CardsHealthy"

const (
	settle  = time.Second      // time from a change to its verdict, because a newly plugged-in card is unhealthy for a few ms
	pace    = 10 * time.Second // minimum time between writes; also how long Unknown must last before it is written
	refresh = 5 * time.Minute  // time between writes if nothing changes, plus up to a fifth of that
)

// Devices is the source of devices, usually an inventory.
type Devices interface {
	Latest() (inventory.Snapshot, <-chan struct{}) // the channel is closed when there is a newer snapshot
}

// Cordons is the source of cordons, usually a [cordon.Book].
type Cordons interface {
	List() []cordon.Cordon
	Changed() <-chan struct{} // closed the next time the list changes
}

// Judgement holds the newest verdict about a node's cards. Create it with [New].
type Judgement struct {
	devices Devices
	cordons Cordons
	missing func() ([]ledger.Missing, <-chan struct{})
	awaited func() int
	ready   func() error
	verdict *latest.Value[Verdict]
}

// New returns a Judgement of the given devices and missing cards, which takes the cordons into account. Its verdict is
// Unknown until Run is called. It doesn't become Good until no more cards are awaited and ready returns nil, which
// means that Kubernetes knows about the devices.
func New(devices Devices, cordons Cordons, missing func() ([]ledger.Missing, <-chan struct{}), awaited func() int, ready func() error) *Judgement {
	first := Judge(Verdict{}, inventory.Snapshot{}, nil, nil)
	first.Since = time.Now()
	return &Judgement{devices, cordons, missing, awaited, ready, latest.New(first)}
}

// Latest returns the newest verdict and a channel that is closed when there is a newer one.
func (c *Judgement) Latest() (Verdict, <-chan struct{}) { return c.verdict.Load() }

// Run keeps the verdict up to date until ctx is done, and then returns nil.
func (c *Judgement) Run(ctx context.Context) error {
	for {
		snapshot, changed := c.devices.Latest()
		missing, moved := c.missing()
		cordoned := c.cordons.Changed()
		before, _ := c.verdict.Load()
		v := Judge(before, snapshot, missing, c.cordons.List())
		var again <-chan time.Time
		if v.Status == Good && before.Status != Good {
			if n := c.awaited(); n > 0 { // at startup, or because a card with a fault has lost its driver
				v = Verdict{Status: Unknown, Reason: NotRead, Message: count(n, "card") + " not found yet"}
			} else if before.Status == Unknown && c.ready() != nil {
				v = Verdict{Status: Unknown, Reason: NotAdvertised, Message: "the devices are not advertised to Kubernetes yet"}
			}
			if v.Status == Unknown {
				again = time.After(settle)
			}
		}
		if v.Since = before.Since; v.Status != before.Status {
			v.Since = time.Now()
		}
		c.verdict.Store(v)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-moved:
		case <-cordoned:
		case <-again:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// statuses maps a verdict's status to the condition's.
var statuses = map[Status]string{Good: "True", Bad: "False", Unknown: "Unknown"}

// Write keeps the Node's condition up to date until ctx is done, and then returns nil.
func (c *Judgement) Write(ctx context.Context, client *apiserver.Client, node, conditionType string, log *zap.Logger) error {
	log = log.Named("nodecondition")
	w := client.Writer(ctx, node)
	defer w.Close()
	var stored *apiserver.Condition // as stored in the API server; nil until known
	var due, again time.Time        // when the next write can happen; when it happens even if nothing has changed
	for {
		v, stale := c.verdict.Load()
		next := apiserver.Condition{Type: conditionType, Status: statuses[v.Status], Reason: v.Reason, Message: v.Message, Transition: v.Since}
		if v.Reason == Recovering && stored != nil && (stored.Status == statuses[Good] || stored.Status == statuses[Bad]) {
			next = *stored // whether the cards need attention was known before but isn't now
		}
		at := due
		if stored != nil && next.Status == stored.Status {
			next.Transition = stored.Transition
			if next.Reason == stored.Reason && next.Message == stored.Message {
				at = again
			}
		}
		if lasts := v.Since.Add(pace); v.Status == Unknown && at.Before(lasts) {
			at = lasts
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
			continue
		case <-time.After(time.Until(at)):
		}
		var err error
		if stored == nil {
			var had apiserver.Condition
			if had, err = w.Condition(node, conditionType); err == nil {
				stored = &had
				continue // the status may have stayed the same
			}
		} else {
			err = w.Apply(node, next)
		}
		if err != nil {
			if ctx.Err() == nil {
				due = time.Now().Add(w.Failed(err))
				again = due
			}
			continue
		}
		w.Passed(true)
		if stored.Status != next.Status {
			log.Info("node condition changed", logevent.ConditionChanged, logevent.Node(node), logevent.Old(stored.Status),
				logevent.New(next.Status), logevent.Reason(next.Reason+": "+next.Message))
		}
		stored = &next
		due, again = time.Now().Add(pace), time.Now().Add(refresh+rand.N(refresh/5))
	}
}
