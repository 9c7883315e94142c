package apiserver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
	"b-com.com/accelerator-device-plugin/test/task"
)

// rig is a simulated API server and a client that follows its node "worker-3".
type rig struct {
	*simapiserver.Server
	account string // the service account's directory
	logs    *observer.ObservedLogs
	end     func() // stops FollowNode and waits for it

	mu    sync.Mutex
	calls []apiserver.Node // arguments that changed was called with
	poke  chan struct{}

	refusals atomic.Int32 // number of calls to refused
}

const name = "worker-3"

// follow starts FollowNode. Pass a network in a bubble, or a nil listener to use TCP.
func follow(t *testing.T, listener *network, prepare func(*rig)) *rig {
	t.Helper()
	r := &rig{account: t.TempDir(), poke: make(chan struct{}, 1000)}
	config := apiserver.Config{ServiceAccount: r.account}
	if listener == nil {
		r.Server = simapiserver.Start(nil)
	} else {
		r.Server = simapiserver.Start(listener)
		config.Dial = listener.dial
	}
	t.Cleanup(r.Close)
	r.write(t, "ca.crt", string(r.CA()))
	r.write(t, "token", "token-1\n")
	prepare(r)

	core, logs := eventtest.Observed(t)
	r.logs = logs
	config.LookupEnv = inPod(t, r.Address())
	client := must.Value(apiserver.Open(config, zap.New(core)))(t)
	r.end = task.Run(t, func(ctx context.Context) error { return client.FollowNode(ctx, name, r.changed, r.refused) })
	return r
}

func (r *rig) changed(n apiserver.Node) {
	if !r.mu.TryLock() {
		panic("changed is called concurrently")
	}
	defer r.mu.Unlock()
	r.calls = append(r.calls, n)
	r.poke <- struct{}{}
}

func (r *rig) refused() { r.refusals.Add(1) }

// expect compares the arguments of all calls to changed.
func (r *rig) expect(t *testing.T, want ...apiserver.Node) {
	t.Helper()
	synctest.Wait()
	r.same(t, want)
}

func (r *rig) same(t *testing.T, want []apiserver.Node) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	compare.Values(t, "calls of changed", want, r.calls)
}

// lines returns the events of the log lines at level info and above.
func (r *rig) lines() []string {
	var lines []string
	for _, l := range r.logs.All() {
		if l.Level > zap.DebugLevel {
			lines = append(lines, l.ContextMap()["event"].(string))
		}
	}
	return lines
}

func (r *rig) write(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(r.account, file), []byte(text), 0o600))
}

func inPod(t *testing.T, address string) func(string) (string, bool) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	must.Succeed(t, err)
	return func(variable string) (string, bool) {
		value, ok := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[variable]
		return value, ok
	}
}

func node(uid string, annotations ...string) apiserver.Node {
	n := apiserver.Node{Name: name, UID: uid, Exists: true, Annotations: map[string]string{}}
	for pair := range slices.Chunk(annotations, 2) {
		n.Annotations[pair[0]] = pair[1]
	}
	return n
}

var absent = apiserver.Node{Name: name}

// network is an in-process listener that can stop the traffic on its connections.
type network struct {
	*pipes.Listener
	muted atomic.Int32 // connections up to this number don't transfer any data
	count atomic.Int32
	open  atomic.Int32 // connections that the client hasn't closed
}

func newNetwork() *network { return &network{Listener: pipes.Listen(0)} }

func (p *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	p.open.Add(1)
	return &mutable{Conn: conn, of: p, number: p.count.Add(1)}, nil
}

// mute makes all current connections drop their data.
func (p *network) mute() { p.muted.Store(p.count.Load()) }

type mutable struct {
	net.Conn
	of     *network
	number int32
	once   sync.Once
}

func (d *mutable) Close() error {
	d.once.Do(func() { d.of.open.Add(-1) })
	return d.Conn.Close()
}

func (d *mutable) Read(b []byte) (int, error) {
	for {
		n, err := d.Conn.Read(b)
		if err != nil || d.number > d.of.muted.Load() {
			return n, err
		}
	}
}

func (d *mutable) Write(b []byte) (int, error) {
	if d.number > d.of.muted.Load() {
		return d.Conn.Write(b)
	}
	return len(b), nil
}

// after advances the fake time by d, and waits until all other goroutines are blocked.
func after(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}
