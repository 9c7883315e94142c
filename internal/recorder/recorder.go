package recorder

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Config says for whom Events are written.
type Config struct {
	Node   string // its name
	Client *apiserver.Client
	// Count is called for each Event that was written ([Sent]), given up ([Failed])
	// or left out ([Dropped]), from several goroutines; may be nil.
	Count func(result string)
}

// Results, for [Config.Count].
const (
	Sent    = "sent"
	Failed  = "failed"  // the API server did not take it, or was gone for too long
	Dropped = "dropped" // there were too many, or the pod, or its namespace, has ended
)

// Devices is what can be followed: an inventory.
type Devices interface {
	Latest() (inventory.Snapshot, <-chan struct{}) // the channel closes when the snapshot is stale
}

// Holders says who holds what, by the ids of devices, as [inventory.Config] has it.
type Holders func(context.Context) (map[string][]inventory.Holding, error)

// Recorder writes Events. Make it with [New].
type Recorder struct {
	cfg Config
	log *zap.Logger

	seen map[string]state // by id; of the one Follow that runs

	mu     sync.Mutex
	table  map[key]*record
	queue  []*record // those that are to be written, the longest waiting first
	bucket bucket
	lost   lost
	poke   chan struct{} // there is something to do

	anonymous bool // of Run: that uids cannot be asked for has been said
	last      int64
}

// New makes a recorder; it does nothing yet.
func New(cfg Config, log *zap.Logger) *Recorder {
	if cfg.Count == nil {
		cfg.Count = func(string) {}
	}
	return &Recorder{
		cfg: cfg, log: log.Named("recorder"),
		seen: make(map[string]state), table: make(map[key]*record),
		bucket: bucket{tokens: burst}, poke: make(chan struct{}, 1),
	}
}

// lost is what was left out and not said yet.
type lost struct {
	count int
	due   time.Time // when to say so
	said  time.Time // when the last line was
}

const (
	sayLost  = 5 * time.Second // after the first one: a flood is one line
	lostPace = time.Minute     // between two lines
)

// drop notes that an Event was left out.
func (r *Recorder) drop(now time.Time) {
	r.cfg.Count(Dropped)
	l := &r.lost
	if l.count == 0 {
		l.due = now.Add(sayLost)
		if next := l.said.Add(lostPace); next.After(l.due) {
			l.due = next
		}
	}
	l.count++
	r.wake()
}

// sayDropped says what was left out, and returns how long until that is due; 0:
// nothing was.
func (r *Recorder) sayDropped(now time.Time) time.Duration {
	l := &r.lost
	if l.count == 0 {
		return 0
	}
	if left := l.due.Sub(now); left > 0 {
		return left
	}
	r.log.Warn("events left out, there are too many", event.EventsDropped, event.Count(l.count))
	*l = lost{said: now}
	return 0
}

// wake makes Run look again.
func (r *Recorder) wake() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}
