package throttle_test

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/logevent/eventtest"
	"b-com.com/accelerator-device-plugin/internal/throttle"
)

// rig is a throttled logger in a bubble.
type rig struct {
	*zap.Logger
	core *throttle.Core
	logs *observer.ObservedLogs
}

func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		to, logs := eventtest.Observed(t)
		core := throttle.New(to)
		f(t, &rig{zap.New(core), core, logs})
		core.Close()
	})
}

// after advances the fake time by d, and blocks until all other goroutines are blocked.
func (r *rig) after(d time.Duration) {
	time.Sleep(d) // fake
	synctest.Wait()
}

// take returns the lines that were written since the last call, in a short form. Equal lines in a row
// are one.
func (r *rig) take() []string {
	var all []string
	n := 0
	for _, line := range r.logs.TakeAll() {
		m := line.ContextMap()
		text := fmt.Sprint(line.Level, " ", m["event"])
		for _, key := range []string{"device", "pci", "resource", "source", "of", "count", "lasted_ms"} {
			if left := m["of"] != nil; m[key] != nil && (left || key != "count" && key != "lasted_ms") {
				text += fmt.Sprintf(" %s=%v", key, m[key])
			}
		}
		if len(all) > 0 && all[len(all)-1] == fmt.Sprintf("%d × %s", n, text) {
			n++
			all[len(all)-1] = fmt.Sprintf("%d × %s", n, text)
			continue
		}
		n = 1
		all = append(all, "1 × "+text)
	}
	return all
}

func (r *rig) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.take()); diff != "" {
		t.Errorf("%s: lines (-want +got):\n%s", when, diff)
	}
}

// A burst is written. The other lines of its minute are counted and reported.
func TestBurst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		log := r.Named("server").With(logevent.Resource("example.com/a"))
		opened := func(n int) {
			for range n {
				log.Info("stream opened", logevent.StreamOpened)
			}
		}
		opened(15)
		r.after(20 * time.Second)
		opened(15)
		r.want(t, "30 lines", "20 × info stream.opened resource=example.com/a")
		r.after(39 * time.Second)
		opened(5)
		r.want(t, "before the minute's end")
		r.after(time.Second)
		r.want(t, "at its end", "1 × warn log.suppressed resource=example.com/a of=stream.opened count=15 lasted_ms=40000")
		opened(21)
		r.want(t, "in the next minute", "20 × info stream.opened resource=example.com/a")
		r.after(time.Minute)
		r.want(t, "at its end", "1 × warn log.suppressed resource=example.com/a of=stream.opened count=1 lasted_ms=60000")
		r.after(time.Hour)
		opened(20)
		r.after(time.Minute)
		r.want(t, "exactly a burst", "20 × info stream.opened resource=example.com/a")
	})
}

// Lines with other subjects are counted separately, with one timer.
func TestSubjects(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 25 {
			r.Warn("reading timed out", logevent.ReadTimeout, logevent.PCI("0000:3b:00.0"), logevent.Lasted(0))
			r.Info("late reading returned", logevent.ReadRecovered, logevent.PCI("0000:3b:00.0"), logevent.Lasted(0))
			if i < 20 {
				r.Warn("reading timed out", logevent.ReadTimeout, logevent.PCI("0000:5e:00.0"), logevent.Lasted(0))
			}
		}
		r.take()
		r.after(10 * time.Second)
		for range 22 {
			r.Warn("source lost", logevent.SourceLost, logevent.Source("uevent"), logevent.Err(fmt.Errorf("no %d", 1)))
		}
		r.want(t, "another source", "20 × warn source.lost source=uevent")
		r.after(50 * time.Second)
		r.want(t, "a minute after the first",
			"1 × warn log.suppressed pci=0000:3b:00.0 of=read.recovered count=5 lasted_ms=60000",
			"1 × warn log.suppressed pci=0000:3b:00.0 of=read.timeout count=5 lasted_ms=60000",
			"1 × warn log.suppressed source=uevent of=source.lost count=2 lasted_ms=50000")
	})
}

// gate is a core that blocks lines log.suppressed until open is closed.
type gate struct {
	zapcore.Core
	open chan struct{}
}

func (g gate) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Message == "log lines suppressed" {
		<-g.open
	}
	return g.Core.Write(entry, fields)
}

// Close waits for a report that is being written.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, logs := eventtest.Observed(t)
		g := gate{to, make(chan struct{})}
		core := throttle.New(g)
		log := zap.New(core)
		for range 25 {
			log.Info("kubelet restarted", logevent.KubeletRestarted, logevent.Resource("example.com/a"))
		}
		time.Sleep(throttle.Period)
		synctest.Wait()
		closed := make(chan struct{})
		go func() { core.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned before the report was written")
		default:
		}
		close(g.open)
		<-closed
		if n := logs.FilterMessage("log lines suppressed").Len(); n != 1 {
			t.Errorf("found %d lines log.suppressed, want 1", n)
		}
	})
}

// Lines about a device and debug lines are all written.
func TestExempt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 100 {
			r.Warn("device health changed", logevent.DeviceHealth, logevent.Device("3b:00.0"), logevent.Old("healthy"), logevent.New("unhealthy"),
				logevent.Reasons(nil), logevent.Lasted(0))
		}
		for range 100 {
			r.Debug("removed device released", logevent.DeviceReleased, logevent.Device("3b:00.0"), logevent.Reason("free"), logevent.Lasted(0))
		}
		for range 100 {
			r.Info("daemon stopped", logevent.DaemonStopped)
		}
		for range 100 {
			r.Debug("hint received", logevent.HintReceived, logevent.Source("uevent"))
		}
		of := r.With(logevent.Resource("example.com/a"))
		for range 100 {
			of.With(logevent.Devices([]string{"3b:00.0"}), logevent.Count(1)).Info("allocate served", logevent.AllocateServed)
		}
		for range 100 {
			of.Info("list sent", logevent.ListSent, logevent.Rev(1), logevent.Count(1), logevent.Devices([]string{"3b:00.0"}))
		}
		claimed := of.With(logevent.Claim("default/a"), logevent.Devices([]string{"3b:00.0"}))
		for range 100 {
			claimed.Info("claim prepared", logevent.ClaimPrepared)
		}
		for range 100 {
			claimed.Info("claim unprepared", logevent.ClaimUnprepared)
		}
		r.want(t, "100 of each",
			"100 × warn device.health device=3b:00.0", "100 × debug device.released device=3b:00.0", "100 × info daemon.stopped",
			"100 × debug hint.received source=uevent", "100 × info allocate.served resource=example.com/a", "100 × info list.sent resource=example.com/a",
			"100 × info claim.prepared resource=example.com/a", "100 × info claim.unprepared resource=example.com/a")

		for range 100 { // a pod that is created repeatedly, and a stream that is opened repeatedly
			of.With(logevent.Devices([]string{"3b:00.0"}), logevent.Count(1)).Warn("allocate refused", logevent.AllocateRefused, logevent.Reason("gone"))
		}
		for range 100 {
			claimed.Warn("claim refused", logevent.ClaimRefused, logevent.Reason("gone"))
		}
		for range 100 {
			of.Info("list sent", logevent.ListSent, logevent.Rev(1), logevent.Count(1), logevent.Devices(nil))
		}
		r.after(time.Minute)
		r.want(t, "lines that are not exempt", "20 × warn allocate.refused resource=example.com/a", "20 × warn claim.refused resource=example.com/a", "20 × info list.sent resource=example.com/a",
			"1 × warn log.suppressed resource=example.com/a of=allocate.refused count=80 lasted_ms=60000",
			"1 × warn log.suppressed resource=example.com/a of=claim.refused count=80 lasted_ms=60000",
			"1 × warn log.suppressed resource=example.com/a of=list.sent count=80 lasted_ms=60000")
	})
}

// Lines of libraries are counted at every level. The report has the highest level of the lines.
func TestLibrary(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		log := r.Named("grpc").With(logevent.LibraryLog)
		for range 30 {
			log.Debug("transport is closing")
		}
		r.after(time.Minute)
		r.want(t, "Debug", "20 × debug library.log", "1 × warn log.suppressed of=library.log count=10 lasted_ms=60000")
		for range 30 {
			r.Error("CDI spec could not be written", logevent.CDIFailed, logevent.Err(fmt.Errorf("disk full")))
		}
		r.after(time.Minute)
		r.want(t, "Error", "20 × error cdi.failed", "1 × error log.suppressed of=cdi.failed count=10 lasted_ms=60000")
	})
}

// Close writes the report, and later lines are written. No goroutine is left, otherwise the bubble
// would not end.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		lost := func(n int) {
			for range n {
				r.Warn("inotify events lost", logevent.InotifyOverflow, logevent.Path("/dev"))
			}
		}
		lost(30)
		r.take()
		r.after(time.Second)
		r.core.Close()
		r.want(t, "closed", "1 × warn log.suppressed of=inotify.overflow count=10 lasted_ms=1000")
		lost(30)
		r.core.Close()
		r.want(t, "after Close", "30 × warn inotify.overflow")
	})
}

// The number of counts is bounded, and all lines are counted.
func TestBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const subjects, lines = 1500, 2 * throttle.Burst
		for range lines {
			for i := range subjects {
				r.Info("resource retired", logevent.ResourceRetired, logevent.Resource(fmt.Sprint("example.com/", i)))
			}
		}
		if n := r.core.Subjects(); n != throttle.MaxSubjects+1 {
			t.Errorf("found %d counts, want %d and one for the others", n, throttle.MaxSubjects)
		}
		written, counted := r.logs.Len(), 0
		r.logs.TakeAll()
		r.after(throttle.Period)
		for _, line := range r.logs.TakeAll() {
			counted += int(line.ContextMap()["count"].(int64))
		}
		if written+counted != subjects*lines {
			t.Errorf("found %d lines written and %d counted, want %d", written, counted, subjects*lines)
		}
		if n := r.core.Subjects(); n != 0 {
			t.Errorf("found %d counts after a minute, want none", n)
		}
	})
}

// Fields whose values the sender of a forged uevent chooses are not part of the subject.
func TestForgedUEvents(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 1000 {
			r.Warn("forged uevent dropped", logevent.UEventForged, logevent.Count(1), logevent.PID(i), logevent.UID(i), logevent.Port(uint32(i)))
		}
		if n := r.core.Subjects(); n != 1 || r.logs.Len() != throttle.Burst {
			t.Errorf("found %d counts and %d lines, want 1 and %d", n, r.logs.Len(), throttle.Burst)
		}
	})
}

// Lines of a level that is not enabled are not counted.
func TestLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, logs := observer.New(zapcore.WarnLevel)
		core := throttle.New(to)
		log := zap.New(core)
		for range 100 {
			log.Info("stream opened", logevent.StreamOpened, logevent.Resource("example.com/a"))
		}
		core.Close()
		if logs.Len() != 0 {
			t.Errorf("found %d lines, want none", logs.Len())
		}
	})
}

// The cost of a written and of a suppressed line.
func BenchmarkWrite(b *testing.B) {
	for _, bench := range []struct {
		name string
		line func(*zap.Logger)
	}{
		{"exempt", func(log *zap.Logger) {
			log.Info("list sent", logevent.ListSent, logevent.Rev(1), logevent.Count(1), logevent.Devices([]string{"3b:00.0"}))
		}},
		{"suppressed", func(log *zap.Logger) { log.Info("stream opened", logevent.StreamOpened) }},
	} {
		for _, throttled := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/throttled=%t", bench.name, throttled), func(b *testing.B) {
				to := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zapcore.InfoLevel)
				core := throttle.New(to)
				defer core.Close()
				log := zap.New(to)
				if throttled {
					log = zap.New(core)
				}
				log = log.With(logevent.Resource("example.com/a"))
				b.ReportAllocs()
				for b.Loop() {
					bench.line(log)
				}
			})
		}
	}
}
