package dirwatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/notify"
)

// A change is reported after a time without events. Without events there is a report at each interval,
// because inotify may miss a change.
func TestAwait(t *testing.T) {
	const ms, settle, interval = time.Millisecond, 250 * time.Millisecond, time.Minute
	write := fsnotify.Event{Name: "/d/f", Op: fsnotify.Write}
	every := func(step, until time.Duration) (at []time.Duration) {
		for d := step; d <= until; d += step {
			at = append(at, d)
		}
		return at
	}
	for _, test := range []struct {
		name  string
		event fsnotify.Event
		at    []time.Duration
		fails func(events chan notify.Event, failed chan error) // instead of the events
		end   time.Duration                                     // of the context
		want  time.Duration
	}{
		{name: "no event", want: interval},
		{name: "one", event: write, at: []time.Duration{ms}, want: ms + settle},
		{name: "until they settle", event: write, at: every(200*ms, 600*ms), want: 600*ms + settle},
		{name: "without end", event: write, at: every(200*ms, 2*interval), want: interval},
		{name: "of another file", event: fsnotify.Event{Name: "/d/g", Op: fsnotify.Write}, at: []time.Duration{ms}, want: interval},
		{name: "of the directory's mode", event: fsnotify.Event{Name: "/d", Op: fsnotify.Chmod}, at: []time.Duration{ms}, want: interval},
		{name: "directory gone", event: fsnotify.Event{Name: "/d", Op: fsnotify.Remove}, at: []time.Duration{ms}, want: ms + settle},
		{name: "events lost", fails: func(_ chan notify.Event, failed chan error) { failed <- fsnotify.ErrEventOverflow }, want: settle},
		{name: "closed", fails: func(events chan notify.Event, _ chan error) { close(events) }, want: settle},
		{name: "ended", end: time.Second, want: time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.end > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.end)
					defer cancel()
				}
				events, failed := make(chan notify.Event), make(chan error)
				began := time.Now()
				go func() {
					if test.fails != nil {
						test.fails(events, failed)
					}
					for _, at := range test.at {
						time.Sleep(at - time.Since(began)) // of the bubble
						select {
						case events <- test.event:
						case <-ctx.Done():
							return
						}
					}
				}()
				cfg := dirwatch.Config{Dirs: []string{"/d"}, Settle: settle, Concerns: func(e notify.Event) bool { return e.Name == "/d/f" }}
				works := dirwatch.Await(ctx, cfg, interval, events, failed)
				if took := time.Since(began); took != test.want || works != (test.fails == nil) {
					t.Errorf("reported after %s, inotify works: %v; want %s, %v", took, works, test.want, test.fails == nil)
				}
			})
		})
	}
}
