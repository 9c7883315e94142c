package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/metricstest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// clock always returns the same time.
type clock struct{ time.Time }

func (c clock) Now() time.Time                         { return c.Time }
func (c clock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// A line's time has nine decimal digits and the offset to UTC, whatever the time zone.
func TestTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 20, 56, 34, 460_000_000, time.UTC)
	for _, test := range []struct {
		zone *time.Location
		want string
	}{
		{time.UTC, "2026-11-21T20:56:34.460000000Z"},
		{time.FixedZone("", 5*3600+1800), "2026-11-22T02:26:34.460000000+05:30"},
		{time.FixedZone("", -8*3600), "2026-11-21T12:56:34.460000000-08:00"},
	} {
		var out bytes.Buffer
		log := OpenLog(config.Defaults(), &out, metrics.New("test"))
		log.WithOptions(zap.WithClock(clock{at.In(test.zone)})).Info("daemon stopped", logevent.DaemonStopped)
		log.Close()
		var line struct{ Time string }
		if err := errors.Join(eventtest.Line(out.Bytes()), json.Unmarshal(out.Bytes(), &line)); err != nil || line.Time != test.want {
			t.Errorf("time %q, want %q: %v", line.Time, test.want, err)
		}
	}
}

// Repeated warnings are counted, and the counts are logged before the last line.
func TestRepeatedWarningsAreCounted(t *testing.T) {
	var out bytes.Buffer
	log := OpenLog(config.Defaults(), &out, metrics.New("test"))
	for range 50 {
		log.Warn("inotify events lost", logevent.InotifyOverflow, logevent.Path("/dev"))
	}
	log.EndCounts()
	log.Info("daemon stopped", logevent.DaemonStopped)
	log.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 22 || !strings.Contains(lines[20], `"event":"log.suppressed","of":"inotify.overflow","count":30,`) {
		t.Errorf("%d lines, want 20, log.suppressed with 30, and the last:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		must.Succeed(t, eventtest.Line([]byte(line)))
	}
}

// If its log isn't being read, the daemon drops lines. It never waits when it logs, and only for a moment when it
// exits.
func TestLogThatIsNotRead(t *testing.T) {
	read, write := io.Pipe()
	defer read.Close()
	m := metrics.New("test")
	log := OpenLog(config.Defaults(), write, m)
	for i := range 10_000 {
		log.Warn("read timed out", logevent.ReadTimeout, logevent.PCI(strconv.Itoa(i)), logevent.Lasted(0))
	}
	log.Close()
	if page := metricstest.Page(t, m); !strings.Contains(page, `log_dropped_total{level="warn"} `) || strings.Contains(page, `log_dropped_total{level="warn"} 0`) {
		t.Errorf("found no dropped line:\n%s", page)
	}
}
