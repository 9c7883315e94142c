package apiserver_test

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/sim/simapiserver"
)

func prepared(r *rig) { r.Set(name, "uid-1", map[string]string{"mode": "af"}) }

// What is told is what is different, and each difference once.
func TestFollow(t *testing.T) {
	for _, tc := range []struct {
		name     string
		listener func() *pipes
		prepare  func(*rig)
	}{
		{"metadata only", newPipes, prepared},
		{"server that knows no PartialObjectMetadata", newPipes, func(r *rig) { r.UsePlain(); prepared(r) }},
		{"HTTP/1.1", oldPipes, prepared},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := follow(t, tc.listener(), tc.prepare)
				want := []apiserver.Node{node("uid-1", "mode", "af")}
				r.expect(t, want...)
				for range 10 {
					r.Heartbeat(name)
					r.Bookmark()
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
				r.Delete(name)
				r.Set(name, "uid-3", map[string]string{})
				want = append(want, absent, node("uid-3"))
				r.expect(t, want...)
				if diff := cmp.Diff([]string{"list", "watch 1001"}, r.Requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if lines := r.lines(); lines != nil {
					t.Errorf("log: %v, want nothing", lines)
				}
			})
		})
	}
}

// The same over TCP, where the kernel and not a pipe carries it.
func TestFollowOverTCP(t *testing.T) {
	goroutines := runtime.NumGoroutine()
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
	if protocol := <-protocols; protocol != "HTTP/2.0" {
		t.Errorf("spoke %s, want HTTP/2.0: its pings find a dead network", protocol)
	}
	r.Close()
	// Those of net/http end on their own, soon after their connection.
	for limit := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d goroutines, before %d", runtime.NumGoroutine(), goroutines)
		}
	}
}

// A node that is not there is an answer, too.
func TestFollowNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newPipes(), func(*rig) {})
		r.expect(t, absent)
		r.Set(name, "uid-1", map[string]string{})
		r.expect(t, absent, node("uid-1"))
	})
}

// A watch that the server ends goes on where it was, after no list.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newPipes(), prepared)
		after(time.Minute)
		r.Bookmark()
		synctest.Wait()
		r.HangUp()
		after(time.Second)
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
		if diff := cmp.Diff([]string{"list", "watch 1001", "watch 1002"}, r.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if lines := r.lines(); lines != nil {
			t.Errorf("log: %v, want nothing", lines)
		}
	})
}

// A watch in which nothing happens is begun anew within 11 minutes, by the server
// or by us.
func TestWatchThatNeverSends(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault simapiserver.Fault
	}{{"server ends it", nil}, {"server does not", watches(say("", hang))}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := follow(t, newPipes(), func(r *rig) { prepared(r); r.UseFault(tc.fault) })
				after(61 * time.Minute)
				if n := len(r.Requests()) - 1; n < 6 || n > 13 {
					t.Errorf("%d watches in 61 minutes, want one for each 5 to 10", n)
				}
				if slices.Contains(r.Requests()[1:], "list") || r.lines() != nil {
					t.Errorf("requests %v, log %v; want only watches, and nothing", r.Requests(), r.lines())
				}
			})
		})
	}
}

// History that is gone is read again from the list, and is no trouble.
func TestHistoryGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newPipes(), prepared)
		after(time.Minute)
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		r.Compact()
		r.HangUp()
		after(time.Minute)
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
		if n := len(r.Requests()); n > 6 || r.lines() != nil {
			t.Errorf("requests %v, log %v; want few, and nothing", r.Requests(), r.lines())
		}
	})
}

// A rotated token is read again, in silence.
func TestTokenRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newPipes(), prepared)
		after(time.Minute)
		r.write(t, "token", "token-2")
		r.UseToken("token-2")
		r.HangUp()
		after(time.Second)
		r.Set(name, "uid-1", map[string]string{"mode": "region"})
		r.expect(t, node("uid-1", "mode", "af"), node("uid-1", "mode", "region"))
		if lines := r.lines(); lines != nil {
			t.Errorf("log: %v, want nothing", lines)
		}
	})
}

// A token that is refused is said, and taken up when the kubelet has renewed it.
func TestTokenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := follow(t, newPipes(), func(r *rig) { prepared(r); r.UseToken("token-2") })
		after(10 * time.Minute)
		r.expect(t)
		if r.refusals.Load() == 0 {
			t.Error("was not told of a refusal")
		}
		r.write(t, "token", "token-2")
		after(time.Hour)
		r.expect(t, node("uid-1", "mode", "af"))
		if diff := cmp.Diff([]string{"api.lost", "api.recovered"}, r.lines()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if said := r.logs.FilterField(zap.String("event", "api.lost")).All()[0].ContextMap()["error"].(string); !strings.Contains(said, "401 Unauthorized: Unauthorized (the token or certificate is not accepted)") {
			t.Errorf("error: %s", said)
		}
	})
}

// A CA that the certificate is not of is said, and taken up when it is replaced.
func TestCARotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var good string
		r := follow(t, newPipes(), func(r *rig) {
			prepared(r)
			good = string(r.CA())
			cert, _ := certificate(t)
			r.write(t, "ca.crt", cert)
		})
		after(10 * time.Minute)
		r.expect(t)
		r.write(t, "ca.crt", good)
		after(time.Hour)
		r.expect(t, node("uid-1", "mode", "af"))
		if diff := cmp.Diff([]string{"api.lost", "api.recovered"}, r.lines()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestNodeName(t *testing.T) {
	client, err := apiserver.Open(apiserver.Config{Kubeconfig: kubeconfigFile(t, "https://127.0.0.1:1")}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "a,metadata.name!=b", "a/b", "A", "-", strings.Repeat("a", 254), "a\n"} {
		if err := client.FollowNode(t.Context(), name, nil, nil); err == nil || !strings.Contains(err.Error(), "want a DNS name") {
			t.Errorf("name %q: %v, want an error", name, err)
		}
	}
}
