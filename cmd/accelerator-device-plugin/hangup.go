package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/watcher"
)

// reload reads the settings again. It returns them and the keys of those that have
// changed and need a restart.
type reload func() (config.Config, []string, error)

// followHangups takes over what the operator says about devices, scans and
// registers again at each SIGHUP; the original did the latter two.
func (s *service) followHangups(ctx context.Context, mode string, inv *inventory.Inventory, srv *server.Server) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.hangups:
			message, taken := "hangup received", s.takeOver(mode, inv)
			s.metrics.ConfigReload(taken)
			if !taken {
				message = "hangup received, settings unchanged"
			}
			s.log.Info(message, event.Reloaded, event.Devices(slices.Sorted(maps.Keys(s.cfg.Exclude))))
			inv.Hint(inventory.Hint{Source: "sighup", At: time.Now()})
			srv.Reregister()
		}
	}
}

// takeOver reads the settings again. What is wrong changes nothing.
func (s *service) takeOver(mode string, inv *inventory.Inventory) bool {
	next, restart, err := s.again()
	if err != nil {
		s.log.Error("configuration refused, the old one stays", event.ConfigRefused, event.Err(err))
		return false
	}
	for _, flag := range restart {
		s.log.Warn("changed setting needs a restart", event.ConfigNotice, event.Flag(flag))
	}
	s.cfg.Exclude, s.cfg.Severity, s.cfg.Resources = next.Exclude, next.Severity, next.Resources
	cfg := s.cfg
	cfg.Mode = mode
	s.ours.follow(policyOf(cfg))
	inv.Use(said(cfg))
	return true
}

// watch feeds the inventory with what the watcher hears.
func (n *node) watch(ctx context.Context) error {
	return n.watcher.Run(ctx, func(h watcher.Hint) { n.inventory.Hint(inventory.Hint(h)) })
}
