package admission_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var floodFor = flag.Duration("flood", time.Minute, "time of each flood of BenchmarkFlood")

// floodServer is the environment variable that turns the test binary into a webhook.
const floodServer = "ADMISSION_FLOOD_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(floodServer) != "" {
		if err := serveFlooded(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveFlooded serves a webhook, as the operator does, until its standard input ends.
func serveFlooded() error {
	trust := httptest.NewUnstartedServer(nil) // provides a certificate
	trust.StartTLS()
	defer trust.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mappings := manyMappings(10)
	handler := admission.NewHandler(mappings, mappings, domain, nil, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println("https://" + listener.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return httpd.ServeBodies(ctx, tls.NewListener(listener, &tls.Config{Certificates: trust.TLS.Certificates}), handler, zap.NewNop())
}

// fill returns an AdmissionReview of about size bytes. It begins and ends with the two parts of pattern, which are
// separated by %s, and repeats a text in between.
func fill(size int, pattern, repeated string) []byte {
	body := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"bad","resource":{"version":"v1","resource":"pods"},"operation":"CREATE","namespace":"lab",`
	before, after, _ := strings.Cut(body+pattern+"}}", "%s")
	n := max(1, (size-len(before)-len(after))/len(repeated))
	if strings.Contains(repeated, "#####") { // each repetition has a number of its own
		var all strings.Builder
		for i := range n {
			all.WriteString(strings.ReplaceAll(repeated, "#####", fmt.Sprintf("%05d", i%100000)))
		}
		return []byte(before + all.String() + after)
	}
	return []byte(before + strings.Repeat(repeated, n) + after)
}

// worst returns bodies that are costly to handle, by name.
func worst(size int) map[string][]byte {
	pod := func(spec string) string { return `"object":{"apiVersion":"v1","kind":"Pod","spec":{` + spec + `}}` }
	first := `{"resources":{"limits":{"` + domain + `/x":1},"requests":{"` + domain + `/x":1}}}`
	return map[string][]byte{
		"null":                fill(size, pod(`"containers":[`+first+`%s]`), ",null"),
		"containers":          fill(size, pod(`"containers":[`+first+`%s]`), ",{}"),
		"containers-resource": fill(size, pod(`"containers":[`+first+`%s]`), `,{"resources":{"limits":{"a":1}}}`),
		"resources":           fill(size, pod(`"containers":[{"resources":{"limits":{"a":1%s}}}]`), `,"#####":1`),
		"same-resource":       fill(size, pod(`"containers":[{"resources":{"limits":{"a":1%s}}}]`), `,"a":1`),
		"domain-resources":    fill(size, pod(`"containers":[{"resources":{"limits":{"a":1%s}}}]`), `,"`+domain+`/#####":1`),
		"variables":           fill(size, pod(`"containers":[{"env":[{}%s]}]`), ",{}"),
		"references":          fill(size, pod(`"containers":[{"env":[{}%s]}]`), `,{"valueFrom":{"fieldRef":{},"secretKeyRef":{},"configMapKeyRef":{}}}`),
		"same-list":           fill(size, pod(`"containers":[]%s`), `,"containers":[{},{},{},{},{},{},{},{}]`),
		"same-spec":           fill(size, `"object":{"apiVersion":"v1","kind":"Pod"%s}`, `,"spec":{"containers":[{},{},{},{},{},{},{},{}]}`),
		"long-value":          fill(size, pod(`"containers":[{"env":[{"name":"A","value":"%s"}]}]`), `\u003c`),
		"long-quantity":       fill(size, pod(`"containers":[{"resources":{"limits":{"a":"0.1%s"}}}]`), `1`),
		"long-integer":        fill(size, pod(`"containers":[{"resources":{"limits":{"a":1%s}}}]`), `1`),
		"quantities":          fill(size, pod(`"containers":[{"resources":{"limits":{"a":1%s}}}]`), `,"`+domain+`/#####":"1e999999999"`),
		"deep":                []byte(strings.Replace(string(fill(size, `"object":%s`, `{"a":`)), `}}`, "1"+strings.Repeat("}", size/5), 1)),
		"groups":              fill(size, `"userInfo":{"groups":[null%s]},`+pod(`"containers":[`+first+`]`), ",null"),
		"extra":               fill(size, `"userInfo":{"extra":{"a":[]%s}},`+pod(`"containers":[`+first+`]`), `,"#####":[]`),
		"spaces":              fill(size, pod(`"containers":[%s]`), " "),
		"review":              fill(size, `"a":[%s]`, " "),
		"null-members":        fill(size, `"object":null%s`, `,"object":null`),
	}
}

// flooded is how an honest client and the process of the webhook fared in a flood.
type flooded struct {
	times  []time.Duration // of the honest client's requests, sorted
	failed int             // of them, those without the expected answer
	bad    int64           // answers to the flood
	before int             // KiB of memory at most, after the first honest requests
	after  int             // at the end
}

// attacker dials like the clients of a flood. They are pods, so they do not have the address of an API server.
var attacker = net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}

// flood sends bodies from clients for some time, and honest requests 20 times a second: on connections that are
// kept, or each on a new one.
func flood(t testing.TB, clients int, lasts time.Duration, kept bool, send func(http.RoundTripper, string)) (f flooded) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), floodServer+"=1", "GOMEMLIMIT=256MiB") // as in the chart
	in := must.Value(cmd.StdinPipe())(t)
	out := must.Value(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	must.Succeed(t, cmd.Start())
	defer func() {
		in.Close()
		compare.NoError(t, "the webhook", cmd.Wait())
	}()
	url := must.Value(bufio.NewReader(out).ReadString('\n'))(t)
	url = strings.TrimSpace(url) + "/pods"

	client := func() *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 25} // an API server keeps 25
	}
	good := review(t, request("lab", toJSON(t, busyPod(2))))
	honest := client()
	honest.DisableKeepAlives = !kept
	defer honest.CloseIdleConnections()
	ask := func() error {
		resp, err := post1(honest, url, good)
		if err == nil && (!bytes.Contains(resp, []byte(`"allowed":true`)) || !bytes.Contains(resp, []byte(`"patch":`))) {
			err = fmt.Errorf("answer %.300s", resp)
		}
		return err
	}
	for range 100 {
		must.Succeed(t, ask())
	}
	f.before = peak(t, cmd.Process.Pid)

	var all sync.WaitGroup
	var bad atomic.Int64
	end := time.Now().Add(lasts)
	for range clients {
		all.Go(func() {
			c := client()
			c.DialContext = attacker.DialContext
			defer c.CloseIdleConnections()
			for time.Now().Before(end) {
				send(c, url)
				bad.Add(1)
			}
		})
	}
	var failed atomic.Int64
	f.times = atRate(20, lasts, func() {
		if err := ask(); err != nil {
			if failed.Add(1) == 1 {
				t.Logf("the first request that failed: %v", err)
			}
		}
	})
	all.Wait()
	f.failed, f.bad, f.after = int(failed.Load()), bad.Load(), peak(t, cmd.Process.Pid)
	return f
}

// post1 sends a body, and returns the answer.
func post1(c http.RoundTripper, url string, body []byte) ([]byte, error) {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("status %d", resp.StatusCode))
	}
	return text, err
}

// peak returns the largest resident memory of a process so far, in KiB.
func peak(t testing.TB, pid int) int {
	t.Helper()
	text := must.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	n := must.Value(strconv.Atoi(strings.Fields(rest)[0]))(t)
	return n
}

func (f flooded) at(share float64) time.Duration { return f.times[int(share*float64(len(f.times)-1))] }

// BenchmarkFlood floods a webhook in a separate process from 64 clients with each of the worst bodies, and with clients
// that send slowly, and then from 120 and 200 clients. The last columns are for an honest client that asks 20 times a
// second.
func BenchmarkFlood(b *testing.B) {
	run := func(name string, clients int, kept bool, send func(http.RoundTripper, string)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f := flood(b, clients, *floodFor, kept, send)
				b.ReportMetric(float64(f.after-f.before)/1024, "MiB")
				b.ReportMetric(float64(f.after)/1024, "MiB-total")
				b.ReportMetric(float64(f.bad)/floodFor.Seconds(), "bad/s")
				b.ReportMetric(float64(f.at(0.5).Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(f.at(0.99).Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(f.failed), "refused")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	for _, size := range []int{3<<20 - 1<<10, 60 << 10, 15 << 10} {
		bodies := worst(size)
		names := []string{}
		for name := range bodies {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			run(fmt.Sprintf("%dKiB/%s", size>>10, name), 64, true, func(c http.RoundTripper, url string) { _, _ = post1(c, url, bodies[name]) })
		}
		run(fmt.Sprintf("%dKiB/slow", size>>10), 64, true, slowly(size))
	}
	for _, kept := range []bool{true, false} {
		name := map[bool]string{true: "kept", false: "new"}[kept]
		costly := worst(63 << 10)["containers-resource"]
		run("200-clients/"+name, 200, kept, func(c http.RoundTripper, url string) { _, _ = post1(c, url, costly) })
		run("hoard/"+name, 200, kept, hoard)
	}
	tiny := worst(15 << 10)["containers-resource"]
	run("tiny", 120, true, func(c http.RoundTripper, url string) { _, _ = post1(c, url, tiny) })
	run("header", 64, true, func(c http.RoundTripper, url string) {
		r, _ := http.NewRequest(http.MethodPost, url, http.NoBody)
		for i := range 100 {
			r.Header.Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 10<<10))
		}
		if resp, err := c.RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	})
}

// slowly returns a function that sends a request of this size, except for the last byte.
func slowly(size int) func(http.RoundTripper, string) {
	return func(c http.RoundTripper, url string) {
		reader, writer := io.Pipe()
		r, _ := http.NewRequest(http.MethodPost, url, reader)
		r.ContentLength = int64(size)
		go func() {
			_, _ = writer.Write(make([]byte, size-1))
		}()
		// A transport does not return while it reads the body.
		defer time.AfterFunc(3*time.Second, func() { reader.Close() }).Stop()
		if resp, err := c.RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	}
}

// hoard keeps a connection idle until the server closes it.
func hoard(_ http.RoundTripper, url string) {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
	conn, err := tls.DialWithDialer(&attacker, "tcp", host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * time.Second))
	fmt.Fprint(conn, "GET /pods HTTP/1.1\r\nHost: webhook\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn)
}

// cached returns its own objects, as the cache of a manager does without deep copies.
// The fake client would encode and decode each object.
type cached struct {
	client.Reader
	functions []v2.AcceleratorFunction
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if l, ok := list.(*v2.AcceleratorFunctionList); ok {
		l.Items = slices.Clone(c.functions)
	}
	return nil
}

func manyMappings(n int) *cached {
	c := &cached{}
	for i := range n {
		c.functions = append(c.functions, *function("lab", fmt.Sprintf("f%04d", i), iface, afuA, []string{"af", "region"}[i%2]))
	}
	return c
}

// busyPod returns a pod that is larger than most pods that request cards.
func busyPod(containers int) string {
	var all []string
	for i := range containers {
		parts := []string{fmt.Sprintf("%s/f%04d=2", domain, 2*(i%4)+1), "cpu=1", valueFrom}
		for v1 := range 20 {
			parts = append(parts, v(fmt.Sprintf("VAR_%d", v1), strings.Repeat("x", 40)))
		}
		all = append(all, container(fmt.Sprintf("c%d", i), parts...))
	}
	return pod(all...)
}

// atRate calls send rate times a second, from a pool of goroutines. It returns the sorted times from
// the scheduled time of a call to its end.
func atRate(rate int, lasts time.Duration, send func()) []time.Duration {
	times := make([]time.Duration, int(lasts.Seconds())*rate)
	begin := time.Now()
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / time.Duration(rate)) }
	calls := make(chan int, len(times)) // buffered, so that the schedule never waits
	var pool sync.WaitGroup
	for range 100 {
		pool.Go(func() {
			for i := range calls {
				send()
				times[i] = time.Since(due(i))
			}
		})
	}
	for i := range times {
		time.Sleep(time.Until(due(i)))
		calls <- i
	}
	close(calls)
	pool.Wait()
	slices.Sort(times)
	return times
}
