package kubeevents

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Config holds the settings of a [Recorder].
type Config struct {
	Node   string // name of the node
	Client *apiserver.Client
	// Cordon returns the cordon of a device with these members, or nil. If Cordon is nil, there are no cordons.
	Cordon func(device string, members ...string) *cordon.Cordon
	// Missing returns the missing cards, and a channel that is closed when they change. nil: none is known.
	Missing func() ([]ledger.Missing, <-chan struct{})
	// Count is called for each Event that was written ([Sent]), given up ([Failed])
	// or dropped ([Dropped]). It must be safe for concurrent use.
	Count func(result string)
}

// Results, for [Config.Count].
const (
	Sent    = "sent"
	Failed  = "failed"  // refused by the API server, or not answered for too long
	Dropped = "dropped" // because of the rate limit or a full table, or the pod or its namespace has ended
)

// Devices is the source of the devices: an inventory.
type Devices interface {
	Latest() (inventory.Snapshot, <-chan struct{}) // the channel closes when the snapshot is stale
}

// Holders returns who uses which device, as in [inventory.Config].
type Holders func(context.Context) inventory.Holdings

// Recorder writes Events. Create it with [New].
type Recorder struct {
	cfg Config
	log *zap.Logger

	mu     sync.Mutex
	events []*record     // the table; the Event of the last attempt is at the end
	poke   chan struct{} // wakes Run

	anonymous sync.Once // logs once that getting the uids of pods is forbidden; of Run
	lastName  int64     // number in the newest name; of Run
}

// New returns a recorder, which starts with Run and Follow.
func New(cfg Config, log *zap.Logger) *Recorder {
	return &Recorder{cfg: cfg, log: log.Named("recorder"), poke: make(chan struct{}, 1)}
}
