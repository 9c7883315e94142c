package apiserver

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// trouble says once what is the matter, and once that it is over. The zero value
// with a logger is: all is well.
type trouble struct {
	log   *zap.Logger
	since time.Time
	count int          // failures since
	said  map[int]bool // kinds since, see [kind]
	each  func()       // called for each; may be nil
}

func (c *Client) trouble(node string) trouble {
	return trouble{log: c.log.With(event.Node(node), event.Address(c.Address())), each: c.failed}
}

// met notes a failure. Of each kind the first is said: who has mended the
// network still wants to hear that a right is missing.
func (t *trouble) met(err error, retry time.Duration) {
	if t.count == 0 {
		t.since, t.said = time.Now(), map[int]bool{}
	}
	t.count++
	if t.each != nil {
		t.each()
	}
	if k := kind(err); !t.said[k] {
		t.said[k] = true
		message := "api server lost, trying again"
		if answers(err) {
			message = "api server refuses, trying again"
		}
		t.log.Warn(message, event.APILost, event.Retry(retry), event.Err(err))
		return
	}
	t.log.Debug("api server tried again", event.APIRetried, event.Count(t.count), event.Retry(retry), event.Err(err))
}

// passed notes that all is well.
func (t *trouble) passed() {
	if t.count > 0 {
		t.log.Info("api server recovered", event.APIRecovered, event.Count(t.count), event.Lasted(time.Since(t.since)))
	}
	t.count = 0
}

// answers says whether the server is there, and refuses for what we are or ask.
func answers(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.code/100 == 4
}

// kind is the status of a refusal by its hundreds, 401 and 403 by themselves,
// and 0 of all else.
func kind(err error) int {
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
		return 0
	case refused.code == http.StatusUnauthorized || refused.code == http.StatusForbidden:
		return refused.code
	}
	return refused.code / 100
}
