package recorder

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Config holds the settings of a [Recorder].
type Config struct {
	Node   string // name of the node
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

// Holders returns the holdings of each device by its id, as in [inventory.Config].
type Holders func(context.Context) (map[string][]inventory.Holding, error)

// Recorder writes Events. Make it with [New].
type Recorder struct {
	cfg Config
	log *zap.Logger

	mu       sync.Mutex
	table    map[key]*record
	queue    []*record // those that are to be written, the longest waiting first
	limit    limit
	dropped  int           // Events that were left out since the last line about it
	reportAt time.Time     // when the next line about it may be logged
	poke     chan struct{} // wakes Run

	anonymous bool  // of Run: the log has that the uids of pods are forbidden
	lastName  int64 // of Run: number in the newest name
}

// New returns a recorder that does nothing until it is run.
func New(cfg Config, log *zap.Logger) *Recorder {
	if cfg.Count == nil {
		cfg.Count = func(string) {}
	}
	return &Recorder{cfg: cfg, log: log.Named("recorder"), table: make(map[key]*record), poke: make(chan struct{}, 1)}
}

// wake makes Run look at the queue again.
func (r *Recorder) wake() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}
