package main

import (
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

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/control"
	"b-com.com/accelerator-device-plugin/internal/cordon"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/recorder"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/cdi"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/prefer"
)

func serveCommand(cmd *cobra.Command, loader *config.Loader) error {
	cfg, err := load(loader)
	if err != nil {
		return err
	}
	// If the reader of the log closes the pipe, lines are lost, but the daemon must continue.
	signal.Ignore(syscall.SIGPIPE)
	counts := metrics.New(buildVersion())
	log := openLog(cfg, cmd.ErrOrStderr(), counts)
	defer log.close()
	server.UseLogger(log.Logger)
	apiserver.UseLogger(log.Logger)
	if loader.IsSet("accel-nbunits") && cfg.Mode != offer.Pool {
		log.Warn("setting has no effect in this mode", event.ConfigNotice, event.Flag("accel-nbunits"), event.Mode(cfg.Mode))
	}
	annotated := cfg.NodeName != "" && cfg.NodeAnnotation
	if cfg.ProgrammingHook != "" && cfg.Mode != offer.Region && !annotated {
		log.Warn("setting has no effect in this mode", event.ConfigNotice,
			event.Flag("programming-hook"), event.Mode(cfg.Mode))
	}
	hangups, toggles := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(toggles, syscall.SIGUSR1)
	defer signal.Stop(hangups)
	defer signal.Stop(toggles)

	// Few objects live long, so frequent collections cost little: resident memory is about 2 MiB
	// smaller. A GOGC in the environment takes precedence.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	s := &service{
		cfg: cfg, log: log.Logger, metrics: counts, hangups: hangups, toggles: toggles, toggle: log.toggle,
		loader: loader,
	}
	return s.live(cmd.Context(), log)
}

// service is the daemon. Its fields do not change while it runs.
type service struct {
	cfg     config.Config // as read at the start
	log     *zap.Logger
	metrics *metrics.Metrics

	loader  *config.Loader   // has loaded cfg; nil: there are no files
	hangups <-chan os.Signal // SIGHUP; nil: not handled

	toggles <-chan os.Signal // SIGUSR1; nil: not handled
	toggle  func()           // switches level debug; not used if toggles is nil

	// timing changes intervals and timeouts that are not settings. It is nil outside tests.
	timing func(*inventory.Config, *server.Config)
}

// live runs the daemon until ctx ends, and logs its start and its end.
func (s *service) live(ctx context.Context, log *daemonLog) error {
	s.log.Info("daemon started", event.DaemonStarted, event.Version(buildVersion()),
		event.PID(os.Getpid()), event.Mode(s.cfg.Mode), event.Node(s.cfg.NodeName))
	err := s.serve(ctx)
	log.endCounts()
	if err != nil {
		s.log.Error("daemon failed", event.DaemonFailed, event.Err(err))
		return failure{error: err, logged: true}
	}
	s.log.Info("daemon stopped", event.DaemonStopped)
	return nil
}

// serve opens the parts of the daemon, starts their tasks and makes new policies until ctx
// ends or a task fails.
func (s *service) serve(ctx context.Context) (failed error) {
	cfg, log := s.cfg, s.log // cfg changes with the mode and with the files
	defer backlog.FlushOnPanic(log)
	settings := server.Defaults()
	settings.KubeletDir, settings.HostDevRoot = cfg.KubeletDir, cfg.HostDevRoot
	settings.AllocationPolicy, settings.Metrics = prefer.Policy(cfg.AllocationPolicy), s.metrics
	if cfg.CDIDir != "" {
		spec, err := cdi.Open(cfg.CDIDir, cfg.ResourceNamespace+"/fpga", cfg.HostDevRoot)
		if err != nil {
			return fmt.Errorf("--cdi-dir: %w", err)
		}
		defer func() { failed = errors.Join(failed, spec.Close()) }()
		settings.CDI = spec
		if cfg.ProgrammingHook != "" {
			settings.ProgrammingHook = &cdi.Hook{Path: cfg.ProgrammingHook, Args: cfg.ProgrammingHookArgs}
		}
	}
	book, err := cordon.Open(cfg.StateDir, log)
	if err != nil {
		return fmt.Errorf("--state-dir: %w", err)
	}
	client, err := s.apiServer()
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
		log.Info("daemon stopping", event.DaemonStopping, event.Reason(context.Cause(ctx).Error()))
		return nil
	})

	// The mode is chosen before the first card is read: after a change of the mode, the kubelet would
	// have the resources of both modes.
	var mode atomic.Value
	mode.Store(cfg.Mode)
	change := func(asked string) (changed bool) {
		if changed = asked != cfg.Mode; changed {
			log.Info("mode changed", event.ModeChanged, event.Old(cfg.Mode), event.New(asked))
			cfg.Mode = asked
			mode.Store(asked)
		}
		return changed
	}
	var modes chan string // nil: the mode is that of the settings
	if client != nil && cfg.NodeAnnotation {
		modes = make(chan string, 1)
		selector := modeSelector{setting: cfg.Mode, mode: cfg.Mode, modes: modes, log: log}
		task("node annotation", func(ctx context.Context) error {
			return client.FollowNode(ctx, s.cfg.NodeName, selector.changed, func() { selector.refused(s.cfg.NodeName) })
		})
		select {
		case <-ctx.Done():
			return tasks.Wait()
		case asked := <-modes:
			change(asked)
		case <-time.After(firstAnswer):
			logUnknownMode(log, cfg.NodeName, cfg.Mode)
		}
	}

	watched := watching(cfg, s.metrics)
	cordoned := book.Changed()
	watched.Policy = devicePolicy(cfg, book.List())
	if s.timing != nil {
		s.timing(&watched, &settings)
	}
	owned := &ownership{policy: policyOf(cfg)}
	source := holderSource{
		socket: cfg.PodResourcesSocket, kubeletDir: cfg.KubeletDir, owns: owned.owns, given: settings.Allocations,
	}
	watched.Holders, watched.Record, watched.Given = source.ask, source.record(), settings.Allocations.Added()
	node, err := openNode(cfg, watched, log, log)
	if err != nil {
		return fail(err)
	}
	srv := server.New(settings, node.inventory, log)
	live := openSettings(s.loader, cfg, log, s.metrics)
	s.metrics.Follow(stateOf(func() string { return mode.Load().(string) }, live.hash, node.inventory, srv, cfg.HolderMetrics))

	inForce := latest.New(cfg)
	shown := &stateSource{
		started: time.Now(), inForce: inForce, settings: live.state,
		inventory: node.inventory, cordons: book, holders: shareHolders(ctx, source), changes: latest.NewSignal(),
	}

	task("watcher", node.watch)
	task("inventory", node.inventory.Run)
	task("server", srv.Run)
	task("cordons", book.Run)
	changed := make(chan config.Files)
	if live.loader.Follows() {
		task("settings", func(ctx context.Context) error { return live.follow(ctx, changed) })
	}
	if client != nil && cfg.Events {
		events := recorder.New(recorder.Config{Node: cfg.NodeName, Client: client, Cordon: book.Of, Count: s.metrics.APIEvent}, log)
		task("events", events.Run)
		task("events", func(ctx context.Context) error { return events.Follow(ctx, node.inventory, source.ask) })
	}
	if cfg.HTTPAddress != "" {
		task("http", func(ctx context.Context) error {
			return httpd.Run(ctx, s.cfg.HTTPAddress, answers(node, srv, shown, s.metrics), log)
		})
	}
	if cfg.Socket != "" {
		task("socket", shown.follow)
		task("socket", func(ctx context.Context) error {
			c := cordons{book, node.inventory}
			return control.Run(ctx, s.cfg.Socket, control.Answers{
				State: shown.state, Changed: shown.changes.Next, Cordon: c.add, Uncordon: c.remove,
			}, log)
		})
	}

	for {
		inForce.Store(cfg)
		select {
		case <-ctx.Done():
			return tasks.Wait()
		case asked := <-modes:
			if change(asked) {
				node.inventory.Use(devicePolicy(cfg, book.List()))
			}
		case files := <-changed:
			if live.changed(&cfg, files) {
				owned.add(cfg.Resources)
				node.inventory.Use(devicePolicy(cfg, book.List()))
			}
		case <-cordoned:
			cordoned = book.Changed()
			node.inventory.Use(devicePolicy(cfg, book.List()))
		case <-s.toggles:
			s.toggle()
		case <-s.hangups:
			message := "hangup received, settings unchanged"
			if live.take(&cfg, live.loader.Read()) {
				message = "hangup received"
				owned.add(cfg.Resources)
				node.inventory.Use(devicePolicy(cfg, book.List()))
			}
			log.Info(message, event.Reloaded, event.Devices(slices.Sorted(maps.Keys(cfg.Exclude))))
			node.inventory.Hint(inventory.Hint{Source: "sighup", At: time.Now()})
			srv.Reregister()
		}
	}
}

// apiServer returns a client of the API server, or nil if none is needed.
func (s *service) apiServer() (*apiserver.Client, error) {
	if s.cfg.NodeName == "" || !s.cfg.NodeAnnotation && !s.cfg.Events {
		return nil, nil
	}
	client, err := apiserver.Open(apiserver.Config{
		Kubeconfig: s.cfg.Kubeconfig, LookupEnv: os.LookupEnv, UserAgent: "accelerator-device-plugin/" + buildVersion(),
		Failed: s.metrics.APIFailed,
	}, s.log)
	if err != nil {
		return nil, fmt.Errorf("--node-name %s: %w", s.cfg.NodeName, err)
	}
	return client, nil
}
