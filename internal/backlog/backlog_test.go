package backlog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/event/eventtest"
)

// reader is the other end of the log.
type reader struct {
	mu      sync.Mutex
	stalled chan struct{} // Write blocks until it is closed; nil: it does not
	room    int           // bytes until the disk is full; negative: it never is
	got     bytes.Buffer
}

var errFull = errors.New("no space left on device")

func (r *reader) Write(line []byte) (int, error) {
	r.mu.Lock()
	stalled := r.stalled
	r.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(line)
	if r.room >= 0 {
		n = min(n, r.room)
		r.room -= n
	}
	r.got.Write(line[:n])
	if n < len(line) {
		return n, errFull
	}
	return n, nil
}

// stall makes the reader stall, until resume is called.
func (r *reader) stall() (resume func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stalled := make(chan struct{})
	r.stalled = stalled
	return func() {
		r.mu.Lock()
		r.stalled = nil
		r.mu.Unlock()
		close(stalled)
	}
}

// fill leaves so many bytes on the disk.
func (r *reader) fill(room int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.room = room
}

// rig is a logger whose lines are counted and numbered.
type rig struct {
	*zap.Logger
	core    *backlog.Core
	reader  *reader
	logged  int
	dropped [4]atomic.Int64 // by level, as the metric has them
}

func newRig() *rig {
	r := &rig{reader: &reader{room: -1}}
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", MessageKey: "message",
		EncodeTime: zapcore.TimeEncoderOfLayout(event.TimeLayout), EncodeLevel: zapcore.LowercaseLevelEncoder,
	})
	count := func(l zapcore.Level) { r.dropped[l-zapcore.DebugLevel].Add(1) }
	r.core = backlog.NewSized(encoder, r.reader, zapcore.DebugLevel, count, 16<<10)
	r.Logger = zap.New(r.core)
	return r
}

// say logs n lines with the numbers that follow. Each seventh is a warning.
func (r *rig) say(n int) {
	for range n {
		if r.logged%7 == 6 {
			r.Warn("reading timed out", event.ReadTimeout, event.PCI(fmt.Sprint(r.logged)), event.Lasted(0))
		} else {
			r.Info("late reading returned", event.ReadRecovered, event.PCI(fmt.Sprint(r.logged)), event.Lasted(0))
		}
		r.logged++
	}
}

// account checks what was written: every line is whole, the numbers are in order, and each
// gap between them is as long as the line log.dropped at its place says. It returns how
// many such lines there are, and how many lines there are in all gaps. Lines that were torn
// by a full disk are left out where torn is set.
func (r *rig) account(t *testing.T, torn bool) (gaps, lost int) {
	t.Helper()
	next, gap := 0, 0
	byLevel := [4]int{}
	for line := range strings.Lines(r.reader.got.String()) {
		var l struct {
			Event string
			PCI   int `json:",string"`
			Count int
			Info  int `json:"dropped_info"`
			Warn  int `json:"dropped_warn"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil && torn {
			continue
		}
		if err := eventtest.Line([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if l.Event == event.LogDropped.String {
			gaps++
			gap += l.Count
			byLevel[1] += l.Info
			byLevel[2] += l.Warn
			continue
		}
		if l.PCI != next+gap {
			t.Fatalf("line %d after line %d, and a gap of %d", l.PCI, next-1, gap)
		}
		next, lost, gap = l.PCI+1, lost+gap, 0
	}
	if next += gap; next != r.logged {
		t.Errorf("%d lines logged, %d written or reported as dropped", r.logged, next)
	}
	for i := range byLevel {
		if n := int(r.dropped[i].Load()); n != byLevel[i] {
			t.Errorf("level %s: %d dropped, %d reported", zapcore.Level(i-1), n, byLevel[i])
		}
	}
	return gaps, lost + gap
}

func TestLinesAreWrittenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for range 10 {
			r.say(100)
			synctest.Wait()
		}
		r.say(100)
		began := time.Now()
		r.core.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %s with a reader that is alive, want none", took)
		}
		if gaps, lost := r.account(t, false); gaps != 0 || lost != 0 {
			t.Errorf("%d gaps with %d lines, want none", gaps, lost)
		}
	})
}

// While the reader is stalled, logging goes on: some lines wait, the newest are dropped.
// When it is back, the log says so where they are missing.
func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for i := 1; i <= 3; i++ {
			resume := r.reader.stall()
			r.say(1)
			synctest.Wait() // the writer has that one
			began := time.Now()
			r.say(1000)
			time.Sleep(time.Hour)
			r.say(10)
			if took := time.Since(began); took != time.Hour {
				t.Fatalf("logging took %s, want no time", took-time.Hour)
			}
			resume()
			synctest.Wait()
			r.say(10)
			synctest.Wait()
			gaps, lost := r.account(t, false)
			if kept := 1000 - lost/i; gaps != i || kept < 80 || kept > 130 {
				t.Errorf("%d gaps, %d lines kept each time; want %d about 100 of 160 bytes in 16 KiB", gaps, kept, i)
			}
		}
		if !strings.Contains(r.reader.got.String(), `,"lasted_ms":3600000}`) {
			t.Error("no gap lasted an hour")
		}
		r.core.Close()
	})
}

// Close and Sync wait for a stalled reader for half a second; what is logged later is
// dropped.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		resume := r.reader.stall()
		for _, wait := range []func(){func() { _ = r.Sync() }, func() { r.say(5); _ = r.Sync() }, r.core.Close} {
			began, lines := time.Now(), r.logged
			wait()
			want := backlog.FlushTimeout
			if lines == 0 && r.logged == 0 {
				want = 0
			}
			if took := time.Since(began); took != want {
				t.Errorf("waited for %s, want %s", took, want)
			}
		}
		r.Error("daemon failed", event.DaemonFailed, event.Err(errFull))
		if n := r.dropped[3].Load(); n != 1 {
			t.Errorf("%d errors dropped after Close, want 1", n)
		}
		resume()
		synctest.Wait()
		r.dropped[3].Store(0)
		r.account(t, false)
	})
}

// A disk that is full loses lines; when it has room again the log says how many, on a line
// of its own.
func TestFullDisk(t *testing.T) {
	for _, room := range []int{0, 1, 10, 117, 200, 1000} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.say(3)
			synctest.Wait()
			r.reader.fill(room)
			r.say(100)
			synctest.Wait()
			r.say(100)
			synctest.Wait()
			r.reader.fill(-1)
			r.say(3)
			r.core.Close()
			gaps, lost := r.account(t, true)
			if gaps != 1 || lost < 190 {
				t.Errorf("room %d: %d gaps with %d lines, want one with more than 190", room, gaps, lost)
			}
			if !strings.Contains(r.reader.got.String(), `"error":"no space left on device"`) {
				t.Error("the log does not say why")
			}
		})
	}
}

// A core made by With has its fields, and its lines are in order with those of the others.
func TestWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		other := r.With(event.Resource("example.com/a"))
		r.Info("resource retired", event.ResourceRetired, event.Resource("example.com/b"))
		other.Info("resource retired", event.ResourceRetired)
		r.Info("resource retired", event.ResourceRetired, event.Resource("example.com/c"))
		r.core.Close()
		var got []string
		for line := range strings.Lines(r.reader.got.String()) {
			var l struct{ Resource string }
			if err := errors.Join(eventtest.Line([]byte(line)), json.Unmarshal([]byte(line), &l)); err != nil {
				t.Fatal(err)
			}
			got = append(got, l.Resource)
		}
		if want := "[example.com/b example.com/a example.com/c]"; fmt.Sprint(got) != want {
			t.Errorf("resources %v, want %s", got, want)
		}
	})
}

// A line above error is written when the call returns: zap ends the process then.
func TestFatalIsWritten(t *testing.T) {
	r := newRig()
	defer r.core.Close()
	entry := zapcore.Entry{Level: zapcore.FatalLevel, Message: "library gave up"}
	if err := r.core.Write(entry, []zapcore.Field{event.LibraryLog}); err != nil {
		t.Fatal(err)
	}
	r.reader.mu.Lock()
	defer r.reader.mu.Unlock()
	if got := r.reader.got.String(); !strings.Contains(got, "library gave up") {
		t.Errorf("written: %q, want the line", got)
	}
}

// Many goroutines log, the reader stalls now and then: nothing is written twice, and what
// is not written is counted.
func TestConcurrent(t *testing.T) {
	r := newRig()
	const writers, each = 8, 1000
	var tasks sync.WaitGroup
	for range writers {
		tasks.Go(func() {
			for range each {
				r.Info("resource retired", event.ResourceRetired, event.Resource("example.com/a"))
			}
		})
	}
	for range 5 {
		r.reader.stall()()
	}
	tasks.Wait()
	r.core.Close()
	written := strings.Count(r.reader.got.String(), "resource.retired")
	if dropped := int(r.dropped[1].Load()); written+dropped != writers*each {
		t.Errorf("%d lines written, %d dropped, want %d in all", written, dropped, writers*each)
	}
}

// With random stalls and failures of the reader, each line is written, in order, or
// reported as dropped.
func FuzzAllIsAccountedFor(f *testing.F) {
	f.Add([]byte{0x7f, 0x80, 0x7f, 0x7f, 0x81, 0x05})
	f.Add([]byte{0x01, 0xc0, 0x7f, 0xff, 0x01, 0xd0, 0x05, 0x05, 0xff})
	f.Add([]byte{0x80, 0x7f, 0x7f, 0x7f, 0xc3, 0x81, 0x10, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			t.Skip("long")
		}
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			resume := func() {}
			for _, b := range script {
				switch {
				case b == 0x80:
					resume()
					resume = r.reader.stall()
				case b < 0x80:
					r.say(int(b))
				case b == 0xff:
					r.reader.fill(-1)
				case b >= 0xc0:
					r.reader.fill(int(b-0xc0) * 37)
				default:
					resume()
					resume = func() {}
					synctest.Wait()
				}
			}
			resume()
			r.reader.fill(-1)
			synctest.Wait()
			r.say(1) // after which all is reported
			r.core.Close()
			r.account(t, true)
		})
	})
}
