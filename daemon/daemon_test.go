package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// pending is an API that is alive but not ready yet.
type pending struct{ API }

func (pending) Alive() error { return nil }
func (pending) Ready() error { return errors.New("no list published yet") }

// Both probes say which part hangs.
func TestProbesNameHangingPart(t *testing.T) {
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot = t.TempDir(), t.TempDir()
	n := must.Value(OpenNode(cfg, Watching(cfg, metrics.New("test")), zap.NewNop(), zap.NewNop()))(t)
	defer n.Watcher.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no answer within 1s"))
	probes := answers(n, pending{}, &stateSource{lockCheck: func() error { return nil }})
	// The inventory isn't running, so it doesn't answer pings.
	compare.Equal(t, "Alive", "inventory: no answer within 1s", fmt.Sprint(probes.Alive(ctx)))
	compare.Error(t, "Ready", "\ninventory: no answer within 1s", probes.Ready(ctx))
}

// panicking is an API that panics once the daemon owns the node.
type panicking struct {
	API
	t *testing.T
}

func (panicking) Policy(config.Config, []cordon.Cordon) inventory.Policy { panic("policy") }
func (panicking) Close() error                                           { return nil }
func (p panicking) Withdraw(context.Context) error {
	p.t.Error("found a call of Withdraw, want none: the API may still run, and write the devices again")
	return nil
}

// A daemon that panics leaves behind the record that its devices are still advertised, just like one that was killed.
func TestPanicWithdrawsNothing(t *testing.T) {
	cfg := config.Defaults()
	cfg.StateDir, cfg.HTTPAddress, cfg.Socket = filepath.Join(t.TempDir(), "state"), "", ""
	d := &Daemon{
		Kind: control.DRA, Config: cfg, Log: zap.NewNop(), Metrics: metrics.New("test"),
		Open: func() (API, error) { return panicking{t: t}, nil },
	}
	func() {
		defer func() { compare.Equal(t, "recover()", "policy", recover()) }()
		_ = d.Serve(t.Context())
	}()
	compare.NoError(t, "record of the driver", compare.ErrorOf(os.Lstat(filepath.Join(cfg.StateDir, "owner-dra.lock"))))
}
