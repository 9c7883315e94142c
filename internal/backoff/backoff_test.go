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
		want        []time.Duration // before the draw
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

// Two that fail together do not go on together.
func TestDraw(t *testing.T) {
	b := backoff.Backoff{First: time.Second, Most: time.Second}
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[b.Next()] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different waits of 100", len(seen))
	}
}
