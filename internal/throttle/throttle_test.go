package throttle_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/throttle"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
)

var (
	resource = logevent.Resource("example.com/a")
	devices  = logevent.Devices([]string{"3b:00.0"})
	claim    = []zap.Field{resource, logevent.Claim("default/a"), devices}
)

// Each line is logged 30 times.
func TestRepeatedLines(t *testing.T) {
	n := 0 // makes lines differ
	for _, test := range []struct {
		name string
		log  func(*zap.Logger)
		want []string // lines after a minute, see summary
	}{
		{"repeated", func(log *zap.Logger) { log.With(resource).Info("stream opened", logevent.StreamOpened) },
			[]string{"20 info stream.opened", "1 warn log.suppressed stream.opened count=10 lasted_ms=60000 resource=example.com/a"}},
		{"two cards", func(log *zap.Logger) {
			for _, card := range []string{"0000:3b:00.0", "0000:5e:00.0"} {
				log.Warn("read timed out", logevent.ReadTimeout, logevent.PCI(card), logevent.Lasted(0))
			}
		}, []string{"40 warn read.timeout", "1 warn log.suppressed read.timeout count=10 lasted_ms=60000 pci=0000:3b:00.0",
			"1 warn log.suppressed read.timeout count=10 lasted_ms=60000 pci=0000:5e:00.0"}},
		{"error", func(log *zap.Logger) {
			log.Error("CDI spec could not be written", logevent.CDIFailed, logevent.Err(errors.New("disk full")))
		}, []string{"20 error cdi.failed", "1 error log.suppressed cdi.failed count=10 lasted_ms=60000"}},
		{"library", func(log *zap.Logger) {
			n++
			log.With(logevent.LibraryLog).Debug(fmt.Sprint("transport ", n, " is closing"))
		}, []string{"20 debug library.log", "1 warn log.suppressed library.log count=10 lasted_ms=60000"}},
		{"forged uevents", func(log *zap.Logger) {
			n++
			log.Warn("forged uevent dropped", logevent.UEventForged, logevent.Count(1), logevent.PID(n), logevent.UID(n), logevent.Port(uint32(n)))
		}, []string{"20 warn uevent.forged", "1 warn log.suppressed uevent.forged count=10 lasted_ms=60000"}},
		{"allocation refused", func(log *zap.Logger) {
			log.Warn("allocate refused", logevent.AllocateRefused, resource, logevent.Count(1), logevent.Reason("gone"), devices)
		}, []string{"20 warn allocate.refused", "1 warn log.suppressed allocate.refused count=10 lasted_ms=60000 resource=example.com/a"}},
		{"list of no changes", func(log *zap.Logger) {
			log.Info("list sent", logevent.ListSent, resource, logevent.Rev(1), logevent.Count(1))
		}, []string{"20 info list.sent", "1 warn log.suppressed list.sent count=10 lasted_ms=60000 resource=example.com/a"}},

		{"device", func(log *zap.Logger) {
			log.Warn("device health changed", logevent.DeviceHealth, logevent.Device("3b:00.0"), logevent.Old("healthy"), logevent.New("unhealthy"),
				logevent.Reasons(nil), logevent.Lasted(0))
		}, []string{"30 warn device.health"}},
		{"daemon", func(log *zap.Logger) { log.Info("daemon stopped", logevent.DaemonStopped) }, []string{"30 info daemon.stopped"}},
		{"debug", func(log *zap.Logger) { log.Debug("hint received", logevent.HintReceived, logevent.Source("uevent")) }, []string{"30 debug hint.received"}},
		{"list", func(log *zap.Logger) {
			log.Info("list sent", logevent.ListSent, resource, logevent.Rev(1), logevent.Count(1), devices)
		}, []string{"30 info list.sent"}},
		{"allocation", func(log *zap.Logger) {
			log.Info("allocate served", logevent.AllocateServed, resource, logevent.Count(1), devices)
		}, []string{"30 info allocate.served"}},
		{"claims", func(log *zap.Logger) {
			log.With(claim...).Info("claim prepared", logevent.ClaimPrepared)
			log.With(claim...).Info("claim unprepared", logevent.ClaimUnprepared)
		}, []string{"30 info claim.prepared", "30 info claim.unprepared"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to, logs := eventtest.Observed(t)
				log := zap.New(throttle.New(to))
				for range 30 {
					test.log(log)
				}
				time.Sleep(time.Minute) // fake
				synctest.Wait()
				compare.Values(t, "lines", test.want, summary(logs))
			})
		})
	}
}

// Each minute has its own burst. Close writes the counts, and later lines are written.
func TestMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, logs := eventtest.Observed(t)
		core := throttle.New(to)
		lost := func(n int) {
			for range n {
				zap.New(core).Warn("inotify events lost", logevent.InotifyOverflow, logevent.Path("/dev"))
			}
		}
		for _, step := range []struct {
			lines int
			then  func()
			want  []string
		}{
			{19, func() { time.Sleep(20 * time.Second) }, []string{"19 warn inotify.overflow"}},
			{5, func() { time.Sleep(40 * time.Second) },
				[]string{"1 warn inotify.overflow", "1 warn log.suppressed inotify.overflow count=4 lasted_ms=40000"}},
			{20, func() { time.Sleep(30 * time.Second) }, []string{"20 warn inotify.overflow"}},
			{1, func() { time.Sleep(30 * time.Second) }, []string{"1 warn log.suppressed inotify.overflow count=1 lasted_ms=30000"}},
			{20, func() { time.Sleep(time.Hour) }, []string{"20 warn inotify.overflow"}},
			{21, core.Close, []string{"20 warn inotify.overflow", "1 warn log.suppressed inotify.overflow count=1 lasted_ms=0"}},
			{30, core.Close, []string{"30 warn inotify.overflow"}},
		} {
			lost(step.lines)
			step.then()
			synctest.Wait()
			compare.Values(t, fmt.Sprintf("after %d lines", step.lines), step.want, summary(logs))
		}
	})
}

// Each line of concurrent writers is either written or counted.
func TestAllLinesCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, logs := eventtest.Observed(t)
		core := throttle.New(to)
		log := zap.New(core)
		const writers, each = 8, 500
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					log.Info("stream opened", logevent.StreamOpened, logevent.Resource(fmt.Sprint(i%3)))
					if i%50 == w {
						time.Sleep(time.Duration(w+1) * 7 * time.Second)
					}
				}
			})
		}
		writing.Wait()
		core.Close()
		suppressed := logs.FilterMessage("log lines suppressed").All()
		found := logs.Len() - len(suppressed)
		for _, line := range suppressed {
			found += int(line.ContextMap()["count"].(int64))
		}
		if found != writers*each || len(suppressed) == 0 {
			t.Errorf("found %d lines written or counted, %d lines log.suppressed, want %d and some", found, len(suppressed), writers*each)
		}
	})
}

// summary returns the events of the lines since the last call, each with its number of lines.
func summary(logs *observer.ObservedLogs) (all []string) {
	n := map[string]int{}
	for _, line := range logs.TakeAll() {
		m := line.ContextMap()
		text := fmt.Sprint(line.Level, " ", m["event"])
		if of, ok := m["of"]; ok {
			text += fmt.Sprintf(" %s count=%v lasted_ms=%v", of, m["count"], m["lasted_ms"])
			for _, key := range []string{"device", "pci", "resource", "source"} {
				if m[key] != nil {
					text += fmt.Sprintf(" %s=%v", key, m[key])
				}
			}
		}
		if n[text]++; n[text] == 1 {
			all = append(all, text)
		}
	}
	for i, text := range all {
		all[i] = fmt.Sprint(n[text], " ", text)
	}
	return all
}
