package main

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/pool"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/watcher"
)

// readTimeout is how long a card may take to answer. A healthy one takes
// microseconds, one behind a slow BMC some tens of milliseconds.
const readTimeout = 2 * time.Second

// families is the list of what this program knows. A new family is one line
// here.
func families(cfg config.Config) []inventory.Family {
	if cfg.Mode == offer.Pool {
		return []inventory.Family{pool.Pool{Units: cfg.AccelNbUnits}}
	}
	return []inventory.Family{dfl.Family{}, opae.Family{}}
}

func policyOf(cfg config.Config) offer.Policy {
	return offer.Policy{Mode: cfg.Mode, ResourceName: cfg.ResourceName}
}

// node is a node that is watched.
type node struct {
	watcher   *watcher.Watcher
	inventory *inventory.Inventory
}

// openNode listens first: what happens from here on is not missed, whenever the
// first scan begins.
func openNode(cfg config.Config, log *zap.Logger) (*node, error) {
	known := families(cfg)
	sources := watcher.Config{Sysfs: cfg.SysfsRoot, Dev: cfg.DevRoot}
	for _, f := range known {
		s := f.Signals()
		sources.Subsystems = append(sources.Subsystems, s.Subsystems...)
		sources.Nodes = append(sources.Nodes, s.Nodes...)
	}
	w, err := watcher.New(sources, log)
	if err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	host, err := openHost(cfg)
	if err != nil {
		w.Close()
		return nil, err
	}
	inv := inventory.New(inventory.Config{
		ResyncInterval: cfg.ResyncInterval, HealthInterval: cfg.HealthInterval,
		RecoveryHold: cfg.RecoveryHold, ReprogramTimeout: cfg.ReprogramTimeout, ReadTimeout: readTimeout,
	}, host, known, log)
	return &node{watcher: w, inventory: inv}, nil
}

func openHost(cfg config.Config) (sysfs.Host, error) {
	real, err := sysfs.IsSysfs(cfg.SysfsRoot)
	if err != nil {
		return sysfs.Host{}, fmt.Errorf("sysfs-root: %w", err)
	}
	return sysfs.Host{Sys: cfg.SysfsRoot, Dev: cfg.DevRoot, Simulated: !real}, nil
}
