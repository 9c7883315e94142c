package main

import (
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// at returns the time ms milliseconds after begin.
func at(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }

// list returns a list with the given devices. A "!" in front marks an unhealthy device.
func list(number, ms int, devices ...string) simkubelet.List {
	l := simkubelet.List{Number: number, Received: at(ms)}
	for _, d := range devices {
		id, bad := strings.CutPrefix(d, "!")
		l.Devices = append(l.Devices, simkubelet.Device{ID: id, Healthy: !bad})
	}
	return l
}

func expectation(t testing.TB, text string) story.Expectation {
	t.Helper()
	e, err := story.ParseExpectation(strings.Fields(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestMet(t *testing.T) {
	for _, tc := range []struct {
		expect  string
		devices []string
		want    bool
	}{
		{"01:00.0 healthy", []string{"02:00.0", "01:00.0"}, true},
		{"01:00.0 healthy", []string{"!01:00.0"}, false},
		{"01:00.0 healthy", nil, false},
		{"01:00.0 degraded a", []string{"01:00.0"}, true},
		{"01:00.0 degraded a", []string{"!01:00.0"}, false},
		{"01:00.0 unhealthy a", []string{"!01:00.0"}, true},
		{"01:00.0 unhealthy a", []string{"01:00.0"}, false},
		{"01:00.0 unhealthy a", nil, false},
		{"01:00.0 gone", []string{"01:00.0-p1"}, true},
		{"01:00.0 gone", []string{"!01:00.0"}, false},
		{"01:00.0-p1 healthy", []string{"01:00.0"}, false},
		{"01:00.0 healthy unoffered", nil, true},
		{"01:00.0 healthy unoffered", []string{"01:00.0"}, false},
	} {
		if got := met(expectation(t, tc.expect), list(1, 0, tc.devices...)); got != tc.want {
			t.Errorf("%s in %v: got %v, want %v", tc.expect, tc.devices, got, tc.want)
		}
	}
}

func TestFirstMet(t *testing.T) {
	for _, tc := range []struct {
		name   string
		expect string
		lists  []simkubelet.List
		want   int // number of the list; 0 if none
	}{
		{"the first of several", "01:00.0 healthy", []simkubelet.List{list(1, -5), list(2, 5, "!01:00.0"), list(3, 9, "01:00.0"), list(4, 12, "01:00.0")}, 3},
		{"no list before", "01:00.0 healthy", []simkubelet.List{list(1, 5, "01:00.0")}, 1},
		{"met before", "01:00.0 healthy", []simkubelet.List{list(1, -5, "01:00.0"), list(2, 5, "01:00.0")}, 0},
		{"never met", "01:00.0 healthy", []simkubelet.List{list(1, -5), list(2, 5, "02:00.0")}, 0},
		{"gone", "01:00.0 gone", []simkubelet.List{list(1, -5, "01:00.0"), list(2, 5)}, 2},
		{"unhealthy counts as gone", "01:00.0 gone", []simkubelet.List{list(1, -5, "01:00.0"), list(2, 5, "!01:00.0"), list(3, 9)}, 2},
		{"gone, and never listed", "01:00.0 gone", []simkubelet.List{list(1, 5)}, 0},
		{"no list", "01:00.0 gone", nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := firstMet(tc.lists, begin, expectation(t, tc.expect))
			if got.Number != tc.want || ok != (tc.want > 0) {
				t.Errorf("got list %d, %v; want %d", got.Number, ok, tc.want)
			}
		})
	}
}
