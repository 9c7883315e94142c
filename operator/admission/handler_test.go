package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apijson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/metrics"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Requests that do not create a pod are refused.
func TestNoPod(t *testing.T) {
	h := newHandler(t, objects()...)
	good := func() ctrladmission.Request { return request("lab", toJSON(t, admitted[0].pod)) }
	if resp := h.Handle(context.Background(), good()); !resp.Allowed {
		t.Fatalf("the request without changes is refused: %v", resp.Result)
	}
	for _, tc := range []struct {
		name string
		edit func(*ctrladmission.Request)
		want string
	}{
		{"empty", func(r *ctrladmission.Request) { *r = ctrladmission.Request{} }, "want CREATE of pods in a namespace"},
		{"no object", func(r *ctrladmission.Request) { r.Object.Raw = nil }, "want a pod: "},
		{"corrupt object", func(r *ctrladmission.Request) { r.Object.Raw = r.Object.Raw[:100] }, "want a pod"},
		{"another kind", func(r *ctrladmission.Request) {
			r.Object.Raw = bytes.Replace(r.Object.Raw, []byte(`"Pod"`), []byte(`"Node"`), 1)
		}, "want a pod"},
		{"a number for a string", func(r *ctrladmission.Request) {
			r.Object.Raw = []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":1}]}}`)
		}, "want a pod"},
		{"no quantity", func(r *ctrladmission.Request) {
			r.Object.Raw = bytes.Replace(r.Object.Raw, []byte(`"2"`), []byte(`"two"`), 1)
		}, "want a pod"},
		{"another resource", func(r *ctrladmission.Request) { r.Resource.Resource = "services" }, "want CREATE of pods"},
		{"a subresource", func(r *ctrladmission.Request) { r.SubResource = "status" }, "want CREATE of pods"},
		{"another operation", func(r *ctrladmission.Request) { r.Operation = admissionv1.Update }, "want CREATE of pods"},
		{"no namespace", func(r *ctrladmission.Request) { r.Namespace = "" }, "want CREATE of pods in a namespace"},
		{"a long namespace", func(r *ctrladmission.Request) { r.Namespace = strings.Repeat("n", 64) }, "want CREATE of pods in a namespace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := good()
			tc.edit(&req)
			resp := h.Handle(context.Background(), req)
			if resp.Allowed || resp.Result.Code != http.StatusBadRequest || !strings.Contains(resp.Result.Message, tc.want) {
				t.Errorf("allowed %v, %d %s, want 400 with %q", resp.Allowed, resp.Result.Code, resp.Result.Message, tc.want)
			}
		})
	}
}

// A pod with names is refused while mappings cannot be read.
func TestMappingsUnreadable(t *testing.T) {
	reader := fake.NewClientBuilder().WithScheme(testScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the mappings are read without a deadline")
			}
			return errors.New("cache is empty")
		},
	}).Build()
	core, logs := observer.New(zap.InfoLevel)
	h := admission.NewHandler(reader, reader, domain, nil, zap.New(core))
	_, resp := answer(t, h, "lab", toJSON(t, admitted[0].pod))
	if resp.Allowed || resp.Result.Code != http.StatusInternalServerError || resp.Result.Message != "mappings of namespace lab: cache is empty" {
		t.Errorf("allowed %v, %v", resp.Allowed, resp.Result)
	}
	if _, resp := answer(t, h, "lab", toJSON(t, pod(container("c", "cpu=1")))); !resp.Allowed {
		t.Errorf("a pod without names was refused: %v", resp.Result)
	}
	if logs.Len() != 1 || logs.All()[0].ContextMap()["event"] != "admission.failed" {
		t.Errorf("log %v", logs.All())
	}
}

func TestLog(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	reader := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects()...).Build()
	h := admission.NewHandler(reader, reader, domain, nil, zap.New(core))
	answer(t, h, "lab", toJSON(t, admitted[0].pod))
	answer(t, h, "lab", toJSON(t, strings.Replace(denied[0].pod, "name: p", "generateName: p-", 1)))
	answer(t, h, "lab", toJSON(t, pod(container("c", "cpu=1"))))
	answer(t, h, strings.Repeat("n", 63), toJSON(t, strings.Replace(denied[0].pod, "name: p", "name: "+strings.Repeat("p", 1000), 1)))
	var got []string
	for _, l := range logs.All() {
		m := l.ContextMap()
		got = append(got, l.Level.String()+" "+m["event"].(string)+" "+m["object"].(string))
	}
	want := []string{"info admission.mapped Pod/lab/p", "warn admission.denied Pod/lab/p-*",
		"warn admission.denied Pod/" + strings.Repeat("n", 63) + "/" + strings.Repeat("p", 253)} // cut to the maximum length of names
	compare.Values(t, "log", want, got)
}

// Any pod that reaches the webhook can cause log lines. At most ten lines of each message are written per second, and
// they are short.
func TestFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		var long []client.Object
		for i := range 50 {
			long = append(long, function("lab", fmt.Sprintf("f%062d", i), iface, afuA, "af"))
		}
		reader := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(long...).Build()
		h := admission.NewHandler(reader, reader, domain, nil, zap.New(core))
		raw := toJSON(t, pod(container("c", domain+"/unknown=1")))
		for range 3 {
			for range 100 {
				answer(t, h, "lab", raw)
				answer(t, h, "lab", []byte("{"))
			}
			time.Sleep(time.Second)
		}
		compare.Equal(t, "lines in three seconds, ten of each of two messages in each", 60, logs.Len())
		for _, l := range logs.All() {
			if reason, denied := l.ContextMap()["reason"].(string); denied && len(reason) != 1000 {
				t.Fatalf("a reason of %d bytes, want 1000: %s", len(reason), reason)
			}
		}
	})
}

// Warnings are in the order of the variables, and their number is limited.
func TestWarnings(t *testing.T) {
	parts := []string{domain + "/nlb0-pre=1"}
	for i := range 7 {
		parts = append(parts, v(fmt.Sprintf("FPGA_AFU_%d", i), afuB))
	}
	_, resp := answer(t, newHandler(t, objects()...), "lab", toJSON(t, pod(container("c", parts...))))
	if len(resp.Warnings) != 6 || resp.Warnings[0] != `container "c": FPGA_AFU_0 was dropped: the names in resources choose the functions` ||
		resp.Warnings[5] != "and 2 more variables were dropped" {
		t.Errorf("warnings %q", resp.Warnings)
	}
}

// webhook returns the handler in an HTTP handler.
func webhook(t testing.TB) http.Handler {
	return newHandler(t, objects()...)
}

func review(t testing.TB, req ctrladmission.Request) []byte {
	t.Helper()
	raw := must.Value(json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &req.AdmissionRequest}))(t)
	return raw
}

// post returns the answer to a body. If the answer contains no review, its HTTP status is not a success.
func post(h http.Handler, body []byte) (admissionv1.AdmissionReview, error) {
	r := httptest.NewRequest(http.MethodPost, "/pods", bytes.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out admissionv1.AdmissionReview
	if w.Code != http.StatusOK {
		out.Response = &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: int32(w.Code), Message: w.Body.String()}}
		return out, nil
	}
	err := json.Unmarshal(w.Body.Bytes(), &out)
	if err == nil && out.Response == nil {
		err = errors.New("no response")
	}
	return out, err
}

// A request that is too large or too deeply nested is answered. The answer to one with very long names is short.
func TestHuge(t *testing.T) {
	deep := []byte(`{"apiVersion":"v1","kind":"Pod","spec":` + strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10001))
	long := strings.Repeat("n", 512<<10)
	for _, tc := range []struct {
		name string
		body []byte
		code int32
		want string
	}{
		{"no review", bytes.Repeat([]byte(" "), 4<<20), http.StatusRequestEntityTooLarge, "too large, want at most 3145728 bytes"},
		{"too large", review(t, request("lab", bytes.ReplaceAll(toJSON(t, pod(container("LONG"))), []byte("LONG"), bytes.Repeat([]byte("n"), 3<<20)))), http.StatusRequestEntityTooLarge, "too large, want at most 3145728 bytes"},
		{"deeply nested", []byte(strings.Replace(string(review(t, request("lab", []byte("{}")))), `"object":{}`, `"object":`+string(deep), 1)), http.StatusBadRequest, "found no AdmissionReview: invalid character '{' exceeded max depth"},
		{"long name", review(t, request("lab", bytes.ReplaceAll(toJSON(t, pod(container("c", domain+"/LONG=1"))), []byte("LONG"), []byte(long)))), http.StatusForbidden, "too long elements in a list of containers"},
		{"long container", review(t, request("lab", bytes.ReplaceAll(toJSON(t, pod(container("LONG", domain+"/unknown=1"))), []byte("LONG"), []byte(long)))), http.StatusForbidden, "of that name in this namespace"},
		{"long kind", review(t, request("lab", bytes.Replace(toJSON(t, pod(container("c"))), []byte("Pod"), []byte(long), 1))), http.StatusBadRequest, "want v1, Pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out admissionv1.AdmissionReview
			var err error
			synctest.Test(t, func(t *testing.T) { out, err = post(webhook(t), tc.body) }) // a slow machine takes no longer
			if err != nil || out.Response.Allowed || out.Response.Result.Code != tc.code || !strings.Contains(out.Response.Result.Message, tc.want) || len(out.Response.Result.Message) > 1000 {
				t.Fatalf("%.200v, %.500v, want code %d, %s", err, out.Response, tc.code, tc.want)
			}
			if tc.name != "no review" && tc.name != "deeply nested" && out.Response.UID != "u" {
				t.Errorf("uid %q, want u, so that the pod is denied whatever the failurePolicy is", out.Response.UID)
			}
		})
	}
}

// A request that is not an AdmissionReview has no uid for an answer, so the HTTP status is an error.
func TestNoReview(t *testing.T) {
	h := webhook(t)
	good := review(t, request("lab", toJSON(t, admitted[0].pod)))
	for _, tc := range []struct {
		name, method string
		body         io.Reader
		code         int
	}{
		{"GET", http.MethodGet, bytes.NewReader(good), http.StatusMethodNotAllowed},
		{"no body", http.MethodPost, http.NoBody, http.StatusLengthRequired},
		{"no length", http.MethodPost, io.MultiReader(bytes.NewReader(good)), http.StatusLengthRequired},
		{"half", http.MethodPost, bytes.NewReader(good[:len(good)/2]), http.StatusBadRequest},
		{"another version", http.MethodPost, bytes.NewReader(bytes.Replace(good, []byte("k8s.io/v1"), []byte("k8s.io/v1beta1"), 1)), http.StatusBadRequest},
		{"no request", http.MethodPost, strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), http.StatusBadRequest},
		{"no uid", http.MethodPost, bytes.NewReader(withUID(good, "")), http.StatusBadRequest},
		{"a uid that is none", http.MethodPost, bytes.NewReader(withUID(good, `\u003c`)), http.StatusBadRequest},
		{"a long uid", http.MethodPost, bytes.NewReader(withUID(good, strings.Repeat("0", 65))), http.StatusBadRequest},
		{"a very long uid", http.MethodPost, bytes.NewReader(withUID(good, strings.Repeat(`<`, 1<<20))), http.StatusBadRequest},
		{"good", http.MethodPost, bytes.NewReader(good), http.StatusOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(tc.method, "/pods", tc.body))
			if w.Code != tc.code || w.Body.Len() == 0 || tc.code != http.StatusOK && w.Body.Len() > 1000 {
				t.Errorf("status %d: %.1000s, want %d and a short reason", w.Code, w.Body, tc.code)
			}
		})
	}
}

func withUID(review []byte, uid string) []byte {
	return bytes.Replace(review, []byte(`"uid":"u"`), []byte(`"uid":"`+uid+`"`), 1)
}

// sized returns a request for a pod that is admitted, with a variable of a size.
func sized(t *testing.T, size int) []byte {
	t.Helper()
	return review(t, request("lab", toJSON(t, pod(container("c", domain+"/nlb0-pre=1", v("LONG", strings.Repeat("x", size)))))))
}

// from posts a body from an address, and returns the time until it is answered.
func from(h http.Handler, host string, body io.Reader, size int, w http.ResponseWriter) time.Duration {
	r := httptest.NewRequest(http.MethodPost, "/pods", body)
	r.ContentLength, r.RemoteAddr = int64(size), host+":1234"
	begin := time.Now()
	h.ServeHTTP(w, r)
	return time.Since(begin)
}

// While a large request does not arrive, other requests from its address, and those for which there is no room, are
// denied after half a second. All remaining requests are answered at once. Before the large request has sent 64 KiB,
// all requests are answered.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := webhook(t)
		const slowSize = 2 << 20
		large, larger, small := sized(t, 100<<10), sized(t, slowSize), review(t, request("lab", toJSON(t, admitted[0].pod)))
		check := func(name, host string, body []byte, code int32, want time.Duration) {
			t.Helper()
			w := httptest.NewRecorder()
			took := from(h, host, bytes.NewReader(body), len(body), w)
			var out admissionv1.AdmissionReview
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil || out.Response.UID != "u" {
				t.Errorf("%s: %v, status %d: %.200s, want an answer to the uid", name, err, w.Code, w.Body)
			} else if r := out.Response; r.Allowed != (code == 0) || code != 0 && r.Result.Code != code || took != want {
				t.Errorf("%s: %.200v after %v, want code %d after %v", name, r, took, code, want)
			}
		}
		reader, writer := io.Pipe()
		var slow sync.WaitGroup
		slow.Go(func() { from(h, "10.0.0.1", reader, slowSize, httptest.NewRecorder()) })
		synctest.Wait()
		check("larger, before the slow one has sent", "10.0.0.1", larger, 0, 0)
		must.Value(writer.Write(larger[:64<<10]))(t)
		synctest.Wait()
		check("large of the same address", "10.0.0.1", large, http.StatusTooManyRequests, 500*time.Millisecond)
		check("large of another address", "10.0.0.2", large, 0, 0)
		check("larger of another address", "10.0.0.2", larger, http.StatusTooManyRequests, 500*time.Millisecond)
		check("small of the same address", "10.0.0.1", small, 0, 0)
		writer.Close()
		slow.Wait()
		check("larger of the same address, after the slow one", "10.0.0.1", larger, 0, 0)
	})
}

// If the rest of a request does not arrive, it is denied, whatever the failurePolicy is, provided that its uid has
// arrived.
func TestSlow(t *testing.T) {
	small, large := sized(t, 1), sized(t, 1<<20)
	for _, tc := range []struct {
		name     string
		body     []byte
		arrived  int
		code     int
		response string
	}{
		{"small", small, len(small) / 2, http.StatusOK, `"uid":"u"`},
		{"large", large, len(large) / 2, http.StatusOK, `"uid":"u"`},
		{"without its uid", large, 20, http.StatusTooManyRequests, "did not arrive in time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			from(webhook(t), "10.0.0.1", bytes.NewReader(tc.body[:tc.arrived]), len(tc.body), w)
			if text := w.Body.String(); w.Code != tc.code || !strings.Contains(text, tc.response) || strings.Contains(text, `"allowed":true`) {
				t.Errorf("status %d: %s, want %d and a denial with %s", w.Code, text, tc.code, tc.response)
			}
		})
	}
}

// unread is an answer that its client does not read.
type unread struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (u unread) Write(b []byte) (int, error) {
	<-u.read
	return u.ResponseRecorder.Write(b)
}

// A client that does not read the answer to a large request does not block other clients.
func TestUnreadAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := webhook(t)
		large := sized(t, 2<<20)
		w := unread{httptest.NewRecorder(), make(chan struct{})}
		var slow sync.WaitGroup
		slow.Go(func() { from(h, "10.0.0.1", bytes.NewReader(large), len(large), w) })
		synctest.Wait()
		begin := time.Now()
		out, err := post(h, large)
		if took := time.Since(begin); err != nil || !out.Response.Allowed || took != 0 {
			t.Errorf("%v, %.200v after %v, want it allowed at once", err, out.Response, took)
		}
		close(w.read)
		slow.Wait()
	})
}

// When enough pods wait to be decoded, others of their size are denied at once.
func TestFewWait(t *testing.T) {
	for _, tc := range []struct {
		name      string
		size, few int
	}{{"tiny", 1, 4 + 64}, {"small", 20 << 10, 2 + 16}} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			listed := make(chan struct{})
			reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects()...).Build(), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					<-listed
					return c.List(ctx, list, opts...)
				},
			})
			h := admission.NewHandler(reader, reader, domain, nil, zap.NewNop())
			body := sized(t, tc.size)
			var all sync.WaitGroup
			for range tc.few {
				all.Go(func() {
					if out, err := post(h, body); err != nil || !out.Response.Allowed {
						t.Errorf("one that waits: %v, %.200v, want it allowed", err, out.Response)
					}
				})
			}
			synctest.Wait()
			begin := time.Now()
			out, err := post(h, body)
			if took := time.Since(begin); err != nil || out.Response.UID != "u" || out.Response.Allowed || out.Response.Result.Code != http.StatusTooManyRequests || took != 0 {
				t.Errorf("one too many: %v, %.200v after %v, want it denied at once", err, out.Response, took)
			}
			close(listed)
			all.Wait()
			if out, err := post(h, body); err != nil || !out.Response.Allowed {
				t.Errorf("after them: %v, %.200v, want it allowed", err, out.Response)
			}
		})
	}
}

// An address that sends many pods does not keep the pods of another address from being decoded. Its own last pod is
// denied, and the pod of the other address is decoded in turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		all := append(objects(), function("greedy", "nlb0-pre", iface, afuA, "af"))
		reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(all...).Build(), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				var o client.ListOptions
				o.ApplyOptions(opts)
				if _, first := list.(*v2.AcceleratorFunctionList); first && o.Namespace == "greedy" {
					<-proceed
				}
				return c.List(ctx, list, opts...)
			},
		})
		h := admission.NewHandler(reader, reader, domain, nil, zap.NewNop())
		var requests sync.WaitGroup
		var mu sync.Mutex
		answered := map[string]int{}
		send := func(namespace, host string) {
			body := review(t, request(namespace, toJSON(t, pod(container("c", domain+"/nlb0-pre=1")))))
			requests.Go(func() {
				w := httptest.NewRecorder()
				from(h, host, bytes.NewReader(body), len(body), w)
				mu.Lock()
				defer mu.Unlock()
				answered[namespace+map[bool]string{true: " admitted", false: " denied"}[strings.Contains(w.Body.String(), `"allowed":true`)]]++
			})
			synctest.Wait()
		}
		check := func(when string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			compare.Values(t, when, want, answered)
		}
		const now, wait = 4, 64
		for range now + wait {
			send("greedy", "10.0.0.1")
		}
		check("all of one address", map[string]int{})
		send("lab", "10.0.0.2")
		check("one of another address", map[string]int{"greedy denied": 1})
		proceed <- struct{}{}
		proceed <- struct{}{}
		check("the second turn is the other address's", map[string]int{"greedy denied": 1, "greedy admitted": 2, "lab admitted": 1})
		time.Sleep(3 * time.Second)
		check("after the time to wait", map[string]int{"greedy denied": wait - 2, "greedy admitted": 2, "lab admitted": 1})
		close(proceed)
		requests.Wait()
		send("greedy", "10.0.0.1")
		check("in the end", map[string]int{"greedy denied": wait - 2, "greedy admitted": 2 + now + 1, "lab admitted": 1})
	})
}

// The user chooses the size of a pod. Handling it takes at most four times the bytes of its JSON. A pod with too many
// containers is denied before they are decoded.
func TestMemory(t *testing.T) {
	h := newHandler(t, objects()...)
	raw := toJSON(t, admitted[0].pod)
	const tooMany = "too many elements in a list of containers: want at most 32768"
	for field, want := range map[string]string{"tolerations": "", "volumes": "", "topologySpreadConstraints": "", "initContainers": tooMany, "containers": tooMany} {
		raw := raw
		if want != "" {
			raw = []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n"}}`)
		}
		many := []byte(`"spec":{"` + field + `":[` + strings.Repeat("{},", 1<<18) + "{}],")
		req := request("lab", bytes.Replace(raw, []byte(`"spec":{`), many, 1))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		resp := h.Handle(context.Background(), req)
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; resp.Allowed != (want == "") || !resp.Allowed && resp.Result.Message != want || bytes > 4*uint64(len(req.Object.Raw)) {
			t.Errorf("%s: allowed %v, %v, a pod of %d bytes took %d", field, resp.Allowed, resp.Result, len(req.Object.Raw), bytes)
		}
	}
}

// The elements of the lists of containers are checked before they are decoded.
func TestElements(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"null", `"containers":[null]`, "null elements in a list of containers: want an object or a value"},
		{"null after another", `"containers":[{} , null]`, "null elements"},
		{"null in a list of a container", `"initContainers":[{"env":[null]}]`, "null elements"},
		{"null as a value", `"initContainers":null,"containers":[{"env":null,"resources":null}]`, ""},
		{"null in a string", `"containers":[{"args":["[null,\\",",null]"]}]`, ""},
		{"commas in a string", `"containers":[{"name":"` + strings.Repeat(",", 1<<16) + `"}]`, ""},
		{"too many in a list of a container", `"containers":[{"args":[` + strings.Repeat("1,", 1<<15) + `1]}]`, "too many elements"},
		{"too many members", `"containers":[{` + strings.Repeat(`"a":1,`, 1<<15) + `"a":1}]`, "too many elements"},
		{"a list twice", `"containers":[],"containers":[{}]`, "found the list twice"},
		{"long quantity", `"containers":[{"resources":{"limits":{"cpu":1` + strings.Repeat("0", 600) + `}}}]`, "found more than 512 bytes in a name or quantity of a resource"},
		{"long string quantity", `"containers":[{"resources":{"limits":{"cpu":"0.` + strings.Repeat("1", 600) + `"}}}]`, "found more than 512 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := admission.ParsePod([]byte(`{"apiVersion":"v1","kind":"Pod","spec":{` + tc.spec + `}}`))
			compare.Outcome(t, "error", tc.want, err)
		})
	}
}

// limited contains the names in the limits of a container.
type limited struct {
	Resources struct {
		Limits map[string]any `json:"limits"`
	} `json:"resources"`
}

// Each request gets exactly one answer. In an admitted pod, all names of the domain are names of resources.
func FuzzReview(f *testing.F) {
	for _, tc := range admitted {
		f.Add(review(f, request(tc.namespace, toJSON(f, tc.pod))))
	}
	for _, tc := range denied {
		f.Add(review(f, request(tc.namespace, toJSON(f, tc.pod))))
	}
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}`))
	f.Add([]byte(`[]`))
	h := webhook(f)
	plain := newHandler(f, objects()...)
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := post(h, body)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if !out.Response.Allowed {
			if out.Response.Patch != nil || out.Response.Result.Message == "" {
				t.Errorf("refused with patch %q and message %q", out.Response.Patch, out.Response.Result.Message)
			}
			return
		}
		// The pod as the API server decodes it: a key in capitals is another key.
		var in admissionv1.AdmissionReview
		if apijson.Unmarshal(body, &in) != nil || in.Request == nil || in.Request.Namespace == "" {
			return
		}
		after, resp := answer(t, plain, in.Request.Namespace, in.Request.Object.Raw)
		if !resp.Allowed {
			return
		}
		var p struct {
			Spec struct {
				Containers     []limited `json:"containers"`
				InitContainers []limited `json:"initContainers"`
			} `json:"spec"`
		}
		if apijson.Unmarshal(after, &p) != nil {
			return
		}
		for _, c := range append(p.Spec.Containers, p.Spec.InitContainers...) {
			for name := range c.Resources.Limits {
				if strings.HasPrefix(name, domain+"/") && !strings.HasPrefix(name, domain+"/af-") && !strings.HasPrefix(name, domain+"/region-") {
					t.Errorf("admitted with %q", name)
				}
			}
		}
		if _, resp := answer(t, plain, in.Request.Namespace, after); !resp.Allowed || resp.Patch != nil {
			t.Errorf("the second time: allowed %v, patch %s", resp.Allowed, resp.Patch)
		}
	})
}

// The request for a pod may arrive before the cache contains the mapping that was applied with it. The handler then
// reads once from the API server. It does this only if a name is missing in the cache.
func TestLiveRead(t *testing.T) {
	lists := 0
	var deadline time.Time
	reader := func(err error, objects ...client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				lists++
				if d, bounded := ctx.Deadline(); !bounded || lists > 1 && d != deadline {
					t.Errorf("the deadline is %v, that of the first list %v", d, deadline)
				} else {
					deadline = d
				}
				return errors.Join(err, c.List(ctx, list, opts...))
			},
		}).Build()
	}
	const cached = 2 // lists: one for each kind
	for _, tc := range []struct {
		name        string
		cache, live client.Reader
		pod         string
		want        string // message; "" is admitted
		lists       int
	}{
		{"cached", reader(nil, objects()...), reader(nil), admitted[0].pod, "", cached},
		{"not cached yet", reader(nil), reader(nil, objects()...), admitted[0].pod, "", cached + 2},
		{"nowhere", reader(nil), reader(nil), pod(container("c", domain+"/nlb0=1")), "of that name in this namespace; usable names: none", cached + 2},
		{"the API server has other names", reader(nil), reader(nil, objects()...), pod(container("c", domain+"/unknown=1")), "of that name in this namespace; usable names: ", cached + 2},
		{"another reason", reader(nil, objects()...), reader(nil), pod(container("c", domain+"/dead=1")), "cannot be used", cached},
		{"no answer", reader(nil), reader(errors.New("busy")), admitted[0].pod, "mappings of namespace lab: busy", cached + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lists = 0
			_, resp := answer(t, admission.NewHandler(tc.cache, tc.live, domain, nil, zap.NewNop()), "lab", toJSON(t, tc.pod))
			if resp.Allowed != (tc.want == "") || tc.want != "" && !strings.Contains(resp.Result.Message, tc.want) || lists != tc.lists {
				t.Errorf("allowed %v, %v, %d lists, want %q, %d", resp.Allowed, resp.Result, lists, tc.want, tc.lists)
			}
		})
	}
}

// Requests with unknown names may read from the API server at most five times at once per namespace, and then twice a
// second. For all namespaces together, it is twenty times, and then ten times a second. The other requests are answered
// from the cache, and so denied. Invented namespaces are forgotten.
func TestLiveRate(t *testing.T) {
	for _, tc := range []struct {
		name              string
		namespaces        int // in turn
		reads, remembered int
	}{{"one", 1, 5 + 6*2, 1}, {"two", 2, 2 * (5 + 6*2), 2}, {"a new one each time", 600, 20 + 6*10, 20 + 10*5/2}} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			empty := fake.NewClientBuilder().WithScheme(testScheme(t)).Build()
			lists := 0
			live := interceptor.NewClient(empty, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				lists++
				return nil
			}})
			h := admission.NewHandler(empty, live, domain, nil, zap.NewNop())
			raw := toJSON(t, admitted[0].pod)
			for i := range 600 {
				if _, resp := answer(t, h, fmt.Sprint("n", i%tc.namespaces), raw); resp.Allowed || resp.Result.Code != http.StatusForbidden {
					t.Fatalf("allowed %v, %v, want it denied", resp.Allowed, resp.Result)
				}
				if n := h.Namespaces(); n > tc.remembered {
					t.Fatalf("%d namespaces are remembered, want at most %d", n, tc.remembered)
				}
				time.Sleep(time.Second / 100)
			}
			const kinds = 2
			if reads := lists / kinds; reads < tc.reads-2 || reads > tc.reads {
				t.Errorf("600 requests in 6 s read %d times, want %d", reads, tc.reads)
			}
		})
	}
}

// If the pods of a namespace have many unknown names, and its mappings are read slowly, this does not use up the reads
// of other namespaces.
func TestLiveShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := fake.NewClientBuilder().WithScheme(testScheme(t)).Build()
		live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects()...).Build(), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				var o client.ListOptions
				if o.ApplyOptions(opts); o.Namespace == "greedy" {
					<-ctx.Done()
				}
				return c.List(ctx, list, opts...)
			},
		})
		h := admission.NewHandler(empty, live, domain, nil, zap.NewNop())
		raw := toJSON(t, admitted[0].pod)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { answer(t, h, "greedy", raw) })
		}
		synctest.Wait()
		for range 5 {
			begin := time.Now()
			if _, resp := answer(t, h, "lab", raw); !resp.Allowed || time.Since(begin) != 0 {
				t.Errorf("allowed %v, %v after %v, want it admitted at once", resp.Allowed, resp.Result, time.Since(begin))
			}
		}
		all.Wait()
	})
}

// At most four requests read from the API server at a time, and one of each namespace. The others wait for a limited
// time.
func TestLiveLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reading, of, most := 0, map[string]int{}, 0
		var mu sync.Mutex
		empty := fake.NewClientBuilder().WithScheme(testScheme(t)).Build()
		live := interceptor.NewClient(empty, interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) error {
				var o client.ListOptions
				o.ApplyOptions(opts)
				count := func(n int) {
					mu.Lock()
					defer mu.Unlock()
					reading += n
					most = max(most, reading)
					if of[o.Namespace] += n; of[o.Namespace] > 1 {
						t.Errorf("two requests of namespace %s read", o.Namespace)
					}
				}
				count(1)
				defer count(-1)
				<-ctx.Done()
				return ctx.Err()
			},
		})
		h := admission.NewHandler(empty, live, domain, nil, zap.NewNop())
		raw := toJSON(t, admitted[0].pod)
		begin := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if _, resp := answer(t, h, fmt.Sprint("n", i%5), raw); resp.Allowed || resp.Result.Code != http.StatusInternalServerError {
					t.Errorf("allowed %v, %v", resp.Allowed, resp.Result)
				}
			})
		}
		all.Wait()
		if took := time.Since(begin); most != 4 || took != 3*time.Second {
			t.Errorf("%d requests read at a time, and all took %v, want 4, 3s", most, took)
		}
	})
}

// A server that stops cancels its requests before it waits for their answers.
func TestShutdown(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects()...).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return errors.Join(ctx.Err(), c.List(ctx, list, opts...))
		},
	})
	h := admission.NewHandler(fake.NewClientBuilder().WithScheme(testScheme(t)).Build(), live, domain, nil, zap.NewNop())
	if resp := h.Handle(ctx, request("lab", toJSON(t, admitted[0].pod))); !resp.Allowed {
		t.Errorf("refused: %v", resp.Result)
	}
}

// Each request is counted, by its result.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	reader := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects()...).Build()
	h := admission.NewHandler(reader, reader, domain, metrics.New(registry, "v1", reader), zap.NewNop())
	answer(t, h, "lab", toJSON(t, admitted[0].pod))
	answer(t, h, "lab", toJSON(t, denied[0].pod))
	answer(t, h, "lab", toJSON(t, pod(container("c", "cpu=1"))))
	answer(t, h, "lab", []byte("{"))
	answer(t, h, "lab", []byte("{"))
	got := map[string]float64{}
	families := must.Value(registry.Gather())(t)
	for _, f := range families {
		for _, m := range f.Metric {
			switch f.GetName() {
			case "accelerator_admission_requests_total":
				got[m.Label[0].GetValue()] = m.Counter.GetValue()
			case "accelerator_admission_duration_seconds":
				got["duration"] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	want := map[string]float64{"mapped": 1, "unchanged": 1, "denied": 1, "failed": 2, "duration": 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
