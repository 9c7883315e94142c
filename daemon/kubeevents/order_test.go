package kubeevents_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// timed records the time of each request as SECONDS METHOD, and then passes the request to f.
func (r *rig) timed(f func(http.ResponseWriter, *http.Request) bool) *[]string {
	var all []string
	begin := time.Now()
	r.UseFault(func(w http.ResponseWriter, q *http.Request) bool {
		r.locked(func() { all = append(all, fmt.Sprintf("%.1f %s", time.Since(begin).Seconds(), q.Method)) })
		return f != nil && f(w, q)
	})
	return &all
}

// If an Event is repeated while it's being written, the repetition is written too.
func TestRepetitionDuringWrite(t *testing.T) {
	story(t, func(r *rig) {
		r.timed(func(http.ResponseWriter, *http.Request) bool { time.Sleep(6 * time.Second); return false })
		r.publish(true, device("3b:00.0", "port-ap6"))
		after(2 * time.Second)
		r.publish(true, device("3b:00.0", "afu-dead", "port-ap6"))
		after(time.Minute)
		r.events("twice", onNode+"Warning DeviceUnhealthy x2")
	})
}

// Retry-After is respected, even if more Events arrive.
func TestRetryAfterHeader(t *testing.T) {
	story(t, func(r *rig) {
		times := r.timed(refuse("", 429, "slow", "Retry-After", "50"))
		var list []*inventory.Device
		for i := range 20 {
			list = append(list, device(fmt.Sprintf("%02x:00.0", i), "port-ap6"))
			r.publish(true, append([]*inventory.Device{}, list...)...)
			after(2 * time.Second)
		}
		compare.Equal(r.t, fmt.Sprintf("requests of %v", *times), 1, len(*times))
	})
}

// If Events are forbidden in one namespace, other Events are only delayed, and the recovery isn't logged too early.
func TestOneNamespaceForbidden(t *testing.T) {
	story(t, func(r *rig) {
		r.SetPod("work", "job", "uid-1")
		r.hold("3b:00.0", "work/job/main")
		times := r.timed(func(w http.ResponseWriter, q *http.Request) bool {
			return strings.Contains(q.URL.Path, "namespaces/work/events") && refuse("", 403, "no")(w, q)
		})
		r.shows(device("3b:00.0", "port-ap6"))
		r.shows(device("3b:00.0"))
		r.shows(device("3b:00.0"), device("3c:00.0"))
		after(time.Minute) // the namespace delays other Events by more than half a minute
		r.events("elsewhere", onNode+"Warning DeviceUnhealthy x1", onNode+"Normal DeviceRecovered x1", onNode+"Normal DeviceAdded x1")
		r.logged("api.lost")
		after(10 * time.Minute)
		n := len(*times)
		after(time.Hour)
		if len(*times) != n || n > 100 {
			r.t.Errorf("found %d requests and %d more in an hour, want at most 100 and none", n, len(*times)-n)
		}
		r.counted(map[string]int{"sent": 3, "failed": 2})
		r.UseFault(nil)
		r.shows(device("3c:00.0"))
		r.logged("api.lost", "api.recovered")
	})
}

// The table's size is limited. When it is full, Events that were already written are dropped, and their counts start
// over. Events that are waiting to be written stay.
func TestBounded(t *testing.T) {
	story(t, func(r *rig) {
		list := []*inventory.Device{device("ff:00.0")}
		for i := range 600 {
			list = append(list, device(fmt.Sprintf("%02x:%02x.0", i/32, i%32)))
		}
		show := func(reason string, ids ...int) {
			for _, i := range ids {
				list[i] = device(list[i].ID, reason)
			}
			r.publish(true, slices.Clone(list)...)
			after(5 * time.Second)
		}
		every := make([]int, 600)
		for i := range every {
			every[i] = i + 1
		}
		show("")
		show("port-ap6", 0)
		show("port-ap6", every...)
		r.UseFault(nil)
		after(3 * time.Minute)
		const waiting, dropped, kept = 0, 511, 512
		show("afu-dead", waiting, dropped, kept)
		for i, want := range map[int]string{waiting: " x2", dropped: " x1", kept: " x2"} {
			if want += " FPGA device " + list[i].ID; !strings.Contains(fmt.Sprint(r.Events()), want) {
				r.t.Errorf("found no event with %q", want)
			}
		}
	}, func(r *rig) { r.UseFault(refuse("", 500, "etcd")) })
}

// Dropped Events are logged once a minute, and the last of them when Follow returns.
func TestDroppedLogged(t *testing.T) {
	story(t, func(r *rig) {
		for i := range 20 {
			var list []*inventory.Device
			for j := range 30 {
				list = append(list, device(fmt.Sprintf("%02x:00.0", j), fmt.Sprint("degraded:", i)))
			}
			r.publish(true, list...)
			after(10 * time.Second)
		}
		want := slices.Repeat([]string{"recorder.dropped"}, 4)
		r.logged(want...)
		r.end()
		r.logged(append(want, "recorder.dropped")...)
	})
}

// A message contains the time when the device became unhealthy, not when a later reason was added.
func TestSince(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0"))
		r.shows(device("3b:00.0", "afu-dead", "port-ap6"), device("3c:00.0", "port-ap6"))
		r.shows(device("3b:00.0", "afu-dead", "port-ap6"), device("3c:00.0", "afu-dead", "port-ap6"))
		e := r.Events()
		for i, want := range []string{"(afu-dead, port-ap6) since before 2000-01-01T00:00:00Z.", "(afu-dead, port-ap6) since 2000-01-01T00:00:30Z."} {
			compare.Contains(r.t, "message", want, e[i].Message)
		}
	})
}

// All changes within a second get the first one's time.
func TestTimesWithinSettle(t *testing.T) {
	type list = []*inventory.Device
	other, broken := device("5e:00.0"), device("5e:00.0", "port-ap6")
	for _, tc := range []struct {
		name                 string
		before, first, later list // at the start, at 00:00:30.5, at 00:00:31.2
		want                 string
	}{
		{"fails later", list{device("3b:00.0"), other}, list{device("3b:00.0"), broken}, list{device("3b:00.0", "port-ap6"), broken},
			"has been unhealthy (port-ap6) since 2000-01-01T00:00:30Z"},
		{"fails first", list{device("3b:00.0"), other}, list{device("3b:00.0", "port-ap6"), other}, list{device("3b:00.0", "port-ap6"), broken},
			"has been unhealthy (port-ap6) since 2000-01-01T00:00:30Z"},
		{"fails, then is worse", list{device("3b:00.0")}, list{device("3b:00.0", "port-ap6")}, list{device("3b:00.0", "afu-dead", "port-ap6")},
			"has been unhealthy (afu-dead, port-ap6) since 2000-01-01T00:00:30Z"},
		{"degraded, then unhealthy", list{device("3b:00.0")}, list{device("3b:00.0", "degraded:link-speed")}, list{device("3b:00.0", "port-ap6")},
			"has been unhealthy (port-ap6) since 2000-01-01T00:00:30Z"},
		{"healthy for a moment", list{device("3b:00.0", "port-ap6")}, list{device("3b:00.0")}, list{device("3b:00.0", "afu-dead", "port-ap6")},
			"has been unhealthy (afu-dead, port-ap6) since before 2000-01-01T00:00:00Z"},
		{"recovers later", list{device("3b:00.0", "port-ap6"), other}, list{device("3b:00.0", "port-ap6"), broken}, list{device("3b:00.0"), broken},
			"recovered at 2000-01-01T00:00:30Z"},
		{"plugged in, bound later", list{}, list{device("3b:00.0", "driver-unbound")}, list{device("3b:00.0")},
			"was added at 2000-01-01T00:00:30Z: healthy."},
		{"pulled later", list{device("3b:00.0"), other}, list{device("3b:00.0"), broken}, list{broken},
			"was removed from the node at 2000-01-01T00:00:30Z"},
		{"pulled, not listed later", list{device("3b:00.0")}, list{device("3b:00.0", "removed")}, list{},
			"was removed from the node at 2000-01-01T00:00:30Z"},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.shows(tc.before...)
			after(500 * time.Millisecond)
			r.publish(true, tc.first...)
			after(700 * time.Millisecond)
			r.publish(true, tc.later...)
			after(30 * time.Second)
			if !slices.ContainsFunc(r.Events(), func(e simapiserver.Event) bool {
				return strings.Contains(e.Message, "3b:00.0 (b-com.com/accelerator) "+tc.want)
			}) {
				r.t.Errorf("events %v, want one with %q", r.Events(), tc.want)
			}
		})
	}
}
