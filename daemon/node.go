package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/watcher"
)

// ReadTimeout is how long reading a single card may take. A healthy card takes microseconds, and one behind a slow BMC
// takes tens of milliseconds.
const ReadTimeout = 2 * time.Second

// holdersInterval is how often holders are queried while a device's state depends on the answer.
const holdersInterval = 10 * time.Second

// NewLoader returns a loader that accepts the names of all families and their health rows in settings, even for
// disabled families, so that a family can be disabled without changing other settings.
func NewLoader() *config.Loader {
	var v config.Vocabulary
	for _, f := range AllFamilies(config.Defaults()) {
		v.Families = append(v.Families, f.Name())
		for _, row := range f.Rows() {
			v.Rows = append(v.Rows, row.Name)
		}
	}
	return config.New(v)
}

// OfferNaming returns the rules for naming resources.
func OfferNaming(cfg config.Config) offer.Naming {
	return offer.Naming{
		Mode: cfg.Mode, ResourceName: cfg.ResourceName, Namespace: cfg.ResourceNamespace, Rules: cfg.Resources,
	}
}

// Node is a node's watcher and inventory.
type Node struct {
	Host      sysfs.Host
	Watcher   *watcher.Watcher
	Inventory *inventory.Inventory
}

// OpenNode opens a watcher's event sources, and returns the watcher and a new inventory. From then on, no event is
// missed, even if the inventory starts later. The watcher and the inventory can use different logs.
func OpenNode(cfg config.Config, watched inventory.Config, watcherLog, inventoryLog *zap.Logger) (*Node, error) {
	host, err := OpenHost(cfg)
	if err != nil {
		return nil, err
	}
	s := signals(cfg)
	w := watcher.New(watcher.Config{
		Host: host, Subsystems: s.Subsystems, Nodes: s.Nodes, Metrics: watched.Metrics,
	}, watcherLog)
	return &Node{Host: host, Watcher: w, Inventory: inventory.New(watched, host, inventoryLog)}, nil
}

// Watch passes the watcher's hints to the inventory until ctx is done.
func (n *Node) Watch(ctx context.Context) error {
	return n.Watcher.Run(ctx, func(h watcher.Hint) { n.Inventory.Hint(inventory.Hint(h)) })
}

// Watching returns the inventory's configuration, without the fields that [API.Configure] sets.
func Watching(cfg config.Config, m *metrics.Metrics) inventory.Config {
	return inventory.Config{
		Metrics:        m,
		ResyncInterval: cfg.ResyncInterval, HealthInterval: cfg.HealthInterval, ReadTimeout: ReadTimeout,
		RecoveryHold: cfg.RecoveryHold, ReprogramTimeout: cfg.ReprogramTimeout,
		FlapLimit: cfg.FlapLimit, FlapWindow: cfg.FlapWindow,
		HoldersInterval: holdersInterval, TombstoneGrace: cfg.TombstoneGrace,
		Policy: DevicePolicy(cfg, nil),
	}
}

// DevicePolicy returns the inventory's policy for the settings and mode in cfg and for the cordons.
func DevicePolicy(cfg config.Config, cordons []cordon.Cordon) inventory.Policy {
	p := inventory.Policy{
		Mode: cfg.Mode, Families: Families(cfg), AnyAFU: OfferNaming(cfg).AnyAFU(),
		Exclude: make(map[string]string, len(cfg.Exclude)+len(cordons)), Name: OfferNaming(cfg).ResourceOf,
	}
	for entry := range cfg.Exclude {
		p.Exclude[entry] = inventory.ReasonExcluded
	}
	for _, c := range cordons { // a cordon takes precedence over exclude, because it records who made it and why
		p.Exclude[c.Device] = inventory.ReasonCordoned
	}
	for row, severity := range cfg.Severity {
		if p.Severity == nil {
			p.Severity = make(map[string]inventory.Health, len(cfg.Severity))
		}
		p.Severity[row] = map[string]inventory.Health{
			config.Fatal: inventory.Unhealthy, config.Degraded: inventory.Degraded, config.Ignored: inventory.Healthy,
		}[severity]
	}
	return p
}

// OpenHost returns the node's directories, or an error if one of them can't be used.
func OpenHost(cfg config.Config) (sysfs.Host, error) {
	if err := sysfs.CheckDir(cfg.SysfsRoot); err != nil {
		return sysfs.Host{}, fmt.Errorf("--sysfs-root %w", err)
	}
	// The device node directory may not exist until the first card appears.
	if err := sysfs.CheckDir(cfg.DevRoot); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sysfs.Host{}, fmt.Errorf("--dev-root %w", err)
	}
	real, err := sysfs.IsSysfs(cfg.SysfsRoot)
	if err != nil {
		return sysfs.Host{}, fmt.Errorf("--sysfs-root: %w", err)
	}
	return sysfs.Host{Sys: cfg.SysfsRoot, Dev: cfg.DevRoot, Simulated: !real}, nil
}
