package timeline_test

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
)

// gigabyte is a log of any size, generated while it is read. It repeats the lines of a real log, with
// increasing times.
type gigabyte struct {
	lines [][]byte // without their time
	at    time.Time
	next  int
	left  int64  // bytes
	line  []byte // the current line
	rest  []byte // the part of line that is not read yet
	peak  uint64 // largest heap so far, in bytes
	reads int
}

func newGigabyte(tb testing.TB, file string, size int64) *gigabyte {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSpace(data), []byte("\n"))
	return &gigabyte{lines: lines, at: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), left: size}
}

// measured is a log that is generated while it is read. It measures the heap of its reader.
type measured struct {
	line  func() string
	left  int // bytes
	rest  string
	peak  uint64 // largest heap in use so far, without garbage, in bytes
	reads int
}

func (m *measured) Read(p []byte) (n int, err error) {
	if m.reads++; m.reads%16 == 0 {
		m.peak = max(m.peak, live())
	}
	if m.left <= 0 {
		return 0, io.EOF
	}
	for n < len(p) {
		if m.rest == "" {
			m.rest = m.line()
		}
		taken := copy(p[n:], m.rest)
		n, m.rest = n+taken, m.rest[taken:]
	}
	m.left -= n
	return n, nil
}

// heap returns the bytes of the heap, garbage included.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// live returns the bytes of the heap without garbage.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

var stamp = []byte(`"time":"`)

func (g *gigabyte) Read(p []byte) (n int, err error) {
	if g.reads++; g.reads%50 == 0 {
		g.peak = max(g.peak, heap())
	}
	for n < len(p) {
		if len(g.rest) == 0 {
			if g.left <= 0 {
				return n, io.EOF
			}
			line := g.lines[g.next%len(g.lines)]
			g.next++
			g.at = g.at.Add(137 * time.Microsecond)
			begin := bytes.Index(line, stamp) + len(stamp)
			end := begin + bytes.IndexByte(line[begin:], '"')
			g.line = append(g.at.AppendFormat(append(g.line[:0], line[:begin]...), time.RFC3339Nano), bytes.TrimSpace(line[end:])...)
			g.line = append(g.line, '\n')
			g.rest = g.line
			g.left -= int64(len(g.rest))
		}
		taken := copy(p[n:], g.rest)
		n, g.rest = n+taken, g.rest[taken:]
	}
	return n, nil
}

// processor returns the processor time used so far, which does not depend on the load of the machine.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGigabyte reads a gigabyte. It prints MB/s by wall clock and by processor time (a tenth of
// which generates the log), and the largest heap.
//
//	go test -run '^$' -bench Gigabyte -benchtime 1x ./cmd/internal/timeline
func BenchmarkGigabyte(b *testing.B) {
	for _, bench := range []struct {
		name, file string
		o          timeline.Options
	}{
		{"timeline of a log at info", "testdata/demo.log", timeline.Options{}},
		{"timeline of a log at debug", "testdata/debug.log", timeline.Options{}},
		{"one device", "testdata/demo.log", timeline.Options{Filter: timeline.Filter{Devices: []string{"3b:00.0-p1"}}}},
		{"json", "testdata/demo.log", timeline.Options{JSON: true}},
		{"summary", "testdata/demo.log", timeline.Options{Summary: true}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			const size = 1 << 30
			b.SetBytes(size)
			b.ReportAllocs()
			begin := processor(b)
			for b.Loop() {
				log := newGigabyte(b, bench.file, size)
				reader, err := timeline.New(bench.o, io.Discard)
				if err != nil {
					b.Fatal(err)
				}
				if err := reader.Read("a gigabyte", log); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(log.peak)/(1<<20), "MiB-heap")
			}
			b.ReportMetric(size/1e6*float64(b.N)/(processor(b)-begin).Seconds(), "MB/CPU-s")
		})
	}
}
