package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
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

// busyPod is larger than most pods that ask for cards.
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

func BenchmarkHandle(b *testing.B) {
	for _, mappings := range []int{20, 1000} {
		for _, containers := range []int{1, 4, 300} {
			b.Run(fmt.Sprintf("mappings=%d/containers=%d", mappings, containers), func(b *testing.B) {
				h := admission.NewHandler(manyMappings(mappings), nil, domain, nil, zap.NewNop())
				req := request("lab", toJSON(b, busyPod(containers)))
				b.ReportAllocs()
				for b.Loop() {
					if resp := h.Handle(context.Background(), req); !resp.Allowed || len(resp.Patches) == 0 {
						b.Fatal(resp.Result)
					}
				}
			})
		}
	}
}

// BenchmarkRate sends 200 requests a second over one TLS connection for five seconds, as an
// API server does, and reports their latency.
func BenchmarkRate(b *testing.B) {
	const rate, lasts = 200, 5 * time.Second
	server := httptest.NewUnstartedServer(&ctrladmission.Webhook{Handler: admission.NewHandler(manyMappings(200), nil, domain, nil, zap.NewNop())})
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c := server.Client()
	body := review(b, request("lab", toJSON(b, busyPod(2))))
	for b.Loop() {
		times := make([]time.Duration, int(lasts.Seconds()*rate))
		var all sync.WaitGroup
		ticker := time.NewTicker(time.Second / rate)
		for i := range times {
			<-ticker.C
			all.Go(func() {
				begin := time.Now()
				resp, err := c.Post(server.URL, "application/json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				defer resp.Body.Close()
				if got, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(got, []byte(`"allowed":true`)) {
					b.Errorf("%v, status %d", err, resp.StatusCode)
				}
				times[i] = time.Since(begin)
			})
		}
		all.Wait()
		ticker.Stop()
		slices.Sort(times)
		for _, p := range []struct {
			unit string
			at   float64
		}{{"p50-ms", 0.5}, {"p90-ms", 0.9}, {"p99-ms", 0.99}, {"max-ms", 1}} {
			b.ReportMetric(float64(times[min(len(times)-1, int(p.at*float64(len(times))))].Microseconds())/1000, p.unit)
		}
	}
}
