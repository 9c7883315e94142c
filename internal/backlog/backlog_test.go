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
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// reader is the writer of the core. It simulates a reader that stalls, or a full disk.
type reader struct {
	mu      sync.Mutex
	stalled chan struct{} // Write blocks until stalled is closed; nil: Write does not block
	room    int           // bytes until the disk is full; negative: no limit
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

// stall makes Write block until resume is called.
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

// fill sets the free space of the disk.
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
	dropped [4]atomic.Int64 // by level, as in the metric
}

func newRig() *rig {
	r := &rig{reader: &reader{room: -1}}
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", MessageKey: "message",
		EncodeTime: zapcore.TimeEncoderOfLayout(logevent.TimeLayout), EncodeLevel: zapcore.LowercaseLevelEncoder,
	})
	count := func(l zapcore.Level) { r.dropped[l-zapcore.DebugLevel].Add(1) }
	r.core = backlog.NewSized(encoder, r.reader, zapcore.DebugLevel, count, 16<<10)
	r.Logger = zap.New(r.core)
	return r
}

// log logs n lines with the next numbers. Each seventh line is a warning.
func (r *rig) log(n int) {
	for range n {
		if r.logged%7 == 6 {
			r.Warn("read timed out", logevent.ReadTimeout, logevent.PCI(fmt.Sprint(r.logged)), logevent.Lasted(0))
		} else {
			r.Info("slow read finished", logevent.ReadRecovered, logevent.PCI(fmt.Sprint(r.logged)), logevent.Lasted(0))
		}
		r.logged++
	}
}

// check checks the written lines: each is complete, the numbers are in order, and each gap between
// them has the length in its line log.dropped. It returns the number of gaps, and the number of
// lines in all gaps. If torn is true, it ignores incomplete lines, which a full disk causes.
func (r *rig) check(t *testing.T, torn bool) (gaps, lost int) {
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
		must.Succeed(t, eventtest.Line([]byte(line)))
		if l.Event == logevent.LogDropped.String {
			gaps++
			gap += l.Count
			byLevel[1] += l.Info
			byLevel[2] += l.Warn
			continue
		}
		if l.PCI != next+gap {
			t.Fatalf("found line %d after line %d and a gap of %d", l.PCI, next-1, gap)
		}
		next, lost, gap = l.PCI+1, lost+gap, 0
	}
	if next += gap; next != r.logged {
		t.Errorf("found %d lines written or reported as dropped, want %d", next, r.logged)
	}
	for i := range byLevel {
		compare.Equal(t, fmt.Sprintf("level %s: lines reported as dropped", zapcore.Level(i-1)), byLevel[i], int(r.dropped[i].Load()))
	}
	return gaps, lost + gap
}

func TestLinesAreWrittenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for range 10 {
			r.log(100)
			synctest.Wait()
		}
		r.log(100)
		began := time.Now()
		r.core.Close()
		compare.Equal(t, "time of Close with a reader that reads", 0, time.Since(began))
		if gaps, lost := r.check(t, false); gaps != 0 || lost != 0 {
			t.Errorf("found %d gaps with %d lines, want none", gaps, lost)
		}
	})
}

// While the reader stalls, logging does not block: some lines wait, and the newest are dropped. When
// the reader resumes, the log has a line log.dropped in place of the missing lines.
func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for i := 1; i <= 3; i++ {
			resume := r.reader.stall()
			r.log(1)
			synctest.Wait() // the writer has taken this line
			began := time.Now()
			r.log(1000)
			time.Sleep(time.Hour)
			r.log(10)
			if took := time.Since(began); took != time.Hour {
				t.Fatalf("logging: took %s, want 0s", took-time.Hour)
			}
			resume()
			synctest.Wait()
			r.log(10)
			synctest.Wait()
			gaps, lost := r.check(t, false)
			if kept := 1000 - lost/i; gaps != i || kept < 80 || kept > 130 {
				t.Errorf("found %d gaps and %d lines kept each time; want %d gaps, and about 100 lines of 160 bytes in 16 KiB", gaps, kept, i)
			}
		}
		compare.Contains(t, "gaps", `,"lasted_ms":3600000}`, r.reader.got.String())
		r.core.Close()
	})
}

// Close and Sync wait for a stalled reader for half a second. Later lines are dropped.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		resume := r.reader.stall()
		for _, wait := range []func(){func() { _ = r.Sync() }, func() { r.log(5); _ = r.Sync() }, r.core.Close} {
			began, lines := time.Now(), r.logged
			wait()
			want := backlog.FlushTimeout
			if lines == 0 && r.logged == 0 {
				want = 0
			}
			compare.Equal(t, "wait", want, time.Since(began))
		}
		r.Error("daemon failed", logevent.DaemonFailed, logevent.Err(errFull))
		compare.Equal(t, "dropped errors after Close", 1, r.dropped[3].Load())
		resume()
		synctest.Wait()
		r.dropped[3].Store(0)
		r.check(t, false)
	})
}

// Lines are dropped while the disk is full. When it has space again, a line log.dropped on a line of its
// own has their number.
func TestFullDisk(t *testing.T) {
	for _, room := range []int{0, 1, 10, 117, 200, 1000} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.log(3)
			synctest.Wait()
			r.reader.fill(room)
			r.log(100)
			synctest.Wait()
			r.log(100)
			synctest.Wait()
			r.reader.fill(-1)
			r.log(3)
			r.core.Close()
			gaps, lost := r.check(t, true)
			if gaps != 1 || lost < 190 {
				t.Errorf("room %d: found %d gaps with %d lines, want one with at least 190", room, gaps, lost)
			}
			compare.Contains(t, "log", `"error":"no space left on device"`, r.reader.got.String())
		})
	}
}

// A core made by With adds its fields. Its lines and the lines of other cores are written in order.
func TestWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		other := r.With(logevent.Resource("example.com/a"))
		r.Info("resource retired", logevent.ResourceRetired, logevent.Resource("example.com/b"))
		other.Info("resource retired", logevent.ResourceRetired)
		r.Info("resource retired", logevent.ResourceRetired, logevent.Resource("example.com/c"))
		r.core.Close()
		var got []string
		for line := range strings.Lines(r.reader.got.String()) {
			var l struct{ Resource string }
			must.Succeed(t, eventtest.Line([]byte(line)), json.Unmarshal([]byte(line), &l))
			got = append(got, l.Resource)
		}
		if want := "[example.com/b example.com/a example.com/c]"; fmt.Sprint(got) != want {
			t.Errorf("resources: found %v, want %s", got, want)
		}
	})
}

// A line above level error is written before the call returns, because zap ends the process next.
func TestFatalIsWritten(t *testing.T) {
	r := newRig()
	defer r.core.Close()
	entry := zapcore.Entry{Level: zapcore.FatalLevel, Message: "library failed"}
	must.Succeed(t, r.core.Write(entry, []zapcore.Field{logevent.LibraryLog}))
	r.reader.mu.Lock()
	defer r.reader.mu.Unlock()
	if got := r.reader.got.String(); !strings.Contains(got, "library failed") {
		t.Errorf("found %q, want the line", got)
	}
}

// Several goroutines log while the reader stalls repeatedly: no line is written twice, and each line
// that is not written is counted.
func TestConcurrent(t *testing.T) {
	r := newRig()
	const writers, each = 8, 1000
	var tasks sync.WaitGroup
	for range writers {
		tasks.Go(func() {
			for range each {
				r.Info("resource retired", logevent.ResourceRetired, logevent.Resource("example.com/a"))
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
		t.Errorf("found %d lines written and %d dropped, want %d in all", written, dropped, writers*each)
	}
}

// With random stalls and failures of the reader, each line is written, in order, or
// reported as dropped.
func FuzzAllLinesCounted(f *testing.F) {
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
					r.log(int(b))
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
			r.log(1) // before this line, all gaps are reported
			r.core.Close()
			r.check(t, true)
		})
	})
}
