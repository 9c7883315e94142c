package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
)

// While clients send nothing, or half a request, the daemon's memory and descriptors stay
// bounded, probes are answered, and the kubelet gets its lists.
func TestHalfOpenClients(t *testing.T) {
	const clients = 2000
	r, node, kubelet := serveBinary(t)
	address := r.Await("http.served")["address"].(string)
	if err := node.Plug(cardB); err != nil {
		t.Fatal(err)
	}
	r.Await("stream.opened")
	for _, path := range []string{"/metrics", "/devices", "/healthz"} { // the memory for the first answers does not count
		if _, code := cmdtest.Get(t, "http://"+address+path); code != 200 {
			t.Fatalf("%s = %d, want 200", path, code)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	memory, descriptors := r.resident(), r.descriptors()

	var conns []net.Conn
	flooded := make(chan error, 1)
	go func() {
		defer close(flooded)
		for i := range clients {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				flooded <- fmt.Errorf("connection %d: %w", i, err)
				return
			}
			conns = append(conns, conn)
			if i%2 == 0 {
				fmt.Fprint(conn, "GET /devices HTTP/1.1\r\nHost: ") // fails if the daemon has closed the connection
			}
		}
	}()
	t.Cleanup(func() {
		for range flooded {
		}
		for _, conn := range conns {
			conn.Close()
		}
	})
	probe := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answered := func() {
		t.Helper()
		begin := time.Now()
		answer, err := probe.Get("http://" + address + "/healthz")
		if err != nil {
			t.Fatalf("/healthz after %s: %v", time.Since(begin), err)
		}
		answer.Body.Close()
		if answer.StatusCode != 200 {
			t.Errorf("/healthz = %d, want 200", answer.StatusCode)
		}
	}
	for over := false; !over; {
		select {
		case err := <-flooded:
			if over = true; err != nil {
				t.Fatal(err)
			}
		default:
			answered()
		}
	}
	answered()
	if grown := r.resident() - memory; grown >= 8<<10 {
		t.Errorf("resident memory grew by %d KiB from %d, want less than 8 MiB", grown, memory)
	} else {
		t.Logf("resident memory grew by %d KiB from %d; descriptors %d, before %d", grown, memory, r.descriptors(), descriptors)
	}
	// One more is accepted, and the daemon may be reading a card.
	if n := r.descriptors(); n > descriptors+80 {
		t.Errorf("found %d descriptors, want about 64 more than %d", n, descriptors)
	}
	if err := node.Set(cardB.Address, 0, "errors/errors", "0x4000000000000"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := kubelet.AwaitList(ctx, testResource, func(l simkubelet.List) bool { return len(l.Devices) == 1 && !l.Devices[0].Healthy }); err != nil {
		t.Error(err)
	}
}

// resident returns the resident memory of the daemon in KiB.
func (r *running) resident() int {
	r.T.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", r.Process.Pid))
	if err != nil {
		r.T.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, " kB")))
			if err != nil {
				r.T.Fatal(err)
			}
			return n
		}
	}
	r.T.Fatal("found no VmRSS in /proc/PID/status")
	return 0
}

// descriptors returns the number of the daemon's open descriptors.
func (r *running) descriptors() int {
	r.T.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.Process.Pid))
	if err != nil {
		r.T.Fatal(err)
	}
	return len(all)
}

// The kubelet is asked at most once a second, for any number of requests for /devices.
func TestManyReadersOfDevices(t *testing.T) {
	socket := cmdtest.ShortDir(t) + "/kubelet.sock"
	pods, err := simkubelet.StartPodResources(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	pods.Hold("default", "pod", "main", testResource, "5e:00.0")
	r, node, _ := serveBinary(t, "--pod-resources-socket", socket)
	address := "http://" + r.Await("http.served")["address"].(string)
	if err := node.Plug(cardB); err != nil {
		t.Fatal(err)
	}
	r.Await("stream.opened")
	before, begin := pods.Asked(), time.Now()
	for range 300 {
		text, code := cmdtest.Get(t, address+"/devices")
		if got := cmdtest.HoldersIn(t, text); code != 200 || got != "default/pod/main" {
			t.Fatalf("/devices = %d, held by %q, want 200, default/pod/main", code, got)
		}
	}
	// The inventory also asks, at changes and every 10 s.
	if asked, most := pods.Asked()-before, 10+int(time.Since(begin)/time.Second); asked > most {
		t.Errorf("300 GETs of /devices in %s asked the kubelet %d times, want at most %d", time.Since(begin), asked, most)
	} else {
		t.Logf("300 GETs of /devices in %s asked the kubelet %d times", time.Since(begin), asked)
	}
}

// A name of a foreign site that resolves to 127.0.0.1 is refused.
func TestForeignHost(t *testing.T) {
	r, _, _ := serveBinary(t)
	address := r.Await("http.served")["address"].(string)
	for host, want := range map[string]int{"attacker.example": 421, "localhost:1": 200} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/devices", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("/devices of host %s = %d, want %d", host, answer.StatusCode, want)
		}
	}
}
