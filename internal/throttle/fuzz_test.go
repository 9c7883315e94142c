package throttle_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/throttle"
)

// Each line is either written or counted, for any lines at any times.
func FuzzAllLinesCounted(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\x00"))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xf0bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\xffaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) {
			to, logs := observer.New(zapcore.DebugLevel)
			core := throttle.New(to)
			log := zap.New(core)
			logged := map[string]int{} // by event
			for _, b := range script {
				if b >= 0xf0 { // 1 s to 64 s
					time.Sleep(time.Second << (b & 7 % 7))
					synctest.Wait()
					continue
				}
				times, about := 1+int(b&3)*7, fmt.Sprint(b>>2)
				for i := range times {
					switch b & 4 {
					case 0:
						log.Info("stream opened", logevent.StreamOpened, logevent.Resource(about))
						logged["stream.opened"]++
					default: // always new subjects
						log.Info("resource retired", logevent.ResourceRetired, logevent.Resource(fmt.Sprint(about, " ", i, len(logs.All()))))
						logged["resource.retired"]++
					}
				}
			}
			core.Close()
			found := map[string]int{}
			for _, line := range logs.All() {
				m := line.ContextMap()
				if of, left := m["of"].(string); left {
					found[of] += int(m["count"].(int64))
				} else {
					found[m["event"].(string)]++
				}
			}
			for name, n := range logged {
				if found[name] != n {
					t.Errorf("%s: found %d lines written or counted, want %d", name, found[name], n)
				}
			}
		})
	})
}

// Each line is either written or counted, for concurrent writers.
func TestAllLinesCountedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, logs := observer.New(zapcore.DebugLevel)
		core := throttle.New(to)
		log := zap.New(core)
		const writers, each = 8, 500
		done := make(chan struct{})
		for w := range writers {
			go func() {
				defer func() { done <- struct{}{} }()
				for i := range each {
					log.Info("stream opened", logevent.StreamOpened, logevent.Resource(fmt.Sprint(i%3)))
					if i%50 == w {
						time.Sleep(time.Duration(w+1) * 7 * time.Second)
					}
				}
			}()
		}
		for range writers {
			<-done
		}
		core.Close()
		found := 0
		for _, line := range logs.All() {
			if n, left := line.ContextMap()["count"].(int64); left {
				found += int(n)
			} else {
				found++
			}
		}
		if found != writers*each {
			t.Errorf("found %d lines written or counted, want %d", found, writers*each)
		}
	})
}
