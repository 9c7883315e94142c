package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/recorder"
	"b-com.com/accelerator-device-plugin/internal/view"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/cdi"
	"b-com.com/accelerator-device-plugin/server/prefer"
)

// newService returns the daemon. again may be nil where nothing comes over hangups.
func newService(cfg config.Config, hangups <-chan os.Signal, again reload, log *zap.Logger, m *metrics.Metrics) *service {
	return &service{
		cfg: cfg, hangups: hangups, again: again, log: log, metrics: m,
		given: server.NewAllocations(server.AllocationGrace),
	}
}

// serve runs what there is one of, and one generation after another, until ctx ends.
func (s *service) serve(ctx context.Context) (failed error) {
	cfg, log := s.cfg, s.log
	if cfg.CDIDir != "" {
		spec, err := cdi.Open(cfg.CDIDir, cfg.ResourceNamespace+"/fpga", cfg.HostDevRoot)
		if err != nil {
			return fmt.Errorf("--cdi-dir: %w", err)
		}
		defer func() { failed = errors.Join(failed, spec.Close()) }()
		s.spec = spec
	}
	client, err := s.apiServer()
	if err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(ctx)
	task := taskOf(tasks, log)
	modes, follow := s.modes(client)
	if follow != nil {
		task("node annotation", func() error { return follow(ctx) })
	}
	if s.events = s.recorder(client); s.events != nil {
		s.followed = newRelay()
		task("events", func() error { return s.events.Run(ctx) })
		task("events", func() error { return s.events.Follow(ctx, s.followed, s.followed.holders) })
	}
	tasks.Go(func() error {
		defer backlog.FlushOnPanic(log)
		return s.run(ctx, modes)
	})
	tasks.Go(func() error {
		<-ctx.Done()
		log.Info("daemon stopping", event.DaemonStopping, event.Reason(context.Cause(ctx).Error()))
		return nil
	})
	return tasks.Wait()
}

// taskOf returns a func that adds a task to a group. An error of the task has its name.
func taskOf(tasks *errgroup.Group, log *zap.Logger) func(name string, run func() error) {
	return func(name string, run func() error) {
		tasks.Go(func() error {
			defer backlog.FlushOnPanic(log)
			if err := run(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
}

// service is the daemon as it goes on when its parts are made anew.
type service struct {
	cfg     config.Config // the newest, but for the mode; a generation's own while it runs
	hangups <-chan os.Signal
	again   reload
	log     *zap.Logger
	metrics *metrics.Metrics // of the process
	ours    owner
	given   *server.Allocations
	spec    *cdi.Spec          // nil: CDI is off
	events  *recorder.Recorder // nil: none are written

	followed *relay // by the events

	// hurry sets times that no setting speaks of; nil outside tests.
	hurry func(*inventory.Config, *server.Config)
}

// generation joins the parts for one mode and runs them until ctx ends.
func (s *service) generation(ctx context.Context, mode string) error {
	cfg, log := s.cfg, s.log
	cfg.Mode = mode
	s.ours.follow(policyOf(cfg))
	watched, settings := watching(cfg), s.serving(cfg)
	watched.Metrics, settings.Metrics = s.metrics, s.metrics
	if s.hurry != nil {
		s.hurry(&watched, &settings)
	}
	source := holderSource{socket: cfg.PodResourcesSocket, kubeletDir: cfg.KubeletDir, owns: s.ours.owns, given: settings.Allocations}
	watched.Holders, watched.Record = source.ask, source.record()
	node, err := openNode(cfg, watched, log, log)
	if err != nil {
		return err
	}
	srv, err := server.New(settings, node.inventory, log)
	if err != nil {
		node.watcher.Close()
		return fmt.Errorf("server: %w", err)
	}
	s.metrics.Follow(stateOf(func() string { return mode }, node.inventory, srv))

	tasks, ctx := errgroup.WithContext(ctx)
	task := taskOf(tasks, log)
	task("watcher", func() error { return node.watch(ctx) })
	task("inventory", func() error { return node.inventory.Run(ctx) })
	task("server", func() error { return srv.Run(ctx) })
	task("holders", func() error { return source.confirm(ctx) })
	task("hangups", func() error { return s.followHangups(ctx, mode, node.inventory, srv) })
	if s.events != nil {
		task("events", func() error { return s.followed.follow(ctx, node.inventory, watched.Holders) })
	}
	if cfg.HTTPAddress != "" {
		task("http", func() error { return httpd.Run(ctx, cfg.HTTPAddress, answers(ctx, cfg, node, srv, s.metrics), log) })
	}
	return tasks.Wait()
}

// serving is how the kubelet is served.
func (s *service) serving(cfg config.Config) server.Config {
	settings := server.Defaults()
	settings.KubeletDir, settings.HostDevRoot = cfg.KubeletDir, cfg.HostDevRoot
	settings.AllocationPolicy = prefer.Policy(cfg.AllocationPolicy)
	settings.CDI, settings.Allocations = s.spec, s.given
	return settings
}

// answers returns the answers of the HTTP server, which runs until ctx ends.
func answers(ctx context.Context, cfg config.Config, n *node, srv *server.Server, m *metrics.Metrics) httpd.Answers {
	inv, shared := n.inventory, shareHolders(ctx, cfg.PodResourcesSocket)
	return httpd.Answers{
		Metrics: m.Handler(),
		Alive:   func(ctx context.Context) error { return alive(ctx, n, srv) },
		Ready:   func(ctx context.Context) error { return ready(ctx, n, srv) },
		Devices: func(ctx context.Context) any {
			snapshot, _ := inv.Latest()
			holders, _ := shared.latest(ctx) // not known: shown as none
			return view.List{Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, Holders: holders.lookup()}.Rows()
		},
	}
}

// ready returns nil when the first scan is done, each resource has a stream, and nothing
// is stuck.
func ready(ctx context.Context, n *node, srv *server.Server) error {
	return errors.Join(srv.Ready(), alive(ctx, n, srv))
}
