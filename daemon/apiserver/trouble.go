package apiserver

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// trouble delays retries after failures, and logs the first failure of each kind as well as the recovery.
type trouble struct {
	log    *zap.Logger
	count  func() // called for each failure; may be nil
	pause  backoff.Backoff
	failed int // failures since the last success
	since  time.Time
	logged map[int]bool // kinds of failures logged since the last success
}

func (c *Client) trouble(node string) trouble {
	return trouble{
		log: c.log.With(logevent.Node(node), logevent.Address(c.server.String())), count: c.failed,
		pause: backoff.Backoff{First: 500 * time.Millisecond, Most: 30 * time.Second},
	}
}

// failure records a failure, and returns how long to wait before the next attempt. It logs the first failure of each
// kind rather than just the first failure, because a permission may still be missing once the network is back.
func (t *trouble) failure(err error) time.Duration {
	if t.failed == 0 {
		t.since, t.logged = time.Now(), map[int]bool{}
	}
	t.failed++
	if t.count != nil {
		t.count()
	}
	kind, asked := 0, time.Duration(0) // kind 0 is a failure without a response
	message := "api server lost, trying again"
	if errors.Is(err, errFiles) {
		kind = -1
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		asked = refused.retry
		kind = min(max(0, refused.code/100), 9) // an ERROR event may have any code
		if kind == 4 {
			message = "api server refuses, trying again"
		}
		if refused.code == http.StatusUnauthorized || refused.code == http.StatusForbidden {
			kind = refused.code
		}
	}
	wait := t.pause.NextAfter(asked)
	if !t.logged[kind] {
		t.logged[kind] = true
		t.log.Warn(message, logevent.APILost, logevent.Retry(wait), logevent.Err(err))
	} else {
		t.log.Debug("api server retry failed", logevent.APIRetried, logevent.Count(t.failed), logevent.Retry(wait), logevent.Err(err))
	}
	return wait
}

// success records a success, and logs the recovery if there were failures before.
func (t *trouble) success() {
	t.pause.Reset()
	if t.failed > 0 {
		t.log.Info("api server recovered", logevent.APIRecovered, logevent.Count(t.failed), logevent.Lasted(time.Since(t.since)))
	}
	t.failed = 0
}
