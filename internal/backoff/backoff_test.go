package backoff_test

import (
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backoff"
)

func TestBackoff(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first, most time.Duration
		want        []time.Duration // upper bounds
	}{
		{"doubles", 100, 3000, []time.Duration{100, 200, 400, 800, 1600, 3000, 3000, 3000}},
		{"stays", 1000, 1000, []time.Duration{1000, 1000, 1000}},
		{"most below first", 1000, 500, []time.Duration{500, 500}},
		{"one", 1, 2, []time.Duration{1, 2, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := backoff.Backoff{First: tc.first, Most: tc.most}
			for round := range 100 {
				for i, want := range tc.want {
					if got := b.Next(); got < want/2 || got > want {
						t.Fatalf("round %d, wait %d: %d, want %d to %d", round, i, got, want/2, want)
					}
				}
				b.Reset()
			}
		})
	}
}

// Clients with the same requested wait return at different times, and none before the requested time.
func TestNextAfter(t *testing.T) {
	const asked = 10 * time.Second
	seen := map[time.Duration]bool{}
	for range 100 {
		b := backoff.Backoff{First: time.Millisecond, Most: time.Millisecond}
		wait := b.NextAfter(asked)
		if seen[wait] = true; wait < asked || wait > asked+asked/2 {
			t.Errorf("wait: found %s, want %s to %s", wait, asked, asked+asked/2)
		}
	}
	if len(seen) < 50 {
		t.Errorf("found %d different waits of 100, want at least 50", len(seen))
	}
}

func TestNextAfterShort(t *testing.T) {
	b := backoff.Backoff{First: time.Minute, Most: time.Hour}
	for _, asked := range []time.Duration{0, time.Second} {
		b.Reset()
		if got := b.NextAfter(asked); got < 30*time.Second || got > time.Minute {
			t.Errorf("NextAfter(%s): found %s, want the result of Next, 30s to 1m", asked, got)
		}
		if got := b.NextAfter(asked); got < time.Minute || got > 2*time.Minute {
			t.Errorf("second NextAfter(%s): found %s, want 1m to 2m", asked, got)
		}
	}
}
