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

// Config holds a [Recorder]'s settings.
type Config struct {
	Node   string // the node's name
	Client *apiserver.Client
	// Cordon returns the cordon of a device with these members, or nil if it isn't cordoned. If Cordon is nil, there
	// are no cordons.
	Cordon func(device string, members ...string) *cordon.Cordon
	// Missing returns the missing cards and a channel that is closed when they change. If it is nil, no missing cards
	// are reported.
	Missing func() ([]ledger.Missing, <-chan struct{})
	// Count is called for each Event, with [Sent], [Failed] or [Dropped]. It must be safe for concurrent use.
	Count func(result string)
}

// Results, for [Config.Count].
const (
	Sent    = "sent"
	Failed  = "failed"  // rejected by the API server, or still failing after 5 minutes
	Dropped = "dropped" // because of the rate limit or a full table, or because the pod or its namespace is gone
)

// Devices is the source of devices, usually an [inventory.Inventory].
type Devices interface {
	Latest() (inventory.Snapshot, <-chan struct{}) // the channel is closed when there is a newer snapshot
}

// Holders returns the current holders of each device, as in [inventory.Config].
type Holders func(context.Context) inventory.Holdings

// Recorder writes Events. Create it with [New].
type Recorder struct {
	cfg Config
	log *zap.Logger

	mu     sync.Mutex
	events []*record     // the table; the Event that Run last tried to write is at the end
	poke   chan struct{} // wakes Run

	anonymous sync.Once // used by Run; logs once that getting pod UIDs is forbidden
	lastName  int64     // used by Run; the number in the newest name
}

// New returns a recorder, which doesn't do anything until Run and Follow are called.
func New(cfg Config, log *zap.Logger) *Recorder {
	return &Recorder{cfg: cfg, log: log.Named("recorder"), poke: make(chan struct{}, 1)}
}
