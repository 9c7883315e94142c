package latest_test

import (
	"sync"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/latest"
)

// A reader that waits until each value is stale gets the newest one in the end, and no update is
// lost.
func TestValue(t *testing.T) {
	const writers, updates = 4, 1000
	v := latest.New(0)
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range updates {
				v.Update(func(n int) int { return n + 1 })
			}
		})
	}
	for last := -1; last < writers*updates; {
		n, stale := v.Load()
		if n <= last {
			t.Fatalf("found %d when %d was stale, want a newer value", n, last)
		}
		if last = n; last < writers*updates {
			<-stale
		}
	}
	writing.Wait()
	_, stale := v.Load()
	select {
	case <-stale:
		t.Error("the newest value is stale")
	default:
	}
	v.Store(7)
	<-stale
	if n, _ := v.Load(); n != 7 {
		t.Errorf("found %d, want 7", n)
	}
}
