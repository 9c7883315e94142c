package deviceplugin

import (
	"context"
	"fmt"
	"os"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/kubelet/podcgroup"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/server"
)

// Timing overrides intervals and timeouts that aren't settings.
type Timing func(*inventory.Config, *server.Config)

// New returns a daemon that advertises its devices as a device plugin. timing is nil except in tests.
func New(version string, cfg config.Config, log *zap.Logger, counts *metrics.Metrics, timing Timing) *daemon.Daemon {
	return &daemon.Daemon{
		Program: "accelerator-device-plugin", Version: version, Kind: control.DevicePlugin, Config: cfg, Log: log, Metrics: counts,
		Open: func() (daemon.API, error) { return open(cfg, log, counts, timing) },
	}
}

// plugin implements [daemon.API] for the device plugin API.
type plugin struct {
	*server.Server // set by Start

	log      *zap.Logger
	settings server.Config
	owned    *offer.Ownership
	cfg      config.Config
	use      *holders.Source // set by Configure
	timing   Timing          // may be nil
}

func open(cfg config.Config, log *zap.Logger, counts *metrics.Metrics, timing Timing) (*plugin, error) {
	p := &plugin{log: log, settings: server.Defaults(), cfg: cfg, timing: timing}
	p.settings.KubeletDir, p.settings.HostDevRoot, p.settings.HostSysRoot = cfg.KubeletDir, cfg.HostDevRoot, cfg.HostSysfsRoot
	p.settings.Spread, p.settings.Metrics = cfg.AllocationPolicy == "spread", counts
	if cfg.CDIDir != "" {
		spec, err := cdi.Open(cfg.CDIDir, cfg.ResourceNamespace+"/fpga", cfg.HostDevRoot)
		if err != nil {
			return nil, fmt.Errorf("--cdi-dir: %w", err)
		}
		p.settings.CDI = spec
		if cfg.ProgrammingHook != "" {
			p.settings.ProgrammingHook = &cdi.Hook{Path: cfg.ProgrammingHook, Args: cfg.ProgrammingHookArgs}
		}
	}
	p.owned = offer.NewOwnership(daemon.OfferNaming(cfg))
	return p, nil
}

func (p *plugin) Configure(ctx context.Context, cfg *inventory.Config) error {
	if p.timing != nil {
		p.timing(cfg, &p.settings)
	}
	source := Sources(p.cfg, p.owned.Owns)
	source.Allocations, source.Alone = p.settings.Allocations, !cfg.HoldersUnknown
	source.StateDir = p.cfg.StateDir // for a driver that runs later
	source.Confirm = min(holders.Confirm, cfg.HoldersInterval)
	source.Refresh = func() bool { return p.Refresh() } // a closure, because the server it calls is set later
	injected, err := holders.OpenInjected(p.cfg.StateDir)
	if err != nil {
		return fmt.Errorf("--state-dir: %w", err)
	}
	source.Injected, p.settings.Injected = injected, injected.Add
	if source.InPod && !podcgroup.Found(source.CgroupRoot) {
		p.log.Warn("no cgroups of pods found, so a force-deleted pod may share its device with the next pod", logevent.ConfigNotice, logevent.Flag("cgroup-root"))
	}
	p.use = holders.New(source)
	p.settings.Ending = p.use.Ending
	cfg.Holders, cfg.Given = p.use.Ask, p.settings.Allocations.Added()
	cfg.Record, err = p.use.Record(ctx)
	cfg.HoldersUnknown = cfg.HoldersUnknown || err != nil // the first query for holders will report this error
	return nil
}

// Sources returns the configuration for finding out who is using the plugin's devices.
func Sources(cfg config.Config, owns func(resource, id string) bool) holders.Config {
	return holders.Config{
		Rules:  holders.Rules{Owns: owns, InPod: os.Getenv("KUBERNETES_SERVICE_HOST") != "", Node: cfg.NodeName, DevRoot: cfg.HostDevRoot, Grace: cfg.TombstoneGrace},
		Socket: cfg.PodResourcesSocket, KubeletDir: cfg.KubeletDir, CgroupRoot: cfg.CgroupRoot,
	}
}

func (p *plugin) Start(_ context.Context, inv *inventory.Inventory) {
	p.Server = server.New(p.settings, inv, p.log)
}

func (p *plugin) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { p.use.Watch(ctx, p.log, p.settings.Allocations.Ask); return nil })
	tasks.Go(func() error { return p.Server.Run(ctx) })
	return tasks.Wait()
}

// Withdraw does nothing: when the streams end, the kubelet notices immediately and stops advertising the devices.
func (p *plugin) Withdraw(context.Context) error { return nil }

// Close closes the CDI spec. The last of the node's daemons to do so removes the file.
func (p *plugin) Close() error {
	if p.settings.CDI == nil {
		return nil
	}
	return p.settings.CDI.Close()
}

func (p *plugin) Policy(cfg config.Config, cordons []cordon.Cordon) inventory.Policy {
	p.owned.Add(cfg.Resources)
	return daemon.DevicePolicy(cfg, cordons)
}

func (p *plugin) Holders(ctx context.Context) inventory.Holdings { return p.use.Recent(ctx) }

func (p *plugin) Resources() []metrics.Resource {
	var all []metrics.Resource
	for _, r := range p.Server.Resources() {
		all = append(all, metrics.Resource{Name: r.Name, Streams: r.Streams, Ready: r.Ready == nil})
	}
	return all
}
