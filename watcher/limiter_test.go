package watcher_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/watcher"
)

func TestLimiter(t *testing.T) {
	count := watcher.NewLimiter()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Second, 0}, {59 * time.Second, 0}, {60 * time.Second, 3}, {61 * time.Second, 0}, {time.Hour, 2}} {
		compare.Equal(t, fmt.Sprintf("step %d, after %v", i, step.after), step.want, count(start.Add(step.after)))
	}
}
