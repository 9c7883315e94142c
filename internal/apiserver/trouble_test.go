package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/sim/simapiserver"
)

// say answers with these bytes, and then does what is left to do.
func say(text string, then func(http.ResponseWriter, *http.Request)) simapiserver.Fault {
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

// drip sends a byte a second.
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

// watches is a fault of watches only.
func watches(f simapiserver.Fault) simapiserver.Fault {
	return func(w http.ResponseWriter, r *http.Request) bool { return r.FormValue("watch") != "" && f(w, r) }
}

const (
	head = `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},"items":[`
	item = `{"kind":"PartialObjectMetadata","metadata":{"name":"worker-3","uid":"u","resourceVersion":"9","annotations":{"mode":"forged"`
)

var huge = strings.Repeat("x", 5<<20)

// misdeeds are what a server can do, and what is said about it. All but those of
// watches keep us from any answer.
var misdeeds = []struct {
	name  string
	fault simapiserver.Fault
	want  string // of the error
}{
	{"hangs", func(w http.ResponseWriter, r *http.Request) bool { hang(w, r); return true }, "list node worker-3: API server https://127.0.0.1:6443: "},
	{"hangs up", func(w http.ResponseWriter, r *http.Request) bool { cut(w, r); return true }, "list node worker-3: API server https://127.0.0.1:6443: "},
	{"403", refuse(403, "nodes is forbidden"), "list node worker-3: 403 Forbidden: nodes is forbidden (the account needs the verb list on nodes, in a ClusterRole, or --node-annotation=false)"},
	{"404", refuse(404, "not here"), "404 Not Found: not here"},
	{"429", refuse(429, "too many", "Retry-After", "50"), "429 Too Many Requests: too many"},
	{"429 for ever", refuse(429, "too many", "Retry-After", "999999999999"), "429 Too Many Requests"},
	{"503 that is text", func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "upstream\n\tgone "+huge, http.StatusServiceUnavailable)
		return true
	}, "503 Service Unavailable: upstream gone xxx"},
	{"503 that drips", func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(503); drip(w, r); return true }, "503 Service Unavailable: xxx"},
	{"status of its own", refuse(599, "odd"), "599: odd"},
	{"redirect", refuse(302, "", "Location", "https://elsewhere/"), "302 Found"},
	{"garbage", say("<html>", nil), "answer: invalid character"},
	{"nothing", say("", nil), "answer: EOF"},
	{"empty object", say("{}", nil), `not a list of nodes: kind ""`},
	{"another list", say(`{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}`, nil), `not a list of nodes: kind "PodList"`},
	{"wrong shape", say(`{"kind":7}`, nil), "answer: json: cannot unmarshal"},
	{"another node", say(head+strings.ReplaceAll(item, "worker-3", "worker-4")+"}}}]}", nil), `node "worker-4", uid "u": want node "worker-3"`},
	{"two nodes", say(head+item+"}}},"+item+"}}}]}", nil), "ignores the field selector"},
	{"half a list", say(head, cut), "API server https://127.0.0.1:6443: answer: "},
	{"half a list, then hangs", say(head, hang), "API server https://127.0.0.1:6443: answer: context deadline exceeded"},
	{"list that drips", say(head+`{"x":"`, drip), "API server https://127.0.0.1:6443: answer: context deadline exceeded"},
	{"huge list", say(head+`{"x":"`+huge, nil), "answer: larger than 4194304 bytes"},

	{"watch: hangs", watches(func(w http.ResponseWriter, r *http.Request) bool { hang(w, r); return true }), "watch node worker-3: API server https://127.0.0.1:6443: "},
	{"watch: 403", watches(refuse(403, "no")), "watch node worker-3: 403 Forbidden: no (the account needs the verb watch on nodes, in a ClusterRole, or --node-annotation=false)"},
	{"watch: ends at once", watches(say("", nil)), "watch node worker-3: API server https://127.0.0.1:6443: ended after 0s: EOF"},
	{"watch: hangs up", watches(say("", cut)), "ended after 0s: "},
	{"watch: garbage", watches(say("<html>\n", hang)), "event: invalid character"},
	{"watch: wrong shape", watches(say("[]\n", hang)), "event: json: cannot unmarshal"},
	{"watch: half an event", watches(say(`{"type":"MODIFIED","object":`+item, cut)), "ended after 0s: "},
	{"watch: huge event", watches(say(`{"type":"MODIFIED","object":`+item+`,"x":"`+huge, hang)), "event: larger than 4194304 bytes"},
	{"watch: another node", watches(say(`{"type":"DELETED","object":`+strings.ReplaceAll(item, "worker-3", "worker-4")+"}}}}", hang)), `event DELETED: node "worker-4"`},
	{"watch: event of no type", watches(say(`{"object":`+item+"}}}}", hang)), `event of the type ""`},
	{"watch: ERROR", watches(say(`{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}`, hang)), "500 Internal Server Error: etcd"},
}

// Whatever the server does: nothing is told that it did not say, it is logged
// once, the attempts are paced, and when it is well again so are we.
func TestMisdeeds(t *testing.T) {
	for _, tc := range misdeeds {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(tc.fault) })
				minutes := 20
				if strings.Contains(tc.name, "huge") {
					minutes = 1 // is work enough for the processor
				}
				after(time.Duration(minutes) * time.Minute)
				var want []apiserver.Node
				if strings.HasPrefix(tc.name, "watch: ") {
					want = append(want, node("uid-1", "mode", "af"))
				}
				r.expect(t, want...)
				if n := len(r.Requests()); n < 1+minutes/2 || n > 10+10*minutes {
					t.Errorf("%d requests in %d minutes, want one or two for each 15 to 60 seconds", n, minutes)
				}
				r.UseFault(nil)
				r.Set(name, "uid-1", map[string]string{"mode": "region"})
				after(3 * time.Minute) // a Retry-After takes up to 90 s, and a watch must have lasted for 45 s
				r.expect(t, append(want, node("uid-1", "mode", "region"))...)
				if diff := cmp.Diff([]string{"api.lost", "api.recovered"}, r.lines()); diff != "" {
					t.Errorf("log (-want +got):\n%s", diff)
				}
				line := r.logs.FilterField(zap.String("event", "api.lost")).All()[0]
				message := "api server lost, trying again"
				if strings.HasPrefix(strings.TrimPrefix(tc.name, "watch: "), "4") {
					message = "api server refuses, trying again"
				}
				if line.Message != message {
					t.Errorf("message %q, want %q", line.Message, message)
				}
				forbidden := strings.HasSuffix(tc.name, "403")
				if n := r.refusals.Load(); (n > 0) != forbidden {
					t.Errorf("told of %d refusals", n)
				}
				lost := line.ContextMap()
				if said := lost["error"].(string); !strings.Contains(said, tc.want) || len(said) > 600 {
					t.Errorf("error: %s\nwant %q in it", said, tc.want)
				}
				if lost["node"] != name || lost["address"] != "https://127.0.0.1:6443" || lost["retry_ms"] == nil {
					t.Errorf("fields %v", lost)
				}
			})
		})
	}
}

// The context may end in the middle of anything: FollowNode returns at once. That
// nothing of it is left, the end of the bubble proves.
func TestEndsInTheMiddle(t *testing.T) {
	for _, tc := range misdeeds {
		for _, when := range []time.Duration{0, 10 * time.Second} {
			t.Run(fmt.Sprintf("%s, after %s", tc.name, when), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					listener := newNetwork()
					r := follow(t, listener, func(r *rig) { prepared(r); r.UseFault(tc.fault) })
					after(when)
					begin := time.Now()
					r.end()
					if took := time.Since(begin); took != 0 {
						t.Errorf("took %s", took)
					}
					synctest.Wait()
					if n := listener.open.Load(); n != 0 {
						t.Errorf("%d connections are left", n)
					}
				})
			})
		}
	}
}

// While the server is gone, what it said last holds; each kind of trouble is said
// once.
func TestKindsOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), prepared)
		after(time.Minute)
		for _, f := range []simapiserver.Fault{
			say("", cut), refuse(503, "starting"), refuse(500, "etcd"), refuse(403, "no"), say("", cut), refuse(429, "slow"), refuse(403, "no"),
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
		if diff := cmp.Diff([]string{"api.lost", "api.lost", "api.lost", "api.lost", "api.recovered"}, r.lines()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if n := r.logs.FilterField(zap.String("event", "api.retried")).Len(); n < 20 {
			t.Errorf("%d lines at Debug, want one for each attempt", n)
		}
	})
}

// After trouble that is over the next trouble is met with the first pause again.
func TestPaceBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(say("", cut)) })
		after(20 * time.Minute)
		r.UseFault(nil)
		after(2 * time.Minute)
		r.UseFault(say("", cut))
		r.HangUp()
		synctest.Wait()
		before := len(r.Requests())
		after(2 * time.Second)
		if n := len(r.Requests()) - before; n < 2 {
			t.Errorf("%d attempts in two seconds, want those after half a second and a second", n)
		}
	})
}

// A Retry-After is heeded, up to a minute, and half as much again at random.
func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		header   string
		min, max time.Duration
	}{{"50", 50 * time.Second, 75 * time.Second}, {"999999999999", time.Minute, 90 * time.Second}, {"-1", 0, time.Second}, {"soon", 0, time.Second}} {
		t.Run(tc.header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(refuse(429, "too many", "Retry-After", tc.header)) })
				begin := time.Now()
				for len(r.Requests()) < 2 {
					after(10 * time.Millisecond)
				}
				if took := time.Since(begin); took < tc.min || took > tc.max+20*time.Millisecond {
					t.Errorf("tried again after %s, want %s to %s", took, tc.min, tc.max)
				}
			})
		})
	}
}

// A network that swallows everything is found out by pings.
func TestSilentNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newNetwork()
		r := follow(t, listener, prepared)
		after(time.Minute)
		listener.mute()
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		after(2 * time.Minute)
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
		if lines := r.lines(); lines != nil {
			t.Errorf("log: %v, want nothing", lines)
		}
	})
}

// A server that is not there is no different.
func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newNetwork()
		r := follow(t, listener, func(r *rig) { prepared(r); listener.Close() })
		after(20 * time.Minute)
		r.expect(t)
		r.end()
		if diff := cmp.Diff([]string{"api.lost"}, r.lines()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// An answer of the permitted size takes little memory, also if the server ignores the field
// selector or sends nonsense.
func TestManyItems(t *testing.T) {
	list := []byte(head + strings.Repeat("{},", 1<<20) + "{}]}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := apiserver.ParseList(list, name)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "ignores the field selector") {
		t.Errorf("error %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
		t.Errorf("%d bytes were allocated for an answer of %d", took, len(list))
	}
}

// A server that sends ERROR events of ever other codes does not fill the log.
func TestCodesOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := 0
		r := follow(t, newNetwork(), func(r *rig) {
			prepared(r)
			r.UseFault(watches(func(w http.ResponseWriter, q *http.Request) bool {
				code += 1000
				return say(fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","code":%d}}`, code*code), hang)(w, q)
			}))
		})
		after(time.Hour)
		if lines := r.lines(); len(lines) != 1 {
			t.Errorf("%d lines: %v, want one", len(lines), lines)
		}
	})
}

// Files that cannot be read after the server was away are trouble of another kind: the reader of
// the log learns why it is not over.
func TestFilesMissingInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), func(r *rig) {
			prepared(r)
			r.UseFault(func(w http.ResponseWriter, q *http.Request) bool { cut(w, q); return true })
		})
		after(time.Minute)
		r.UseFault(nil)
		if err := os.Remove(filepath.Join(r.account, "token")); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		r.write(t, "token", "token-1")
		after(2 * time.Minute)
		r.expect(t, node("uid-1", "mode", "af"))
		if diff := cmp.Diff([]string{"api.lost", "api.lost", "api.recovered"}, r.lines()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
