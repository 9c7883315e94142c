package timeline_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// ms returns a line of the log, some milliseconds after noon.
func ms(after int, level, event, fields string) string {
	return entry(time.Date(2026, 11, 21, 12, 0, 0, after*1e6, time.UTC).Format(time.RFC3339Nano), level, event, fields)
}

func became(after int, level, device, old, new, reasons string) string {
	return ms(after, level, "device.health", fmt.Sprintf(`"device":%q,"old":%q,"new":%q,"reasons":[%s],"lasted_ms":9000`, device, old, new, reasons))
}

func removed(after int, device, old string) string {
	return ms(after, "info", "device.removed", fmt.Sprintf(`"device":%q,"old":%q,"lasted_ms":2,"holders":["default/pod/main"]`, device, old))
}

func isNew(after int, level, health, reasons string) string {
	return ms(after, level, "device.added", fmt.Sprintf(`"device":"d","health":%q,"reasons":[%s],"resource":"r"`, health, reasons))
}

func changed(after int, attribute, old, new string) string {
	return ms(after, "info", "device.identity", fmt.Sprintf(`"device":"d","attribute":%q,"old":%q,"new":%q`, attribute, old, new))
}

// Each pull is one line, in its place in the order. All other lines are printed.
func TestFold(t *testing.T) {
	told := func(after int) string { return ms(after, "info", "list.sent", `"resource":"r","count":1`) }
	fails := became(0, "warn", "d", "healthy", "unhealthy", `"fme-unbound"`)
	worse := became(1, "warn", "d", "unhealthy", "unhealthy", `"fme-unbound","node-missing","unreadable=id","recovering=x"`)
	const failed, told1 = "00.000 d                     ! healthy → unhealthy: fme-unbound (was healthy for 9.00 s)", "00.001 r                       list sent: complete (1 in all)"
	const pulled = "00.002 d                       gone, in use by default/pod/main (was healthy for 9.00 s; steps: fme-unbound, node-missing, unreadable)"
	for _, test := range []struct {
		name, log string
		want      []string
	}{
		{"pulled", fails + worse + changed(1, "parent", "dfl-fme.0", "") + removed(2, "d", "unhealthy"), []string{pulled}},
		{"cordoned, and pulled", became(0, "warn", "d", "unhealthy", "unhealthy", `"cordoned","fme-unbound"`) + became(1, "warn", "d", "unhealthy", "unhealthy", `"cordoned","node-missing"`) +
			removed(2, "d", "unhealthy"), []string{"00.002 d                       gone, in use by default/pod/main (was unhealthy for 2.00 ms; steps: fme-unbound, node-missing)"}},
		{"cordoned, and stays", became(0, "warn", "d", "healthy", "unhealthy", `"cordoned"`) + removed(2, "d", "unhealthy"), []string{
			"00.000 d                     ! healthy → unhealthy: cordoned (was healthy for 9.00 s)", "00.002 d                       gone, in use by default/pod/main (was unhealthy for 2.00 ms)"}},
		{"other lines in between keep their order", fails + told(1) + worse + removed(2, "d", "unhealthy"), []string{told1, pulled}},
		{"two devices, one breaks", became(0, "warn", "e", "healthy", "unhealthy", `"port-ap6"`) + fails + worse + removed(2, "d", "unhealthy") + told(600), []string{
			"00.000 e                     ! healthy → unhealthy: port-ap6 (was healthy for 9.00 s)", pulled, "00.600 r                       list sent: complete (1 in all)"}},
		{"breaks, and is pulled two seconds later", fails + removed(2000, "d", "unhealthy"), []string{
			failed, "02.000 d                       gone, in use by default/pod/main (was unhealthy for 2.00 ms)"}},
		{"breaks, and is removed at once", became(0, "warn", "d", "healthy", "unhealthy", `"fme-fatal"`) + removed(2, "d", "unhealthy"), []string{
			"00.000 d                     ! healthy → unhealthy: fme-fatal (was healthy for 9.00 s)", "00.002 d                       gone, in use by default/pod/main (was unhealthy for 2.00 ms)"}},
		{"breaks while it is pulled", fails + became(1, "warn", "d", "unhealthy", "unhealthy", `"fme-unbound","fme-fatal"`) + removed(2, "d", "unhealthy"), []string{
			failed, "00.001 d                     ! still unhealthy: fme-unbound, fme-fatal (was unhealthy for 9.00 s)", "00.002 d                       gone, in use by default/pod/main (was unhealthy for 2.00 ms)"}},
		{"gets another AFU, and is pulled", fails + changed(1, "afu", "d842", "f7df") + removed(2, "d", "unhealthy"), []string{
			"00.001 d                       changed: afu d842 → f7df", "00.002 d                       gone, in use by default/pod/main (was healthy for 9.00 s; steps: fme-unbound)"}},
		{"breaks, and stays", fails, []string{failed}},
		{"breaks, and heals", fails + became(2, "info", "d", "unhealthy", "healthy", "") + removed(3, "d", "healthy"), []string{
			failed, "00.002 d                       unhealthy → healthy (was unhealthy for 9.00 s)", "00.003 d                       gone, in use by default/pod/main (was healthy for 2.00 ms)"}},
		{"pulled in one step", removed(2, "d", "healthy"), []string{"00.002 d                       gone, in use by default/pod/main (was healthy for 2.00 ms)"}},

		{"plugged", isNew(0, "info", "unhealthy", `"driver-unbound"`) + became(2, "info", "d", "unhealthy", "healthy", ""),
			[]string{"00.000 d                       new, unhealthy: driver-unbound; resource r", "00.002 d                       unhealthy → healthy (was unhealthy for 9.00 s)"}},
		{"two nodes with the same id", "[pod/a/p] " + fails + "[pod/b/p] " + removed(1, "d", "healthy"), []string{
			"00.000 a  d                     ! healthy → unhealthy: fme-unbound (was healthy for 9.00 s)", "00.001 b  d                       gone, in use by default/pod/main (was healthy for 2.00 ms)"}},
		{"the clock goes back", fails + strings.ReplaceAll(removed(1, "d", "unhealthy"), "T12:", "T11:"), []string{
			failed, "2026-11-21T11:00:00.001 d                       gone, in use by default/pod/main (was unhealthy for 2.00 ms)"}},
	} {
		out, _ := read(t, timeline.Options{}, test.log)
		got := strings.Split(strings.TrimSuffix(strings.NewReplacer("2026-11-21T12:00:", "", "Z  ", " ").Replace(out), "\n"), "\n")
		compare.Values(t, test.name, test.want, got)
		all, _ := read(t, timeline.Options{All: true}, test.log)
		if n := strings.Count(all, "\n"); n != strings.Count(test.log, "\n") {
			t.Errorf("%s, with All: %d lines, want all lines of the log:\n%s", test.name, n, all)
		}
	}
}

// screen is the output of a reader, which another goroutine reads.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Waiting lines are printed if no other line follows.
func TestFoldFollowedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out screen
		reader := newReader(t, timeline.Options{}, &out)
		in, log := io.Pipe()
		done := make(chan error)
		go func() { done <- reader.Read(t.Context(), "the log", in) }()
		fmt.Fprint(log, became(0, "warn", "d", "healthy", "unhealthy", `"fme-unbound"`))
		time.Sleep(499 * time.Millisecond)
		synctest.Wait()
		compare.Equal(t, "printed while the pull may continue", "", out.String())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		compare.Contains(t, "printed", "fme-unbound", out.String())
		fmt.Fprint(log, removed(1, "d", "unhealthy"))
		log.Close()
		must.Succeed(t, <-done)
		compare.Contains(t, "printed", "gone, in use by default/pod/main (was unhealthy", out.String())
	})
}

// If many devices fail at the same time, all lines are printed.
func TestFoldManyDevices(t *testing.T) {
	var log strings.Builder
	const many = 5000
	for i := range many {
		log.WriteString(became(0, "warn", fmt.Sprint("d", i), "healthy", "unhealthy", `"port-ap6"`))
	}
	out, _ := read(t, timeline.Options{}, log.String())
	compare.Equal(t, "lines", many, strings.Count(out, "port-ap6"))
}
