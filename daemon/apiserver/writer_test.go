package apiserver_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// writing returns a simulated API server and a writer for it.
func writing(t *testing.T, failed func()) (*simapiserver.Server, *apiserver.Writer) {
	t.Helper()
	listener := pipes.Listen(0)
	server := simapiserver.Start(listener)
	t.Cleanup(server.Close)
	account := &rig{account: t.TempDir()}
	account.write(t, "ca.crt", string(server.CA()))
	account.write(t, "token", "token-1\n")
	client, err := apiserver.Open(apiserver.Config{
		ServiceAccount: account.account, LookupEnv: inPod(t, server.Address()), UserAgent: "agent/1", Dial: listener.Dial, Failed: failed,
	}, zap.NewNop())
	must.Succeed(t, err)
	w := client.Writer(t.Context(), name)
	t.Cleanup(w.Close)
	return server, w
}

var (
	onNode = apiserver.Event{
		Name: "worker-3.1", Object: apiserver.Object{Kind: "Node", Name: name, UID: name}, Host: name, Warning: true,
		Reason: "DeviceUnhealthy", Message: "m <1>",
		First: time.Date(2026, 11, 21, 22, 0, 0, 5, time.FixedZone("CET", 3600)),
		Last:  time.Date(2026, 11, 21, 22, 0, 1, 5, time.FixedZone("CET", 3600)), Count: 2,
	}
	onPod = apiserver.Event{Name: "job.1", Object: apiserver.Object{Kind: "Pod", Namespace: "work", Name: "job", UID: "u"}, Reason: "DeviceRecovered", Count: 1}
)

// TestWriterRequests compares the requests byte for byte.
func TestWriterRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := writing(t, nil)
		var got []string
		server.UseFault(func(_ http.ResponseWriter, r *http.Request) bool {
			body, _ := io.ReadAll(r.Body)
			got = append(got, strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Content-Type"), r.UserAgent(), string(body)}, " "))
			return false
		})
		for _, do := range []func() error{
			func() error { return w.Create(onNode) },
			func() error { return w.Grow(onNode) },
			func() error { return w.Create(onPod) },
			func() error { _, err := w.PodUID("work", "job"); return err },
		} {
			_ = do() // the fault has read the body; TestWriterErrors checks the responses
		}
		want := []string{
			`POST /api/v1/namespaces/default/events application/json agent/1 {"apiVersion":"v1","count":2,"firstTimestamp":"2026-11-21T21:00:00Z",` +
				`"involvedObject":{"apiVersion":"v1","kind":"Node","name":"worker-3","uid":"worker-3"},"kind":"Event","lastTimestamp":"2026-11-21T21:00:01Z",` +
				`"message":"m \u003c1\u003e","metadata":{"name":"worker-3.1","namespace":"default"},"reason":"DeviceUnhealthy",` +
				`"reportingComponent":"accelerator-device-plugin","reportingInstance":"worker-3",` +
				`"source":{"component":"accelerator-device-plugin","host":"worker-3"},"type":"Warning"}`,
			`PATCH /api/v1/namespaces/default/events/worker-3.1 application/merge-patch+json agent/1 ` +
				`{"count":2,"lastTimestamp":"2026-11-21T21:00:01Z","message":"m \u003c1\u003e","type":"Warning"}`,
			`POST /api/v1/namespaces/work/events application/json agent/1 {"apiVersion":"v1","count":1,"firstTimestamp":"0001-01-01T00:00:00Z",` +
				`"involvedObject":{"apiVersion":"v1","kind":"Pod","name":"job","namespace":"work","uid":"u"},"kind":"Event","lastTimestamp":"0001-01-01T00:00:00Z",` +
				`"message":"","metadata":{"name":"job.1","namespace":"work"},"reason":"DeviceRecovered",` +
				`"reportingComponent":"accelerator-device-plugin","reportingInstance":"","source":{"component":"accelerator-device-plugin","host":""},"type":"Normal"}`,
			`GET /api/v1/namespaces/work/pods/job  agent/1 `,
		}
		compare.Values(t, "requests", want, got)
	})
}

// TestWriterErrors checks which error each response from the server leads to.
func TestWriterErrors(t *testing.T) {
	kinds := map[string]error{
		"not found": apiserver.ErrNotFound, "exists": apiserver.ErrExists, "forbidden": apiserver.ErrForbidden,
		"ending": apiserver.ErrEnding, "refused": apiserver.ErrRefused,
	}
	grow := func(_ *simapiserver.Server, w *apiserver.Writer) error { return w.Grow(onNode) }
	pod := func(name string) func(*simapiserver.Server, *apiserver.Writer) error {
		return func(_ *simapiserver.Server, w *apiserver.Writer) error {
			_, err := w.PodUID("work", name)
			return err
		}
	}
	twice := func(_ *simapiserver.Server, w *apiserver.Writer) error {
		if err := w.Create(onNode); err != nil {
			return err
		}
		return w.Create(onNode)
	}
	create := func(e apiserver.Event) func(*simapiserver.Server, *apiserver.Writer) error {
		return func(_ *simapiserver.Server, w *apiserver.Writer) error { return w.Create(e) }
	}
	without := func(end func(*simapiserver.Server, string)) func(*simapiserver.Server, *apiserver.Writer) error {
		return func(s *simapiserver.Server, w *apiserver.Writer) error {
			end(s, "work")
			return w.Create(onPod)
		}
	}
	refused := func(code int) func(*simapiserver.Server, *apiserver.Writer) error {
		return func(s *simapiserver.Server, w *apiserver.Writer) error {
			s.UseFault(refuse(code, "test"))
			return w.Create(onNode)
		}
	}
	odd := onNode
	odd.Name = "../x"
	elsewhere := onPod
	elsewhere.Object.Namespace = "a/b"
	for _, tc := range []struct {
		name string
		do   func(*simapiserver.Server, *apiserver.Writer) error
		is   []string
		want string
	}{
		{"success", create(onNode), nil, ""},
		{"twice", twice, []string{"exists"}, "create event worker-3.1: 409 Conflict"},
		{"update of a missing Event", grow, []string{"not found", "refused"}, "patch event worker-3.1: 404 Not Found"},
		{"no pod", pod("job"), []string{"not found", "refused"}, "get pod work/job: 404 Not Found"},
		{"no namespace", without((*simapiserver.Server).DeleteNamespace), []string{"not found", "refused"}, `namespaces "work" not found`},
		{"namespace is ending", without((*simapiserver.Server).EndNamespace), []string{"ending", "refused"},
			"403 Forbidden: events is forbidden: unable to create new content in namespace work because it is being terminated"},
		{"400", refused(400), []string{"refused"}, "400 Bad Request"},
		{"401", refused(401), nil, "the token or certificate is not accepted"},
		{"403", refused(403), []string{"forbidden"}, "the account needs the verb create on events, in a ClusterRole"},
		{"422", refused(422), []string{"refused"}, "422 Unprocessable Entity"},
		{"429", refused(429), nil, "429 Too Many Requests"},
		{"500", refused(500), nil, "500 Internal Server Error"},
		{"invalid name", create(odd), []string{"refused"}, `event DeviceUnhealthy: found the name "../x", want a DNS name in lower case`},
		{"invalid namespace", create(elsewhere), []string{"refused"}, `"a/b", want a DNS name`},
		{"invalid name of a pod", pod("a/log"), []string{"refused"}, "get pod work/a/log: want DNS names"},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			server, w := writing(t, nil)
			err := tc.do(server, w)
			var is []string
			for _, kind := range []string{"not found", "exists", "forbidden", "ending", "refused"} {
				if errors.Is(err, kinds[kind]) {
					is = append(is, kind)
				}
			}
			compare.Values(t, "kinds", tc.is, is)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// Waits grow, and a success resets them. Retry-After is respected. Each failure is counted.
func TestWriterPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		server, w := writing(t, func() { count++ })
		server.UseFault(refuse(429, "slow", "Retry-After", "45"))
		slow := w.Create(onNode)
		for i, most := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			if wait := w.Failed(errors.New("x")); wait < most/2 || wait > most {
				t.Errorf("wait %d: %s, want %s to %s", i, wait, most/2, most)
			}
		}
		if wait := w.Failed(slow); wait < 45*time.Second || wait > 45*time.Second*3/2 {
			t.Errorf("wait: found %s, want 45s to 67.5s", wait)
		}
		w.Passed(true)
		if wait := w.Failed(errors.New("x")); wait > 500*time.Millisecond {
			t.Errorf("wait after a success: found %s, want at most 500ms", wait)
		}
		compare.Equal(t, "failures", 5, count)
	})
}
