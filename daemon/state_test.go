package daemon

import (
	"context"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The response waits until all cards have been read. After a timeout, it says that cards are still missing.
func TestStateBeforeTheCardsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Defaults()
		book := must.Value(cordon.Open("", zap.NewNop()))(t)
		begin := time.Now()
		s := &stateSource{
			started: begin, inForce: latest.New(cfg), settings: latest.New(control.Settings{}), cordons: book, // no running inventory
			inventory: inventory.New(Watching(cfg, metrics.New("test")), sysfs.Host{}, zap.NewNop()),
			lockCheck: func() error { return nil },
			missing:   latest.New[[]ledger.Missing](nil).Load,
			sensors:   func() map[string]sensors.Card { return nil },
			history:   func() []ledger.History { return []ledger.History{{Card: "3b:00.0", Changes: 2}} },
			judgement: nodecondition.New(nil, nil, nil, nil, nil),
			holders:   func(context.Context) inventory.Holdings { return inventory.Holdings{Err: fs.ErrNotExist} },
		}
		state := s.state(t.Context())
		if took := time.Since(begin); took != ReadTimeout+time.Second || !state.Incomplete {
			t.Errorf("incomplete: %t after %s, want true after %s", state.Incomplete, took, ReadTimeout+time.Second)
		}
	})
}
