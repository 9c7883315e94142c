package filewatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/filewatch"
)

// A change is reported after a time without events. Without events there is a report at each interval,
// because inotify may miss a change.
func TestAwait(t *testing.T) {
	const ms = time.Millisecond
	every := func(step, until time.Duration) (at []time.Duration) {
		for d := step; d <= until; d += step {
			at = append(at, d)
		}
		return at
	}
	for _, test := range []struct {
		name   string
		event  fsnotify.Event
		at     []time.Duration
		failed bool // and not an event
		want   time.Duration
	}{
		{name: "no event", want: filewatch.Interval},
		{name: "one", event: fsnotify.Event{Name: "/d/f", Op: fsnotify.Write}, at: []time.Duration{ms}, want: ms + filewatch.Settle},
		{name: "until they settle", event: fsnotify.Event{Name: "/d/f", Op: fsnotify.Write}, at: every(200*ms, 600*ms), want: 600*ms + filewatch.Settle},
		{name: "without end", event: fsnotify.Event{Name: "/d/f", Op: fsnotify.Write}, at: every(200*ms, 2*filewatch.Interval), want: filewatch.Interval},
		{name: "of a ConfigMap", event: fsnotify.Event{Name: "/d/..data", Op: fsnotify.Create}, at: []time.Duration{ms}, want: ms + filewatch.Settle},
		{name: "of another file", event: fsnotify.Event{Name: "/d/g", Op: fsnotify.Write}, at: []time.Duration{ms}, want: filewatch.Interval},
		{name: "of the directory's mode", event: fsnotify.Event{Name: "/d", Op: fsnotify.Chmod}, at: []time.Duration{ms}, want: filewatch.Interval},
		{name: "directory gone", event: fsnotify.Event{Name: "/d", Op: fsnotify.Remove}, at: []time.Duration{ms}, want: ms + filewatch.Settle},
		{name: "events lost", failed: true, at: []time.Duration{ms}, want: ms + filewatch.Settle},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				events, failed := make(chan fsnotify.Event), make(chan error)
				began := time.Now()
				go func() {
					for _, at := range test.at {
						time.Sleep(at - time.Since(began))
						switch {
						case test.failed:
							failed <- fsnotify.ErrEventOverflow
						default:
							select {
							case events <- test.event:
							case <-ctx.Done():
								return
							}
						}
					}
				}()
				w := filewatch.New([]string{"/d/f"}, []string{"/d"}, zap.NewNop())
				w.Feed(events, failed)
				w.Await(t.Context())
				if took := time.Since(began); took != test.want {
					t.Errorf("reported after %s, want %s", took, test.want)
				}
			})
		})
	}
}

func TestAwaitBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := filewatch.New([]string{"/d/f"}, []string{"/d"}, zap.NewNop())
		w.Feed(nil, nil)
		w.Await(t.Context())
		if took := time.Since(began); took != filewatch.BlindInterval {
			t.Errorf("reported after %s, want %s", took, filewatch.BlindInterval)
		}
	})
}

func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		w := filewatch.New([]string{"/d/f"}, []string{"/d"}, zap.NewNop())
		w.Feed(make(chan fsnotify.Event), nil)
		w.Await(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("returned after %s, want 1s", took)
		}
	})
}
