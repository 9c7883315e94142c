package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/control"
	"b-com.com/accelerator-device-plugin/internal/cordon"
	"b-com.com/accelerator-device-plugin/internal/daemon"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/cdi"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/podresources"
	"b-com.com/accelerator-device-plugin/server/prefer"
)

func serveCommand(cmd *cobra.Command, loader *config.Loader) error {
	cfg, err := load(loader)
	if err != nil {
		return err
	}
	counts := metrics.New(buildVersion())
	log := daemon.OpenLog(cfg, cmd.ErrOrStderr(), counts)
	defer log.Close()
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
	d := newDaemon(cfg, log.Logger, counts, nil)
	d.Loader = loader
	if err := d.Live(cmd.Context(), log); err != nil {
		return failure{error: err, logged: true}
	}
	return nil
}

// newDaemon returns a daemon that offers its devices as a device plugin. timing changes intervals and
// timeouts that are not settings. It is nil outside tests.
func newDaemon(cfg config.Config, log *zap.Logger, counts *metrics.Metrics, timing func(*inventory.Config, *server.Config)) *daemon.Daemon {
	return &daemon.Daemon{
		Program: "accelerator-device-plugin", Version: buildVersion(), Kind: control.DevicePlugin, Config: cfg, Log: log, Metrics: counts,
		Open: func() (daemon.API, error) { return openPlugin(cfg, log, counts, timing) },
	}
}

// plugin implements [daemon.API] for the device plugin API. It has the server and the sources of holders.
type plugin struct {
	*server.Server // set by Start
	*sharedHolders // set by Start

	log      *zap.Logger
	settings server.Config
	owned    *offer.Ownership
	source   holderSource
	timing   func(*inventory.Config, *server.Config) // nil: none
}

func openPlugin(cfg config.Config, log *zap.Logger, counts *metrics.Metrics, timing func(*inventory.Config, *server.Config)) (*plugin, error) {
	p := &plugin{log: log, settings: server.Defaults(), timing: timing}
	p.settings.KubeletDir, p.settings.HostDevRoot, p.settings.HostSysRoot = cfg.KubeletDir, cfg.HostDevRoot, cfg.HostSysfsRoot
	p.settings.AllocationPolicy, p.settings.Metrics = prefer.Policy(cfg.AllocationPolicy), counts
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
	p.owned = offer.NewOwnership(daemon.PolicyOf(cfg))
	host, _ := os.Hostname()
	p.source = holderSource{
		socket: cfg.PodResourcesSocket, kubeletDir: cfg.KubeletDir, owns: p.owned.Owns,
		claims: &podresources.Memory{Keep: byClaim, Pod: host},
	}
	return p, nil
}

func (p *plugin) Configure(cfg *inventory.Config) {
	if p.timing != nil {
		p.timing(cfg, &p.settings)
	}
	p.source.given = p.settings.Allocations
	cfg.OtherAPI = true
	cfg.Holders, cfg.Record, cfg.Given = p.source.ask, p.source.record(), p.settings.Allocations.Added()
}

func (p *plugin) Start(ctx context.Context, inv *inventory.Inventory) {
	p.Server = server.New(p.settings, inv, p.log)
	p.sharedHolders = shareHolders(ctx, p.source)
}

// Withdraw returns nil: the kubelet notices at once that the streams have ended, and offers no device.
func (p *plugin) Withdraw(context.Context) error { return nil }

// Close closes the CDI spec. The last daemon on the node removes the file.
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

func (p *plugin) Holders(ctx context.Context) (daemon.Holders, error) {
	known, err := p.latest(ctx)
	return daemon.Holders{Of: known.held.lookup(), Given: known.gave, Unsure: known.unsure}, err
}

func (p *plugin) Resources() []metrics.Resource {
	var all []metrics.Resource
	for _, r := range p.Server.Resources() {
		all = append(all, metrics.Resource{Name: r.Name, Streams: r.Streams, Ready: r.Ready == nil})
	}
	return all
}
