package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
)

// API is the Kubernetes API through which a daemon offers its devices: the device plugin API, or
// DRA. The daemon calls Configure, Start, Run, Withdraw and Close at most once, in this order. The other methods
// must be safe for concurrent use, and are called after Start unless their comment allows otherwise.
type API interface {
	// Configure sets the fields of cfg about holders: Holders, Record and Given. OtherAPI is set.
	Configure(ctx context.Context, cfg *inventory.Config) error
	// Start gives the API the inventory, which is not running yet. ctx ends with the daemon.
	Start(ctx context.Context, inv *inventory.Inventory)
	// Run offers the devices until ctx ends. An error ends the daemon.
	Run(ctx context.Context) error
	// Withdraw removes from Kubernetes those devices that would remain there after the end of the daemon, and returns
	// nil if none remains. It is called after Run has ended, unless the daemon has failed or another daemon of this API
	// runs on the node. It is also called if Start was not called.
	Withdraw(ctx context.Context) error
	// Close releases what the API has opened. It is called after all tasks have ended.
	Close() error

	// Policy returns the policy of the inventory for these settings and cordons, with the names of the
	// devices. It is also called before Start.
	Policy(cfg config.Config, cordons []cordon.Cordon) inventory.Policy
	// Reregister registers with the kubelet again.
	Reregister()
	// Holders returns who uses which device. It may block until ctx ends.
	Holders(ctx context.Context) inventory.Holdings
	// Resources returns the resources under which devices are offered.
	Resources() []metrics.Resource
	// Alive returns an error if a main goroutine hangs.
	Alive() error
	// Ready returns nil if Kubernetes has the devices.
	Ready() error
}

// Daemon follows the devices of a node and offers them through an API. Its fields do not change
// while it runs.
type Daemon struct {
	Program string        // name of the program, for the API server
	Version string        // of the program
	Kind    string        // of the API: control.DevicePlugin or control.DRA
	Config  config.Config // as read at the start
	Log     *zap.Logger
	Metrics *metrics.Metrics
	Open    func() (API, error) // opens the API at the start
	Guest   bool                // offers no device, so it runs beside the owner of the node, without a lock

	Loader  *config.Loader   // the loader that has loaded Config; nil: there are no files
	Hangups <-chan os.Signal // SIGHUP; nil: not handled by Serve
	toggles <-chan os.Signal // SIGUSR1; nil: not handled
	toggle  func()           // switches level debug; not used if toggles is nil
}

// Live calls [Daemon.Serve] with the signals SIGHUP and SIGUSR1 of the process, and logs the start and
// the end. log is the log of d.
func (d *Daemon) Live(ctx context.Context, log *Log) error {
	hangups, toggles := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(toggles, syscall.SIGUSR1)
	defer signal.Stop(hangups)
	defer signal.Stop(toggles)
	d.Hangups, d.toggles, d.toggle = hangups, toggles, log.Toggle
	// Few objects live long, so frequent collections cost little. They make the resident memory of the device
	// plugin about 2 MiB smaller. A GOGC in the environment takes precedence.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	d.Log.Info("daemon started", logevent.DaemonStarted, logevent.Version(d.Version),
		logevent.PID(os.Getpid()), logevent.Mode(d.Config.Mode), logevent.Node(d.Config.NodeName))
	err := d.Serve(ctx)
	log.EndCounts()
	if err != nil {
		d.Log.Error("daemon failed", logevent.DaemonFailed, logevent.Err(err))
		return err
	}
	d.Log.Info("daemon stopped", logevent.DaemonStopped)
	return nil
}

// Serve opens the parts of the daemon, starts their tasks and makes new policies until ctx
// ends or a task fails.
func (d *Daemon) Serve(ctx context.Context) (failed error) {
	cfg, log := d.Config, d.Log // cfg changes with the mode and with the files
	defer backlog.FlushOnPanic(log)
	if err := checkStateDir(cfg.StateDir, d.Kind); err != nil {
		return err
	}
	api, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, api.Close()) }()
	client, err := d.apiServer()
	if err != nil {
		return err
	}

	tasks, ctx := errgroup.WithContext(ctx)
	task := func(name string, run func(context.Context) error) {
		tasks.Go(func() error {
			defer backlog.FlushOnPanic(log)
			if err := run(ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	fail := func(err error) error { // ends the tasks that were started
		tasks.Go(func() error { return err })
		return tasks.Wait()
	}
	task("stop", func(ctx context.Context) error {
		<-ctx.Done()
		log.Info("daemon stopping", logevent.DaemonStopping, logevent.Reason(context.Cause(ctx).Error()))
		return nil
	})

	owned := owner.New(cfg.StateDir, d.Kind, log)
	d.Metrics.FollowOwner(func() string { return string(owned.WaitsFor()) })
	probes := &switchable{owned: owned}
	if cfg.HTTPAddress != "" {
		address := cfg.HTTPAddress
		task("http", func(ctx context.Context) error {
			return httpd.Run(ctx, address, probes.answers(d.Metrics), log)
		})
	}
	// A daemon that waits for another naming is ready. So what would make it fail is found before.
	if _, err := OpenHost(cfg); err != nil {
		return fail(err)
	}

	// The mode is chosen before the node is taken, because it is part of the naming, and before the first card is
	// read: if it changed later, the kubelet would have the resources of both modes.
	var modes chan string // nil: the mode is that of the settings
	if client != nil && cfg.NodeAnnotation {
		modes = make(chan string, 1)
		selector := modeSelector{setting: cfg.Mode, mode: cfg.Mode, modes: modes, log: log}
		task("node annotation", func(ctx context.Context) error {
			return client.FollowNode(ctx, cfg.NodeName, selector.changed, func() { selector.refused(cfg.NodeName) })
		})
		select {
		case <-ctx.Done():
			return tasks.Wait()
		case asked := <-modes:
			logMode(log, cfg.Mode, asked)
			cfg.Mode = asked
		case <-time.After(FirstAnswer):
			logUnknownMode(log, cfg.NodeName, cfg.Mode)
		}
	}
	live := openSettings(d.Loader, cfg, log, d.Metrics)
	changed := make(chan config.Files)
	if live.loader.Follows() {
		task("settings", func(ctx context.Context) error { return live.follow(ctx, changed) })
	}

	// Nothing is read or offered before the daemons of the other API, and those that name the devices in another way,
	// have ended.
	for !d.Guest {
		var wanted atomic.Int64
		want := func() { wanted.Store(int64(Naming(cfg, d.Kind))) }
		want()
		taken := make(chan error, 1)
		task("owner", func(ctx context.Context) error {
			taken <- owned.Take(ctx, func() owner.Naming { return owner.Naming(wanted.Load()) })
			return nil
		})
		for waiting := true; waiting; {
			select {
			case err := <-taken:
				if err != nil { // ctx has ended
					return tasks.Wait()
				}
				waiting = false
			case asked := <-modes:
				logMode(log, cfg.Mode, asked)
				cfg.Mode = asked
				want()
			case files := <-changed:
				live.changed(&cfg, files)
				want()
			}
		}
		if owned.Naming() == Naming(cfg, d.Kind) {
			break
		}
		owned.Release() // the settings have changed after the last attempt
	}
	defer func() {
		withdraw := api.Withdraw
		if failed != nil || ctx.Err() == nil { // a panic: the tasks still run, and could offer the devices again
			withdraw = nil
		}
		owned.Leave(ctx, withdraw)
	}()
	book, err := cordon.Open(cfg.StateDir, log)
	if err != nil {
		return fail(fmt.Errorf("--state-dir: %w", err))
	}

	watched := Watching(cfg, d.Metrics)
	cordoned := book.Changed()
	watched.Policy = api.Policy(cfg, book.List())
	watched.OtherAPI = owned.OtherMayHold()
	if err := api.Configure(ctx, &watched); err != nil {
		return fail(err)
	}
	node, err := OpenNode(cfg, watched, log, log)
	if err != nil {
		return fail(err)
	}
	api.Start(ctx, node.Inventory)
	inForce := latest.New(cfg)
	if !d.Guest { // the devices of the node are in the metrics of the owner
		mode := func() string {
			c, _ := inForce.Load()
			return c.Mode
		}
		d.Metrics.Follow(stateOf(mode, live.hash, node.Inventory, api, cfg.HolderMetrics))
	}
	shown := &stateSource{
		version: d.Version, kind: d.Kind, started: time.Now(), inForce: inForce, settings: live.state,
		inventory: node.Inventory, cordons: book, holders: api.Holders, changes: latest.NewSignal(),
	}

	task("watcher", node.Watch)
	task("inventory", node.Inventory.Run)
	task("server", api.Run)
	task("cordons", book.Run)
	if client != nil && cfg.Events {
		events := kubeevents.New(kubeevents.Config{Node: cfg.NodeName, Client: client, Cordon: book.Of, Count: d.Metrics.APIEvent}, log)
		task("events", events.Run)
		task("events", func(ctx context.Context) error { return events.Follow(ctx, node.Inventory, watched.Holders) })
	}
	probes.use(answers(node, api, shown))
	if cfg.Socket != "" {
		socket := cfg.Socket
		task("socket", shown.follow)
		task("socket", func(ctx context.Context) error {
			c := cordons{book, node.Inventory}
			return control.Run(ctx, socket, control.Answers{
				State: shown.state, Changed: shown.changes.Next, Cordon: c.add, Uncordon: c.remove,
			}, log)
		})
	}

	// cfg has the newest settings, used those in force. While another daemon offers the devices under their former
	// names, only the settings that leave the names as they are take effect.
	used := cfg
	var retry, renamed <-chan time.Time
	use := func(next config.Config) {
		logMode(log, used.Mode, next.Mode)
		used = next
		inForce.Store(used)
		node.Inventory.Use(api.Policy(used, book.List()))
	}
	rename := func() bool {
		former := owned.Naming()
		if !d.Guest && !owned.Rename(ctx, Naming(cfg, d.Kind)) {
			retry = time.After(owner.RenameInterval)
			return false
		}
		if retry = nil; owned.Naming() != former {
			renamed = time.After(withdrawn)
		}
		return true
	}
	apply := func() {
		next := cfg
		if !rename() {
			next.Mode, next.Resources = used.Mode, used.Resources
		}
		use(next)
	}
	for {
		select {
		case <-ctx.Done():
			return tasks.Wait()
		case asked := <-modes:
			if cfg.Mode != asked {
				cfg.Mode = asked
				apply()
			}
		case files := <-changed:
			if live.changed(&cfg, files) {
				apply()
			}
		case <-retry:
			if rename() {
				use(cfg)
			}
		case <-renamed:
			owned.Renamed()
		case <-cordoned:
			cordoned = book.Changed()
			node.Inventory.Use(api.Policy(used, book.List()))
		case <-d.toggles:
			d.toggle()
		case <-d.Hangups:
			message := "hangup received, settings unchanged"
			if live.take(&cfg, live.loader.Read()) {
				message = "hangup received"
				apply()
			}
			log.Info(message, logevent.Reloaded, logevent.Devices(slices.Sorted(maps.Keys(cfg.Exclude))))
			node.Inventory.Hint(inventory.Hint{Source: "sighup", At: time.Now()})
			api.Reregister()
		}
	}
}

// withdrawn is the time after which the lists under the former names have reached Kubernetes, and daemons that wait
// may offer the devices under the new ones. The inventory withdraws all devices that may change their name at once.
const withdrawn = time.Second

// apiServer returns a client of the API server, or nil if none is needed.
func (d *Daemon) apiServer() (*apiserver.Client, error) {
	if d.Config.NodeName == "" || !d.Config.NodeAnnotation && !d.Config.Events {
		return nil, nil
	}
	client, err := apiserver.Open(apiserver.Config{
		Kubeconfig: d.Config.Kubeconfig, LookupEnv: os.LookupEnv, UserAgent: d.Program + "/" + d.Version,
		Failed: d.Metrics.APIFailed,
	}, d.Log)
	if err != nil {
		return nil, fmt.Errorf("--node-name %s: %w", d.Config.NodeName, err)
	}
	return client, nil
}

// switchable has the functions behind /healthz, /readyz and /devices, which change when the daemon owns the node.
type switchable struct {
	owned   *owner.Node
	serving atomic.Pointer[httpd.Answers]
}

func (s *switchable) use(a httpd.Answers) { s.serving.Store(&a) }

// now returns the present functions. A daemon that waits for the node is alive, and has no devices. It is not ready,
// unless it waits for a daemon of its API with another naming: in an upgrade, Kubernetes ends that one only after this
// one is ready.
func (s *switchable) now() httpd.Answers {
	if a := s.serving.Load(); a != nil {
		return *a
	}
	return httpd.Answers{
		Alive: func(context.Context) error { return nil },
		Ready: func(context.Context) error {
			if s.owned.WaitsFor() == owner.ForNaming {
				return nil
			}
			return cmp.Or(s.owned.Waiting(), errStarting)
		},
		Devices: func(context.Context) any { return []struct{}{} },
	}
}

var errStarting = errors.New("starting")

func (s *switchable) answers(m *metrics.Metrics) httpd.Answers {
	return httpd.Answers{
		Metrics: m.Handler(),
		Alive:   func(ctx context.Context) error { return s.now().Alive(ctx) },
		Ready:   func(ctx context.Context) error { return s.now().Ready(ctx) },
		Devices: func(ctx context.Context) any { return s.now().Devices(ctx) },
	}
}

// answers returns the functions behind /healthz, /readyz and /devices.
func answers(n *Node, api API, shown *stateSource) httpd.Answers {
	alive := func(ctx context.Context) error { return n.alive(ctx, api) }
	return httpd.Answers{
		Alive: alive,
		Ready: func(ctx context.Context) error { return errors.Join(api.Ready(), alive(ctx)) },
		Devices: func(ctx context.Context) any {
			list, _, _ := shown.list(ctx) // unknown holders are shown as none
			return list.Rows()
		},
	}
}

// alive returns an error if the main goroutine of the watcher, the inventory or the API hangs.
func (n *Node) alive(ctx context.Context, api API) error {
	var loop error
	if n.Inventory.Alive(ctx) != nil {
		loop = fmt.Errorf("inventory: %w", context.Cause(ctx))
	}
	return errors.Join(loop, n.Watcher.Alive(), api.Alive())
}
