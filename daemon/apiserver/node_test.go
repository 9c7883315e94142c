package apiserver_test

import (
	"crypto/tls"
	"fmt"
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
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

func prepared(r *rig) { r.Set(name, "uid-1", map[string]string{"mode": "af"}) }

// FollowNode calls changed once per difference.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), func(*rig) {})
		r.expect(t, absent) // changed is also called for a missing node
		prepared(r)
		want := []apiserver.Node{absent, node("uid-1", "mode", "af")}
		r.expect(t, want...)
		for range 10 {
			r.Set(name, "uid-1", map[string]string{"mode": "af"}) // a heartbeat
			synctest.Wait()
		}
		r.Set("worker-4", "uid-x", map[string]string{"mode": "region"})
		r.expect(t, want...)
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		want = append(want, node("uid-1", "mode", "region"))
		r.expect(t, want...)
		r.Delete(name)
		want = append(want, absent)
		r.expect(t, want...)
		r.Set(name, "uid-2", map[string]string{})
		want = append(want, node("uid-2"))
		r.expect(t, want...)
		r.Set(name, "uid-3", map[string]string{}) // created again before the watch has seen its removal
		want = append(want, node("uid-3"))
		r.expect(t, want...)
		compare.Values(t, "requests", []string{"list", "watch"}, r.Requests())
		compare.Empty(t, "log", r.lines())
	})
}

// FollowNode works over TCP as well as over pipes.
func TestFollowOverTCP(t *testing.T) {
	protocols := make(chan string, 10)
	r := follow(t, nil, func(r *rig) {
		prepared(r)
		r.UseFault(func(_ http.ResponseWriter, q *http.Request) bool { protocols <- q.Proto; return false })
	})
	<-r.poke
	r.Set(name, "uid-1", map[string]string{"mode": "region"})
	<-r.poke
	r.Delete(name)
	<-r.poke
	r.end()
	r.same(t, []apiserver.Node{node("uid-1", "mode", "af"), node("uid-1", "mode", "region"), absent})
	compare.Equal(t, "protocol", "HTTP/2.0", <-protocols)
}

// When the server has ended a watch, another one is started. A change in between is noticed.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), prepared)
		after(time.Minute)
		r.HangUp()
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		after(time.Second)
		r.Set(name, "uid-1", map[string]string{"mode": "single"})
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"), node("uid-1", "mode", "single"))
		compare.Values(t, "requests", []string{"list", "watch", "list", "watch"}, r.Requests())
		compare.Empty(t, "log", r.lines())
	})
}

// A watch without a complete event is ended within 11 minutes, either by the server or by the client. After that, a
// list returns the state.
func TestSilentWatch(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault simapiserver.Fault
	}{
		{"server ends it", nil},
		{"server does not", watches(send("", hang))},
		{"half an event", watches(send(`{"type":"MODIFIED","object":`+item, hang))},
		{"event of one byte a second", watches(send(`{"type":"MODIFIED","object":`+item+`,"x":"`, drip))},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(tc.fault) })
			after(61 * time.Minute)
			if n := len(r.Requests()) / 2; n < 6 || n > 13 {
				t.Errorf("found %d watches in 61 minutes, want one for each 5 to 10", n)
			}
			compare.Empty(t, "log", r.lines())
		})
	}
}

// A watch ends when its history has expired, which doesn't count as a failure.
func TestHistoryExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expire := func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
				send(`{"type":"ERROR","object":{"kind":"Status","code":410}}`, nil)(w, r)
			}
		}
		r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.UseFault(watches(send("", expire))) })
		after(time.Second)
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		after(2 * time.Minute)
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
		if n := len(r.Requests()); n > 6 || r.lines() != nil {
			t.Errorf("found requests %v and log %v, want at most 6 requests and no log", r.Requests(), r.lines())
		}
	})
}

// A rotated token is reread before the old one expires.
func TestTokenRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newNetwork(), prepared)
		synctest.Wait()
		for i := range 5 {
			token := fmt.Sprint("token-", i+2)
			r.write(t, "token", token) // the kubelet does this at 80 % of the token's lifetime
			after(2 * time.Minute)
			r.UseToken(token)
			r.HangUp()
			after(time.Second)
		}
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
		compare.Empty(t, "log", r.lines())
	})
}

// A file is missing, empty or half-written while the server restarts with a different certificate. Once the file is
// complete, the next attempt succeeds.
func TestFilesHalfWritten(t *testing.T) {
	cert, key := certificate(t)
	pair := must.Value(tls.X509KeyPair([]byte(cert), []byte(key)))(t)
	for _, tc := range []struct{ name, file, text string }{
		{"CA missing", "ca.crt", ""},
		{"CA empty", "ca.crt", "\n"},
		{"CA half", "ca.crt", cert[:len(cert)/2]},
		{"CA is the old one", "ca.crt", "old"},
		{"token missing", "token", ""},
		{"token empty", "token", "\n"},
		{"token half", "token", "token"},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			core, logs := eventtest.Observed(t)
			apiserver.UseLogger(zap.New(core))
			defer apiserver.UseLogger(zap.NewNop())
			r := follow(t, newNetwork(), prepared)
			after(time.Minute)
			r.write(t, "ca.crt", string(r.CA())+cert)
			switch tc.text {
			case "":
				must.Succeed(t, os.Remove(filepath.Join(r.account, tc.file)))
			case "old":
				r.write(t, tc.file, string(r.CA()))
			default:
				r.write(t, tc.file, tc.text)
			}
			r.UseCertificate(pair)
			r.UseToken("token-2")
			after(20 * time.Minute)
			r.expect(t, node("uid-1", "mode", "af"))
			r.write(t, "ca.crt", string(r.CA())+cert)
			r.write(t, "token", "token-2")
			r.Set(name, "uid-1", map[string]string{"mode": "region"})
			after(31 * time.Second)
			r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
			after(46 * time.Second)
			lines := r.lines()
			if n := len(lines); n < 2 || n > 3 || lines[n-1] != "api.recovered" || logs.Len() > 2 {
				t.Errorf("log: found %v and %d lines of client-go, want api.recovered at the end and at most 2", lines, logs.Len())
			}
		})
	}
}

// If a token or CA isn't accepted, that is logged, and a new one is used without a restart.
func TestFilesRefused(t *testing.T) {
	other, _ := certificate(t)
	for _, tc := range []struct{ file, bad, want string }{
		{"token", "token-2", "401 Unauthorized: Unauthorized (the token or certificate is not accepted)"},
		{"ca.crt", other, "tls: failed to verify certificate"},
	} {
		bubble.Run(t, tc.file, func(t *testing.T) {
			r := follow(t, newNetwork(), func(r *rig) { prepared(r); r.write(t, tc.file, tc.bad) })
			after(10 * time.Minute)
			r.expect(t)
			compare.Equal(t, "refused was called", tc.file == "token", r.refusals.Load() > 0)
			r.write(t, tc.file, map[string]string{"token": "token-1", "ca.crt": string(r.CA())}[tc.file])
			after(time.Hour)
			r.expect(t, node("uid-1", "mode", "af"))
			compare.Values(t, "log", []string{"api.lost", "api.recovered"}, r.lines())
			compare.Contains(t, "error", tc.want, r.logs.FilterField(zap.String("event", "api.lost")).All()[0].ContextMap()["error"].(string))
		})
	}
}

func TestNodeName(t *testing.T) {
	client := must.Value(apiserver.Open(apiserver.Config{Kubeconfig: kubeconfigFile(t, "https://127.0.0.1:1")}, zap.NewNop()))(t)
	for _, name := range []string{"", "a,metadata.name!=b", "a/b", "A", "-", strings.Repeat("a", 254), "a\n"} {
		compare.Error(t, fmt.Sprintf("name %q", name), "want a DNS name", client.FollowNode(t.Context(), name, nil, nil))
	}
}
