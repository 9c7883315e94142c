package admission_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/test/must"
)

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

// BenchmarkRate sends 200 requests a second for ten seconds over TLS to controller-runtime's server.
// Requests are sent on schedule, without waiting for earlier answers, as an API server does. A
// latency is measured from the scheduled time of a request.
func BenchmarkRate(b *testing.B) {
	for _, mappings := range []int{20, 1000} {
		b.Run(fmt.Sprintf("mappings=%d", mappings), func(b *testing.B) {
			url, c := serve(b, admission.NewHandler(manyMappings(mappings), nil, domain, nil, zap.NewNop()))
			body := review(b, request("lab", toJSON(b, busyPod(2))))
			for b.Loop() {
				times := atRate(200, 10*time.Second, func() {
					resp, err := c.Post(url, "application/json", bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					defer resp.Body.Close()
					if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(got, []byte(`"allowed":true`)) || !bytes.Contains(got, []byte(`"patch":`)) {
						b.Errorf("%v, status %d: %s", err, resp.StatusCode, got)
					}
				})
				for unit, at := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
					b.ReportMetric(float64(times[int(at*float64(len(times)-1))].Microseconds())/1000, unit)
				}
			}
		})
	}
}

// serve starts a webhook, and returns its URL and a client that trusts it.
func serve(b *testing.B, h ctrladmission.Handler) (string, *http.Client) {
	trust := httptest.NewUnstartedServer(nil) // provides a certificate, and a client that trusts it
	trust.EnableHTTP2 = true
	trust.StartTLS()
	b.Cleanup(trust.Close)
	listener := must.Value(net.Listen("tcp", "127.0.0.1:0"))(b)
	address := listener.Addr().(*net.TCPAddr)
	listener.Close()
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "127.0.0.1", Port: address.Port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &trust.TLS.Certificates[0], nil }
	}}})
	server.Register("/pods", &ctrladmission.Webhook{Handler: h})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Start(ctx) }()
	c := trust.Client()
	b.Cleanup(func() {
		c.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	for server.StartedChecker()(nil) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Sprintf("https://%s/pods", address), c
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
