package apiserver_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
)

// herdSize is the number of nodes of the cluster in these tests.
const herdSize = 200

// herd runs FollowNode for all nodes of a cluster against one server at the same time. It
// returns, for each node, the time from the start until the node's request with this number,
// counted from 1.
func herd(t *testing.T, number int, serve http.HandlerFunc) (arrived []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		listener, start := newNetwork(), time.Now()
		var mu sync.Mutex
		requests, all := map[string]int{}, make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			node := r.FormValue("fieldSelector")
			if requests[node]++; requests[node] == number {
				if arrived = append(arrived, time.Since(start)); len(arrived) == herdSize {
					close(all)
				}
			}
			mu.Unlock()
			serve(w, r)
		})}
		var served, followers sync.WaitGroup
		served.Go(func() { _ = server.Serve(listener) })
		defer served.Wait()
		defer server.Close()
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(kubeconfig("server: 'http://127.0.0.1:6443'", "")), 0o600); err != nil {
			t.Fatal(err)
		}
		client, err := apiserver.Open(apiserver.Config{Kubeconfig: path, Dial: listener.dial}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		for i := range herdSize {
			followers.Go(func() {
				if err := client.FollowNode(t.Context(), fmt.Sprint("worker-", i), func(apiserver.Node) {}, func() {}); err != nil {
					t.Error(err)
				}
			})
		}
		<-all
		t.Cleanup(followers.Wait) // after the test's context has ended
	})
	return arrived
}

// spread fails the test unless all requests arrived evenly between begin and end: in each
// tenth of that time 20 are expected, with a standard deviation of 4.2.
func spread(t *testing.T, arrived []time.Duration, begin, end time.Duration) {
	t.Helper()
	var tenths [10]int
	for _, at := range arrived {
		if at < begin || at > end {
			t.Errorf("arrival: found %s, want %s to %s", at, begin, end)
			continue
		}
		tenths[min(9, 10*(at-begin)/(end-begin))]++
	}
	for i, n := range tenths {
		if n < 1 || n > 55 {
			t.Errorf("found %d of %d arrivals in tenth %d of %s to %s: %v", n, herdSize, i, begin, end, tenths)
		}
	}
}

// Nodes with the same Retry-After do not return at the same time, and none returns earlier.
func TestHerdRetryAfter(t *testing.T) {
	arrived := herd(t, 2, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	spread(t, arrived, 10*time.Second, 15*time.Second)
}

// All watches end when a server stops, and do not begin again at the same time.
func TestHerdWatchEnds(t *testing.T) {
	arrived := herd(t, 3, func(w http.ResponseWriter, r *http.Request) { // a list, a watch, and the next one
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") == "" {
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},"items":[]}`)
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	spread(t, arrived, time.Minute, time.Minute+time.Second)
}
