package watcher_test

import (
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/watcher"
)

func TestLimiter(t *testing.T) {
	count := watcher.NewLimiter()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Second, 0}, {59 * time.Second, 0}, {60 * time.Second, 3}, {61 * time.Second, 0}, {time.Hour, 2}} {
		if got := count(start.Add(step.after)); got != step.want {
			t.Errorf("step %d, after %v: %d, want %d", i, step.after, got, step.want)
		}
	}
}
