package apiserver_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"

	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// send returns a fault that responds with this text and, unless then is nil, calls it afterwards.
func send(text string, then func(http.ResponseWriter, *http.Request)) simapiserver.Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		if then != nil {
			then(w, r)
		}
		return true
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Second):
		}
	}
}

func refuse(code int, message string, header ...string) simapiserver.Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if len(header) > 0 {
			w.Header().Set(header[0], header[1])
		}
		simapiserver.Refuse(w, code, message)
		return true
	}
}

// watches returns a fault that affects only watches.
func watches(f simapiserver.Fault) simapiserver.Fault {
	return func(w http.ResponseWriter, r *http.Request) bool { return r.FormValue("watch") != "" && f(w, r) }
}

const (
	head = `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},"items":[`
	item = `{"kind":"PartialObjectMetadata","metadata":{"name":"worker-3","uid":"u","resourceVersion":"9","annotations":{"mode":"forged"`
)

var huge = strings.Repeat("x", 5<<20)

// faults lists server faults and what the logged errors contain. With a fault that affects only watches, lists still
// succeed.
var faults = []struct {
	name  string
	fault simapiserver.Fault
	want  string // substring of the error
}{
	{"hangs", func(w http.ResponseWriter, r *http.Request) bool { hang(w, r); return true }, "list node worker-3: API server https://127.0.0.1:6443: "},
	{"closes the connection", func(w http.ResponseWriter, r *http.Request) bool { cut(w, r); return true }, "list node worker-3: API server https://127.0.0.1:6443: "},
	{"403", refuse(403, "nodes is forbidden"), "list node worker-3: 403 Forbidden: nodes is forbidden (the account needs the verb list on nodes, in a ClusterRole, or --node-annotation=false)"},
	{"404", refuse(404, "not here"), "404 Not Found: not here"},
	{"429", refuse(429, "too many", "Retry-After", "50"), "429 Too Many Requests: too many"},
	{"429 for ever", refuse(429, "too many", "Retry-After", "999999999999"), "429 Too Many Requests"},
	{"503 with text", func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "upstream\n\tgone "+huge[:1<<16], http.StatusServiceUnavailable)
		return true
	}, "503 Service Unavailable: upstream gone xxx"},
	{"503 of one byte a second", func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(503); drip(w, r); return true }, "503 Service Unavailable: xxx"},
	{"unknown status", refuse(599, "odd"), "599: odd"},
	{"redirect", refuse(302, "", "Location", "https://elsewhere/"), "302 Found"},
	{"garbage", send("<html>", nil), "answer: invalid character"},
	{"no body", send("", nil), "answer: EOF"},
	{"empty object", send("{}", nil), `found kind "" with resourceVersion "", want a list of nodes`},
	{"another list", send(`{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}`, nil), `found kind "PodList"`},
	{"wrong shape", send(`{"kind":7}`, nil), "answer: json: cannot unmarshal"},
	{"another node", send(head+strings.ReplaceAll(item, "worker-3", "worker-4")+"}}}]}", nil), `found node "worker-4" with uid "u", want node "worker-3"`},
	{"two nodes", send(head+item+"}}},"+item+"}}}]}", nil), "ignores the field selector"},
	{"half a list", send(head, cut), "API server https://127.0.0.1:6443: answer: "},
	{"half a list, then hangs", send(head, hang), "API server https://127.0.0.1:6443: answer: context deadline exceeded"},
	{"list of one byte a second", send(head+`{"x":"`, drip), "API server https://127.0.0.1:6443: answer: context deadline exceeded"},
	{"huge list", send(head+`{"x":"`+huge, nil), "answer: larger than 4194304 bytes"},

	{"watch: hangs", watches(func(w http.ResponseWriter, r *http.Request) bool { hang(w, r); return true }), "watch node worker-3: API server https://127.0.0.1:6443: "},
	{"watch: 403", watches(refuse(403, "no")), "watch node worker-3: 403 Forbidden: no (the account needs the verb watch on nodes, in a ClusterRole, or --node-annotation=false)"},
	{"watch: ends at once", watches(send("", nil)), "watch node worker-3: API server https://127.0.0.1:6443: ended after 0s: EOF"},
	{"watch: closes the connection", watches(send("", cut)), "ended after 0s: "},
	{"watch: garbage", watches(send("<html>\n", hang)), "event: invalid character"},
	{"watch: wrong shape", watches(send("[]\n", hang)), "event: json: cannot unmarshal"},
	{"watch: half an event", watches(send(`{"type":"MODIFIED","object":`+item, cut)), "ended after 0s: "},
	{"watch: huge event", watches(send(`{"type":"MODIFIED","object":`+item+`,"x":"`+huge, hang)), "event: larger than 4194304 bytes"},
	{"watch: another node", watches(send(`{"type":"DELETED","object":`+strings.ReplaceAll(item, "worker-3", "worker-4")+"}}}}", hang)), `event DELETED: found node "worker-4"`},
	{"watch: event of no type", watches(send(`{"object":`+item+"}}}}", hang)), `type: found ""`},
	{"watch: ERROR", watches(send(`{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}`, hang)), "500 Internal Server Error: etcd"},
}

// Whatever the server's fault, changed isn't called with a wrong state, the failure is logged once, attempts are paced,
// and FollowNode recovers once the server does.
func TestFaults(t *testing.T) {
	for _, tc := range faults {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(tc.fault) })
			minutes := 20
			if strings.Contains(tc.name, "huge") {
				minutes = 1 // more would take too long
			}
			after(time.Duration(minutes) * time.Minute)
			var want []apiserver.Node
			if strings.HasPrefix(tc.name, "watch: ") {
				want = append(want, node("uid-1", "mode", "af"))
			}
			r.expect(t, want...)
			if n := len(r.Requests()); n < 1+minutes/2 || n > 10+10*minutes {
				t.Errorf("found %d requests in %d minutes, want one or two for each 15 to 60 seconds", n, minutes)
			}
			r.UseFault(nil)
			r.Set(name, "uid-1", map[string]string{"mode": "region"})
			after(3 * time.Minute) // a Retry-After takes up to 90 s, and a watch must have lasted 45 s
			r.expect(t, append(want, node("uid-1", "mode", "region"))...)
			compare.Values(t, "log", []string{"api.lost", "api.recovered"}, r.lines())
			line := r.logs.FilterField(zap.String("event", "api.lost")).All()[0]
			message := "api server lost, trying again"
			if strings.HasPrefix(strings.TrimPrefix(tc.name, "watch: "), "4") {
				message = "api server refuses, trying again"
			}
			compare.Equal(t, "message", message, line.Message)
			forbidden := strings.HasSuffix(tc.name, "403")
			compare.Equal(t, "refused was called", forbidden, r.refusals.Load() > 0)
			lost := line.ContextMap()
			if text := lost["error"].(string); !strings.Contains(text, tc.want) || len(text) > 600 {
				t.Errorf("error: found %s\nwant %q in it", text, tc.want)
			}
			if lost["node"] != name || lost["address"] != "https://127.0.0.1:6443" || lost["retry_ms"] == nil {
				t.Errorf("fields: found %v, want node, address and retry_ms", lost)
			}
		})
	}
}

// FollowNode returns immediately when the context is canceled, no matter when. The end of the bubble proves that it
// doesn't leave any goroutines behind.
func TestEndsAtAnyTime(t *testing.T) {
	for _, tc := range faults {
		bubble.Run(t, tc.name, func(t *testing.T) {
			listener := newNetwork()
			r := follow(t, listener, func(r *rig) { prepared(r); r.UseFault(tc.fault) })
			after(10 * time.Second)
			begin := time.Now()
			r.end()
			compare.Equal(t, "time of the end", 0, time.Since(begin))
			synctest.Wait()
			compare.Equal(t, "open connections", 0, listener.open.Load())
		})
	}
}

// While the server is down, the last state stays, and each kind of failure is logged once.
func TestKindsOfFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), prepared)
		after(time.Minute)
		for _, f := range []simapiserver.Fault{
			send("", cut), refuse(503, "starting"), refuse(500, "etcd"), refuse(403, "no"), send("", cut), refuse(429, "slow"), refuse(403, "no"),
		} {
			r.UseFault(f)
			r.HangUp()
			after(2 * time.Minute)
		}
		r.expect(t, node("uid-1", "mode", "af"))
		r.UseFault(nil)
		r.Delete(name)
		after(2 * time.Minute)
		r.expect(t, node("uid-1", "mode", "af"), absent)
		compare.Values(t, "log", []string{"api.lost", "api.lost", "api.lost", "api.lost", "api.recovered"}, r.lines())
		if n := r.logs.FilterField(zap.String("event", "api.retried")).Len(); n < 20 {
			t.Errorf("found %d lines at level debug, want one for each attempt", n)
		}
	})
}

// After a recovery, the backoff starts over with the first pause.
func TestBackoffReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(send("", cut)) })
		after(20 * time.Minute)
		r.UseFault(nil)
		after(2 * time.Minute)
		r.UseFault(send("", cut))
		r.HangUp()
		synctest.Wait()
		before := len(r.Requests())
		after(2 * time.Second)
		if n := len(r.Requests()) - before; n < 2 {
			t.Errorf("found %d attempts in two seconds, want those after half a second and a second", n)
		}
	})
}

// Retry-After is respected up to a minute, plus a random delay of up to half of that.
func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		header   string
		min, max time.Duration
	}{{"50", 50 * time.Second, 75 * time.Second}, {"999999999999", time.Minute, 90 * time.Second}, {"-1", 0, time.Second}, {"soon", 0, time.Second}} {
		bubble.Run(t, tc.header, func(t *testing.T) {
			r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(refuse(429, "too many", "Retry-After", tc.header)) })
			begin := time.Now()
			for len(r.Requests()) < 2 {
				after(10 * time.Millisecond)
			}
			if took := time.Since(begin); took < tc.min || took > tc.max+20*time.Millisecond {
				t.Errorf("next attempt: found %s, want %s to %s", took, tc.min, tc.max)
			}
		})
	}
}

// Pings detect a network that drops all data.
func TestSilentNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newNetwork()
		r := follow(t, listener, prepared)
		after(time.Minute)
		listener.mute()
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		after(2 * time.Minute)
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
		compare.Empty(t, "log", r.lines())
	})
}

// If the server was down and then files can't be read, that is a different kind of failure, so it is logged.
func TestFilesMissingAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), func(r *rig) {
			prepared(r)
			r.UseFault(func(w http.ResponseWriter, q *http.Request) bool { cut(w, q); return true })
		})
		after(time.Minute)
		r.UseFault(nil)
		must.Succeed(t, os.Remove(filepath.Join(r.account, "token")))
		after(time.Minute)
		r.write(t, "token", "token-1")
		after(2 * time.Minute)
		r.expect(t, node("uid-1", "mode", "af"))
		compare.Values(t, "log", []string{"api.lost", "api.lost", "api.recovered"}, r.lines())
	})
}
