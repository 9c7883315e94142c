package timeline_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/timeline"
)

// gigabyte is a log of a size that is made while it is read: real lines, again and
// again, each at its time.
type gigabyte struct {
	lines [][]byte // without their time
	at    time.Time
	next  int
	left  int64  // bytes
	rest  []byte // of the present line
	peak  uint64 // bytes of the heap, at most
	reads int
}

func newGigabyte(tb testing.TB, file string, size int64) *gigabyte {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return &gigabyte{lines: bytes.SplitAfter(bytes.TrimSpace(data), []byte("\n")), at: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), left: size}
}

var stamp = []byte(`"time":"`)

func (g *gigabyte) Read(p []byte) (n int, err error) {
	if g.reads++; g.reads%1000 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		g.peak = max(g.peak, m.HeapInuse)
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
			g.rest = append(g.at.AppendFormat(append(g.rest[:0], line[:begin]...), "2006-01-02T15:04:05.000000000Z07:00"), line[end:]...)
			if !bytes.HasSuffix(g.rest, []byte("\n")) {
				g.rest = append(g.rest, '\n')
			}
			g.left -= int64(len(g.rest))
		}
		taken := copy(p[n:], g.rest)
		n, g.rest = n+taken, g.rest[taken:]
	}
	return n, nil
}

// BenchmarkGigabyte reads a gigabyte: what is printed, MB/s and the peak of the heap.
//
//	go test -run '^$' -bench Gigabyte -benchtime 1x ./internal/timeline
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
			fmt.Fprint(io.Discard)
		})
	}
}
