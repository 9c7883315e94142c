package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
)

// holdersSoon is how long a response waits for the kubelet to report the holders.
const holdersSoon = 500 * time.Millisecond

// stateSource answers requests for the daemon's state, over HTTP and on the local socket. It is safe for concurrent
// use.
type stateSource struct {
	started   time.Time
	inForce   *latest.Value[config.Config]
	settings  *latest.Value[control.Settings]
	inventory *inventory.Inventory
	cordons   *cordon.Book
	missing   func() ([]ledger.Missing, <-chan struct{})
	sensors   func() map[string]sensors.Card
	history   func() []ledger.History
	holders   func(context.Context) inventory.Holdings
	lockCheck func() error // see [owner.Node.LockCheck]
	judgement *nodecondition.Judgement
	version   string
	kind      string        // the API
	changes   latest.Signal // raised by follow
}

// list returns the devices and their holders. complete reports whether every card has been read or has timed out. If
// err is non-nil, some holders are unknown.
func (s *stateSource) list(ctx context.Context) (list view.List, complete bool, err error) {
	cfg, _ := s.inForce.Load()
	snapshot := s.complete(ctx)
	asking, cancel := context.WithTimeout(ctx, holdersSoon)
	defer cancel()
	use := s.holders(asking)
	missing, _ := s.missing()
	return view.List{
		Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, HostSys: cfg.HostSysfsRoot, Use: use, Cordons: s.cordons.List(),
		Missing: missing, Sensors: s.sensors(),
	}, snapshot.Complete, use.Problem()
}

// complete returns the newest snapshot. Shortly after startup, it first waits until each card has been read or has
// timed out, because until then, the snapshot doesn't contain all cards.
func (s *stateSource) complete(ctx context.Context) inventory.Snapshot {
	ctx, cancel := context.WithDeadline(ctx, s.started.Add(ReadTimeout+time.Second))
	defer cancel()
	for {
		snapshot, stale := s.inventory.Latest()
		if snapshot.Complete || ctx.Err() != nil {
			return snapshot
		}
		select {
		case <-stale:
		case <-ctx.Done():
		}
	}
}

// state returns the response for the local socket.
func (s *stateSource) state(ctx context.Context) control.State {
	cfg, _ := s.inForce.Load()
	settings, _ := s.settings.Load()
	list, complete, err := s.list(ctx)
	verdict, _ := s.judgement.Latest()
	state := control.State{
		Version: s.version, API: s.kind, PID: os.Getpid(), Started: s.started, Mode: cfg.Mode, KubeletDir: cfg.KubeletDir, Settings: settings,
		Cordons: append([]cordon.Cordon{}, list.Cordons...), IdleRules: IdleRules(OfferNaming(cfg), list.Devices),
		Devices: list.Rows(), Incomplete: !complete, Verdict: verdict, Cards: s.history(),
	}
	if err != nil {
		state.HoldersError = err.Error()
	}
	if err := s.lockCheck(); err != nil {
		state.StateDirError = err.Error()
	}
	if s.kind == control.DRA { // rules name resources, which DRA doesn't have
		state.IdleRules = []string{}
	}
	return state
}

// follow raises the changes signal whenever the devices, the missing cards, the mode, the settings or the cordons have
// changed, until ctx is done. It doesn't follow changes in holders.
func (s *stateSource) follow(ctx context.Context) error {
	for {
		_, devices := s.inventory.Latest()
		_, policy := s.inForce.Load()
		_, settings := s.settings.Load()
		cordons := s.cordons.Changed()
		_, missing := s.missing()
		s.changes.Raise() // do this after loading everything, so that no earlier change is missed
		select {
		case <-ctx.Done():
			return nil
		case <-devices:
		case <-policy:
		case <-settings:
		case <-cordons:
		case <-missing:
		}
	}
}

// IdleRules returns the rules that don't apply to any device, because they are wrong, are for cards that this node
// doesn't have, or come after another rule that matches the same devices.
func IdleRules(naming offer.Naming, devices []*inventory.Device) []string {
	used := make(map[int]bool)
	for _, d := range devices {
		used[naming.RuleOf(d)] = true
	}
	idle := []string{}
	for i, rule := range naming.Rules {
		if !used[i] {
			idle = append(idle, fmt.Sprintf("rule %d of resources: %s", i+1, rule))
		}
	}
	return idle
}
