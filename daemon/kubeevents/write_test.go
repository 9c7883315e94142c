package kubeevents_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// flap makes a device unhealthy for half a period and healthy for the other half, several times.
func (r *rig) flap(times int, period time.Duration) {
	for range times {
		r.publish(true, device("3b:00.0", "port-ap6"))
		after(period / 2)
		r.publish(true, device("3b:00.0"))
		after(period / 2)
	}
}

// A repetition increments the count of an existing Event. The Event is written as soon as pace allows, at most every
// 10 s, and in the end it contains the latest message.
func TestAggregated(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0"))
		begin, times := time.Now(), r.timed(nil)
		r.flap(12, 5*time.Second)
		after(20 * time.Second)
		r.events("flapped", onNode+"Warning DeviceUnhealthy x12", onNode+"Normal DeviceRecovered x12")
		want := []string{"1.0 POST", "3.5 POST"}
		for _, s := range []int{10, 20, 30, 40, 50, 60} {
			want = append(want, fmt.Sprintf("%d.0 PATCH", s+1), fmt.Sprintf("%d.5 PATCH", s+3))
		}
		compare.Values(r.t, "requests", want, *times)
		r.counted(map[string]int{kubeevents.Sent: 14})
		for i, e := range r.Events() {
			at := begin.Add(55*time.Second + time.Duration(i)*2500*time.Millisecond).UTC().Format(time.RFC3339)
			compare.Contains(r.t, "message", " "+at, e.Message)
		}
	})
}

// In a flood, 25 Events are written, plus one more every 5 s. Dropped Events are included in the count of the next one
// of their kind.
func TestFlood(t *testing.T) {
	story(t, func(r *rig) {
		all := func(reasons ...string) (list []*inventory.Device) {
			for i := range 1000 {
				list = append(list, device(fmt.Sprintf("%02x:%02x.0", i/32, i%32), reasons...))
			}
			return list
		}
		r.publish(true, all()...)
		after(time.Hour)
		r.publish(true, all("port-ap6")...)
		after(time.Minute)
		compare.Equal(r.t, "events", 25, len(r.Events()))
		r.counted(map[string]int{kubeevents.Sent: 25, kubeevents.Dropped: 975})
		r.logged("recorder.dropped")
		compare.Values(r.t, "count of recorder.dropped", int64(975), r.logs.FilterField(zap.String("event", "recorder.dropped")).All()[0].ContextMap()["count"])
		one := all("port-ap6")
		one[999] = device("1f:07.0", "afu-dead")
		r.publish(true, one...)
		after(time.Minute)
		if last := r.Events()[25]; last.Count != 2 || !strings.Contains(last.Message, "1f:07.0") || !strings.Contains(last.Message, "afu-dead") {
			r.t.Errorf("last event %s", last)
		}
		r.publish(true, all()...)
		after(time.Minute)
		if n := len(r.Events()) - 26; n < 23 || n > 25 {
			r.t.Errorf("%d more events after two minutes, want one for each 5 s", n)
		}
		r.logged("recorder.dropped", "recorder.dropped")
	})
}

// An Event that has expired is created again with its previous count. If a new pod has the same name as an earlier one,
// it gets a new Event.
func TestCreatedAgain(t *testing.T) {
	for _, tc := range []struct {
		name string
		then func(*rig)
		want []string
	}{
		{"neither expired nor another pod", func(*rig) {}, []string{onNode + "Warning DeviceUnhealthy x2", onPod + "Warning DeviceUnhealthy x2"}},
		{"expired", func(r *rig) { r.ExpireEvents() }, []string{onNode + "Warning DeviceUnhealthy x2", onPod + "Warning DeviceUnhealthy x2"}},
		{"another pod", func(r *rig) { r.SetPod("work", "job", "uid-2") }, []string{
			onNode + "Warning DeviceUnhealthy x2", onPod + "Warning DeviceUnhealthy x1", "work Pod/job uid-2 Warning DeviceUnhealthy x1",
		}},
		{"another pod, with a failure", func(r *rig) {
			r.SetPod("work", "job", "uid-2")
			posts := 0
			r.UseFault(func(w http.ResponseWriter, q *http.Request) bool {
				if q.Method == "POST" {
					posts++
				}
				return posts == 1 && q.Method == "POST" && refuse("", 500, "etcd")(w, q)
			})
		}, []string{onNode + "Warning DeviceUnhealthy x2", onPod + "Warning DeviceUnhealthy x1", "work Pod/job uid-2 Warning DeviceUnhealthy x1"}},
		{"no pod", func(r *rig) { r.DeletePod("work", "job") }, []string{onNode + "Warning DeviceUnhealthy x2", onPod + "Warning DeviceUnhealthy x1"}},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.SetPod("work", "job", "uid-1")
			r.hold("3b:00.0", "work/job/main")
			r.shows(device("3b:00.0", "port-ap6"))
			tc.then(r)
			r.shows(device("3b:00.0", "afu-dead", "port-ap6"))
			r.events("again", tc.want...)
			if !strings.Contains(tc.name, "failure") {
				r.logged()
			}
		})
	}
}

// refuse returns a fault that rejects all requests with this method, or all requests if method is "".
func refuse(method string, code int, message string, header ...string) simapiserver.Fault {
	return func(w http.ResponseWriter, q *http.Request) bool {
		if method != "" && q.Method != method {
			return false
		}
		if len(header) > 0 {
			w.Header().Set(header[0], header[1])
		}
		simapiserver.Refuse(w, code, message)
		return true
	}
}

func answer(code int, text string) simapiserver.Fault {
	return func(w http.ResponseWriter, q *http.Request) bool {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
		return true
	}
}

// failures are temporary server failures.
var failures = []struct {
	name  string
	fault simapiserver.Fault
	want  string // substring of the error
}{
	{"hangs", func(_ http.ResponseWriter, q *http.Request) bool { <-q.Context().Done(); return true }, "context deadline exceeded"},
	{"closes the connection", func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, "API server https://127.0.0.1:6443: "},
	{"401", refuse("", 401, "Unauthorized"), "401 Unauthorized: Unauthorized (the token or certificate is not accepted)"},
	{"403 of events", refuse("POST", 403, "no"), "403 Forbidden: no (the account needs the verb create on events, in a ClusterRole)"},
	{"429", refuse("", 429, "slow", "Retry-After", "7"), "429 Too Many Requests: slow"},
	{"500", refuse("", 500, "etcd"), "500 Internal Server Error: etcd"},
	{"503 with 5 MiB", answer(503, strings.Repeat("x", 5<<20)), "503 Service Unavailable: xxx"},
	{"pod: garbage", podAnswer("<html>"), "get pod work/job: API server https://127.0.0.1:6443: answer: invalid character"},
	{"pod: huge", podAnswer(`{"x":"` + strings.Repeat("x", 5<<20)), "get pod work/job: API server https://127.0.0.1:6443: answer: larger than 4194304 bytes"},
	{"pod: another one", podAnswer(`{"metadata":{"namespace":"work","name":"jab","uid":"u"}}`), `found pod "jab" in "work" with uid "u", want work/job with its uid`},
	{"pod: no uid", podAnswer(`{"metadata":{"namespace":"work","name":"job"}}`), "with its uid"},
}

func podAnswer(text string) simapiserver.Fault {
	fault := answer(200, text)
	return func(w http.ResponseWriter, q *http.Request) bool { return q.Method == "GET" && fault(w, q) }
}

// Temporary failures delay Events and are logged once. Attempts are paced.
func TestTemporaryFailures(t *testing.T) {
	for _, tc := range failures {
		storyOf(t, tc.name, func(r *rig) {
			r.SetPod("work", "job", "uid-1")
			r.hold("3b:00.0", "work/job/main")
			r.publish(true, device("3b:00.0", "port-ap6"))
			after(2 * time.Minute)
			if n := len(r.Requests()); n < 3 || n > 40 {
				r.t.Errorf("found %d requests in 2 minutes, want 3 to 40", n)
			}
			r.UseFault(nil)
			r.UseToken("token-1")
			after(time.Minute)
			got := slices.Sorted(slices.Values(r.each(short)))
			compare.Values(r.t, "events", []string{onNode + "Warning DeviceUnhealthy x1", onPod + "Warning DeviceUnhealthy x1"}, got)
			r.logged("api.lost", "api.recovered")
			r.counted(map[string]int{kubeevents.Sent: 2})
			if r.locked(func() {
				if r.failures == 0 {
					r.t.Error("failures: found 0, want more")
				}
			}); r.t.Failed() {
				return
			}
			lost := r.logs.FilterField(zap.String("event", "api.lost")).All()[0].ContextMap()
			if text := lost["error"].(string); !strings.Contains(text, tc.want) || len(text) > 600 {
				r.t.Errorf("error: found %s\nwant %q in it", text, tc.want)
			}
		}, func(r *rig) { r.UseFault(tc.fault) })
	}
}

// If a response is lost, that doesn't lead to a second Event.
func TestAnswerLost(t *testing.T) {
	story(t, func(r *rig) {
		r.Deaf(true)
		r.publish(true, device("3b:00.0", "port-ap6"))
		after(time.Minute)
		r.Deaf(false)
		after(time.Minute)
		r.events("with answers again", onNode+"Warning DeviceUnhealthy x1")
		r.counted(map[string]int{kubeevents.Sent: 1})
	})
}

// If an Event's name is already used by another client, the Event gets a different name.
func TestNameTaken(t *testing.T) {
	story(t, func(r *rig) {
		taken, all := "", false
		r.UseFault(func(w http.ResponseWriter, q *http.Request) bool {
			body, _ := io.ReadAll(q.Body)
			q.Body = io.NopCloser(strings.NewReader(string(body)))
			_, name, _ := strings.Cut(string(body), `"metadata":{"name":"`)
			if taken == "" {
				taken, _, _ = strings.Cut(name, `"`)
			}
			return (all || strings.HasPrefix(name, taken)) && refuse("POST", 409, "already exists")(w, q)
		})
		r.shows(device("3b:00.0", "port-ap6"))
		r.events("taken once", onNode+"Warning DeviceUnhealthy x1")
		all = true
		r.publish(true, device("3c:00.0", "port-ap6"))
		after(time.Minute)
		if n := len(r.Requests()); n > 50 {
			r.t.Errorf("found %d requests, want at most 50", n)
		}
		for _, q := range r.Requests() {
			if strings.HasPrefix(q, "PATCH") {
				r.t.Errorf("request %s: found a PATCH of another client's Event, want none", q)
			}
		}
	})
}

// An Event that will never be accepted is abandoned immediately, and doesn't delay other Events.
func TestGivenUpAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(*rig)
		want    map[string]int // in addition to the one on the node
		lines   []string
	}{
		{"pod has ended", func(r *rig) { r.DeletePod("work", "job") }, map[string]int{kubeevents.Dropped: 1}, nil},
		{"namespace is ending", func(r *rig) { r.EndNamespace("work") }, map[string]int{kubeevents.Dropped: 1}, nil},
		{"namespace is gone", func(r *rig) { r.DeleteNamespace("work") }, map[string]int{kubeevents.Dropped: 1}, nil},
		{"refused", func(r *rig) {
			r.UseFault(func(w http.ResponseWriter, q *http.Request) bool {
				return strings.Contains(q.URL.Path, "namespaces/work/") && refuse("POST", 422, "invalid")(w, q)
			})
		}, map[string]int{kubeevents.Failed: 1}, []string{"recorder.failed"}},
		{"invalid name of a pod", func(r *rig) { r.hold("3b:00.0", "work/../x/main") }, map[string]int{kubeevents.Failed: 1}, []string{"recorder.failed"}},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.SetPod("work", "job", "uid-1")
			r.hold("3b:00.0", "work/job/main")
			tc.prepare(r)
			r.shows(device("3b:00.0", "port-ap6"))
			r.events("given up", onNode+"Warning DeviceUnhealthy x1")
			tc.want[kubeevents.Sent] = 1
			r.counted(tc.want)
			r.locked(func() {
				compare.Equal(r.t, "requests that are made again", 0, r.failures)
			})
			r.logged(tc.lines...)
		})
	}
}

// Without permission to get pods, Events on pods are written without a UID.
func TestNoRightToPods(t *testing.T) {
	story(t, func(r *rig) {
		r.hold("3b:00.0", "work/job/main")
		for range 3 {
			r.shows(device("3b:00.0", "port-ap6"))
			r.shows(device("3b:00.0"))
		}
		r.events("without uid",
			onNode+"Warning DeviceUnhealthy x3", "work Pod/job  Warning DeviceUnhealthy x3",
			onNode+"Normal DeviceRecovered x3", "work Pod/job  Normal DeviceRecovered x3")
		r.logged("recorder.anonymous")
	}, func(r *rig) { r.UseFault(refuse("GET", 403, "pods is forbidden")) })
}

// While the server is down, there are only a few attempts, and none when there are no more Events to write.
func TestDeadServer(t *testing.T) {
	story(t, func(r *rig) {
		r.pipes.Close()
		r.shows(device("3b:00.0"))
		r.flap(60, 20*time.Second)
		r.logged("api.lost")
		var before int
		after(6 * time.Minute)
		r.locked(func() {
			before = r.failures
			if before < 20 || before > 120 || r.results[kubeevents.Sent] > 0 || r.results[kubeevents.Failed] != 2 {
				r.t.Errorf("found %d failures and results %v, want 20 to 120 and failed: 2", before, r.results)
			}
		})
		after(24 * time.Hour)
		r.locked(func() { compare.Equal(r.t, "attempts, without an Event to write", before, r.failures) })
		r.logged("api.lost")
	})
}

// Run and Follow return immediately when the context is canceled, no matter when. The end of the bubble proves that
// they don't leave any goroutines behind.
func TestEndsAtAnyTime(t *testing.T) {
	for _, tc := range failures {
		for _, when := range []time.Duration{0, settleTime, 5 * time.Second} {
			storyOf(t, fmt.Sprintf("%s, after %s", tc.name, when), func(r *rig) {
				r.hold("3b:00.0", "work/job/main")
				r.publish(true, device("3b:00.0", "port-ap6"))
				time.Sleep(when) // fake time
				begin := time.Now()
				r.end()
				compare.Equal(r.t, "time of the end", 0, time.Since(begin))
			}, func(r *rig) { r.UseFault(tc.fault) })
		}
	}
}

// settleTime is the time from a change until its Events are written.
const settleTime = time.Second

// While the API server is down, an Event is kept for 5 minutes after its last repetition, not after an earlier one.
func TestFlapsWhileServerDown(t *testing.T) {
	story(t, func(r *rig) {
		r.SetPod("work", "job", "uid-1")
		r.hold("3b:00.0", "work/job/main")
		r.shows(device("3b:00.0"))
		r.UseFault(refuse("", 503, "away"))
		for range 29 { // unhealthy for 30 s, healthy for 30 s; unhealthy at the end
			r.shows(device("3b:00.0", "port-ap6"))
			r.shows(device("3b:00.0"))
		}
		r.shows(device("3b:00.0", "afu-dead"))
		after(4 * time.Minute)
		r.UseFault(nil)
		after(time.Minute)
		found := map[string]string{}
		for _, e := range r.Events() {
			found[e.InvolvedObject.Kind+" "+e.Reason] = fmt.Sprintf("x%d %s", e.Count, e.Message)
		}
		for _, kind := range []string{"Node", "Pod"} {
			if e := found[kind+" DeviceUnhealthy"]; !strings.HasPrefix(e, "x30 ") || !strings.Contains(e, "unhealthy (afu-dead)") {
				r.t.Errorf("event on the %s: found %q, want one with the newest reason and a count of 30; all: %v", kind, e, found)
			}
		}
	})
}

// After an hour of downtime, the API server gets the last five minutes' Events.
func TestServerDownForAnHour(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0"), device("3c:00.0"))
		r.UseFault(refuse("", 503, "away"))
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0"))
		after(58 * time.Minute)
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0", "port-ap6"))
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0"))
		r.UseFault(nil)
		after(time.Minute)
		got := slices.Sorted(slices.Values(r.each(short))) // r.each has the order of the last attempts
		want := []string{onNode + "Normal DeviceRecovered x1", onNode + "Warning DeviceUnhealthy x1"}
		compare.Values(r.t, "events", want, got)
		r.counted(map[string]int{kubeevents.Sent: 2, kubeevents.Failed: 1})
		r.logged("api.lost", "api.recovered")
		r.shows(device("3b:00.0"), device("3c:00.0"))
		r.shows(device("3b:00.0", "port-ap6"), device("3c:00.0"))
		if e := r.Events(); len(e) != 4 || e[3].Count != 2 {
			r.t.Errorf("events: found %v, want the count of the Event that was given up in the fourth", e)
		}
	})
}
