package daemon

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/inventory"
)

// run is the state of a call to [Daemon.Serve]. It belongs to Serve's goroutine; tasks get what they need when they are
// started.
type run struct {
	*Daemon
	tasks  *errgroup.Group
	api    API
	client *apiserver.Client // nil if none is needed
	owned  *owner.Node

	cfg     config.Config // the newest settings, from the files and the annotation
	modes   chan string   // modes from the annotation; nil if the mode comes from the settings
	live    *liveSettings
	changed chan config.Files
	probes  *switchable

	book     *cordon.Book
	ledger   *ledger.Ledger
	cordoned <-chan struct{} // closed when the cordons differ from those in the current policy
	node     *Node
	inForce  *latest.Value[config.Config]

	// used holds the settings in effect. While another daemon advertises the devices under their old names, only the
	// changes in cfg that don't affect names take effect.
	used    config.Config
	retry   <-chan time.Time // when to call rename again; nil if the names match cfg
	renamed <-chan time.Time // fires when the old names have been withdrawn
}

// withdrawn is how long it takes for the last lists with the old names to reach Kubernetes. After that, waiting daemons
// can advertise the devices under the new names. The inventory immediately withdraws all devices whose names may
// change.
const withdrawn = time.Second

// serve starts all tasks, and then keeps the policy up to date until ctx is done. It then returns nil, without waiting
// for the tasks to end.
//
// The mode is part of the naming, so it is chosen before the node lock is acquired. It is also chosen before the first
// card is read: if it changed later, the kubelet would keep the resources of both modes. Nothing is read or advertised
// until the daemon has the node lock.
func (r *run) serve(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if !r.chooseMode(ctx) {
		return nil
	}
	r.followSettings(ctx)
	if !r.takeNode(ctx) {
		return nil
	}
	holders, err := r.openNode(ctx)
	if err != nil {
		return err
	}
	r.startTasks(ctx, holders)
	r.followChanges(ctx)
	return nil
}

// task starts a task. If the task fails, all tasks end.
func (r *run) task(ctx context.Context, name string, do func(context.Context) error) {
	r.tasks.Go(func() error {
		defer backlog.FlushOnPanic(r.Log)
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// prepare starts the tasks that run even while the daemon is waiting for the node.
func (r *run) prepare(ctx context.Context) error {
	r.task(ctx, "stop", func(ctx context.Context) error {
		<-ctx.Done()
		r.Log.Info("daemon stopping", logevent.DaemonStopping, logevent.Reason(context.Cause(ctx).Error()))
		return nil
	})
	owned := r.owned
	r.Metrics.FollowOwner(func() string { return string(owned.WaitsFor()) })
	r.probes = &switchable{owned: owned}
	if address, answers := r.cfg.HTTPAddress, r.probes.answers(r.Metrics); address != "" {
		r.task(ctx, "http", func(ctx context.Context) error { return httpd.Run(ctx, address, answers, r.Log) })
	}
	// A daemon counts as ready even while it waits for another one with a different naming to exit, so check now for
	// anything that would make it fail later.
	_, err := OpenHost(r.cfg)
	return err
}

// chooseMode waits briefly for the mode in the node's annotation. It returns false if ctx is done.
func (r *run) chooseMode(ctx context.Context) bool {
	if r.client == nil || !r.cfg.NodeAnnotation {
		return true
	}
	r.modes = make(chan string, 1)
	client, node := r.client, r.cfg.NodeName
	selector := modeSelector{setting: r.cfg.Mode, mode: r.cfg.Mode, modes: r.modes, log: r.Log}
	r.task(ctx, "node annotation", func(ctx context.Context) error {
		return client.FollowNode(ctx, node, selector.changed, func() { selector.refused(node) })
	})
	select {
	case <-ctx.Done():
		return false
	case asked := <-r.modes:
		r.setMode(asked)
	case <-time.After(FirstAnswer):
		logUnknownMode(r.Log, node, r.cfg.Mode)
	}
	return true
}

// setMode records and logs a new mode, which isn't in effect yet.
func (r *run) setMode(asked string) {
	logMode(r.Log, r.cfg.Mode, asked)
	r.cfg.Mode = asked
}

// followSettings starts the task that reads changed settings files.
func (r *run) followSettings(ctx context.Context) {
	r.live = openSettings(r.Loader, r.cfg, r.Log, r.Metrics)
	if live, changed := r.live, r.changed; live.loader.HasFiles() {
		r.task(ctx, "settings", func(ctx context.Context) error { return live.follow(ctx, changed) })
	}
}

// takeNode acquires the node lock. It waits until every daemon for the other API, and every daemon whose naming doesn't
// match the newest settings, has exited. It returns false if ctx is done. A guest runs without the lock, so for a
// guest, takeNode just returns true.
func (r *run) takeNode(ctx context.Context) bool {
	for !r.Guest {
		var wanted atomic.Int64
		want := func() { wanted.Store(int64(Naming(r.cfg, r.Kind))) }
		want()
		taken := make(chan error, 1)
		owned := r.owned
		r.task(ctx, "owner", func(ctx context.Context) error {
			taken <- owned.Take(ctx, func() owner.Naming { return owner.Naming(wanted.Load()) })
			return nil
		})
		for waiting := true; waiting; {
			select {
			case err := <-taken:
				if err != nil { // ctx is done
					return false
				}
				waiting = false
			case asked := <-r.modes:
				r.setMode(asked)
				want()
			case files := <-r.changed:
				r.live.changed(&r.cfg, files)
				want()
			}
		}
		if owned.Naming() == Naming(r.cfg, r.Kind) {
			break
		}
		owned.Release() // the settings have changed since the last attempt
	}
	return true
}

// openNode opens the node's inventory, without running it yet, and passes it to the API. It returns the function from
// which the inventory gets the current holders of each device.
func (r *run) openNode(ctx context.Context) (holders func(context.Context) inventory.Holdings, err error) {
	opened := make(chan *cordon.Book, 1)
	err = privatedir.Within(context.WithoutCancel(ctx), openWithin, func() error {
		book, err := cordon.Open(r.cfg.StateDir, r.Log)
		opened <- book
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	r.book = <-opened
	r.inForce = latest.New(r.cfg)
	r.openLedger(ctx)
	watched := Watching(r.cfg, r.Metrics)
	watched.Remembered = r.ledger.Remembered()
	r.cordoned = r.book.Changed()
	watched.Policy = r.api.Policy(r.cfg, r.book.List())
	watched.HoldersUnknown = r.owned.OtherMayHold()
	if err := r.api.Configure(ctx, &watched); err != nil {
		return nil, err
	}
	if r.node, err = OpenNode(r.cfg, watched, r.Log, r.Log); err != nil {
		return nil, err
	}
	r.api.Start(ctx, r.node.Inventory)
	r.used = r.cfg
	return watched.Holders, nil
}

// startTasks starts the inventory and everything that serves its devices.
func (r *run) startTasks(ctx context.Context, holders func(context.Context) inventory.Holdings) {
	node, book, inForce := r.node, r.book, r.inForce
	sensed := sensors.New(sensors.Config{Host: node.Host, Devices: node.Inventory, Settings: func() (sensors.Settings, <-chan struct{}) {
		c, changed := inForce.Load()
		return sensors.Settings{Which: c.Sensors, Interval: c.SensorInterval}, changed
	}}, r.Log)
	if !r.Guest { // a guest leaves the sensors and the devices' metrics to the node's owner
		r.task(ctx, "sensors", sensed.Run)
		mode := func() string {
			c, _ := inForce.Load()
			return c.Mode
		}
		r.Metrics.Follow(stateOf(mode, r.live.hash, node.Inventory, r.api, r.ledger.Counts, sensed.Latest, r.cfg.HolderMetrics))
	}
	r.task(ctx, "watcher", node.Watch)
	r.task(ctx, "inventory", node.Inventory.Run)
	r.task(ctx, "server", r.api.Run)
	r.task(ctx, "cordons", book.Run)
	r.task(ctx, "ledger", func(ctx context.Context) error { return r.ledger.Run(ctx, node.Inventory) })
	if r.client != nil && r.cfg.Events {
		events := kubeevents.New(kubeevents.Config{Node: r.cfg.NodeName, Client: r.client, Cordon: book.Find, Missing: r.ledger.Missing, Count: r.Metrics.APIEvent}, r.Log)
		r.task(ctx, "events", events.Run)
		r.task(ctx, "events", func(ctx context.Context) error { return events.Follow(ctx, node.Inventory, holders) })
	}
	judgement := nodecondition.New(node.Inventory, book, r.ledger.Missing, r.ledger.Awaited, r.api.Ready)
	r.task(ctx, "condition", judgement.Run)
	if conditionType := r.cfg.NodeConditionType; r.client != nil && conditionType != "" {
		client, name := r.client, r.cfg.NodeName
		r.task(ctx, "condition", func(ctx context.Context) error { return judgement.Write(ctx, client, name, conditionType, r.Log) })
	}
	shown := &stateSource{
		version: r.Version, kind: r.Kind, started: time.Now(), inForce: inForce, settings: r.live.state,
		inventory: node.Inventory, cordons: book, missing: r.ledger.Missing, sensors: sensed.Latest, history: r.ledger.History, holders: r.api.Holders, lockCheck: r.owned.LockCheck(), judgement: judgement, changes: latest.NewSignal(),
	}
	r.probes.use(answers(node, r.api, shown))
	if socket := r.cfg.Socket; socket != "" {
		r.task(ctx, "socket", shown.follow)
		r.task(ctx, "socket", func(ctx context.Context) error {
			c := cordons{book, node.Inventory}
			return control.Run(ctx, socket, control.Answers{
				State: shown.state, Changed: shown.changes.Next, Cordon: c.add, Uncordon: c.remove, Forget: r.forget,
			}, r.Log)
		})
	}
}

// forget makes the ledger and the inventory forget an absent card, even if its device is still listed.
func (r *run) forget(ctx context.Context, card, by string) (ledger.Missing, error) {
	forgotten, err := r.ledger.Forget(ctx, card, by)
	if err == nil {
		r.node.Inventory.Forget(forgotten.Card)
	}
	return forgotten, err
}

// followChanges makes a new policy whenever the settings, the mode or the cordons change, until ctx is done.
func (r *run) followChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case asked := <-r.modes:
			if r.cfg.Mode != asked {
				r.cfg.Mode = asked
				r.apply(ctx)
			}
		case files := <-r.changed:
			if r.live.changed(&r.cfg, files) {
				r.apply(ctx)
			}
		case <-r.retry:
			if r.rename(ctx) {
				r.use(r.cfg)
			}
		case <-r.renamed:
			r.owned.Renamed()
		case <-r.cordoned:
			r.cordoned = r.book.Changed()
			r.node.Inventory.Use(r.api.Policy(r.used, r.book.List()))
		case <-r.toggles:
			r.toggle()
		case <-r.Hangups:
			r.hangUp(ctx)
		}
	}
}

// apply puts the newest settings into effect. As long as the node's naming can't be changed, the mode and the rules for
// resource names stay the same.
func (r *run) apply(ctx context.Context) {
	next := r.cfg
	if !r.rename(ctx) {
		next.Mode, next.Resources = r.used.Mode, r.used.Resources
	}
	r.use(next)
}

// use puts settings into effect.
func (r *run) use(next config.Config) {
	logMode(r.Log, r.used.Mode, next.Mode)
	r.used = next
	r.inForce.Store(next)
	r.node.Inventory.Use(r.api.Policy(next, r.book.List()))
}

// rename switches the node to the naming from the newest settings, and reports whether that succeeded. If it didn't,
// r.retry fires when it is time to try again.
func (r *run) rename(ctx context.Context) bool {
	former := r.owned.Naming()
	if !r.Guest && !r.owned.Rename(ctx, Naming(r.cfg, r.Kind)) {
		r.retry = time.After(owner.RenameInterval)
		return false
	}
	if r.retry = nil; r.owned.Naming() != former {
		r.renamed = time.After(withdrawn)
	}
	return true
}
