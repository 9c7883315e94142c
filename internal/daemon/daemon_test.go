package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
)

// pending is an API that is alive, and not ready yet.
type pending struct{ API }

func (pending) Alive() error { return nil }
func (pending) Ready() error { return errors.New("no list published yet") }

// Both probes name the part that hangs.
func TestProbesNameHangingPart(t *testing.T) {
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot = t.TempDir(), t.TempDir()
	n, err := OpenNode(cfg, Watching(cfg, metrics.New("test")), zap.NewNop(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Watcher.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no answer within 1s"))
	probes := answers(n, pending{}, nil)
	// The inventory does not run, so it does not answer pings.
	if err := probes.Alive(ctx); err == nil || err.Error() != "inventory: no answer within 1s" {
		t.Errorf("Alive() = %v, want that the inventory does not answer", err)
	}
	if err := probes.Ready(ctx); err == nil || !strings.HasSuffix(err.Error(), "\ninventory: no answer within 1s") {
		t.Errorf("Ready() = %v, want that the inventory does not answer, too", err)
	}
}
