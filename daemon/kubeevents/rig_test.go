package kubeevents_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
	"b-com.com/accelerator-device-plugin/test/task"
)

const (
	node     = "worker-3"
	resource = "b-com.com/accelerator"
)

// source is an inventory whose snapshots are set by the test.
type source struct {
	*latest.Value[inventory.Snapshot]
}

func newSource() source { return source{latest.New(inventory.Snapshot{})} }

func (s source) Latest() (inventory.Snapshot, <-chan struct{}) { return s.Load() }

func (s source) publish(complete bool, devices ...*inventory.Device) {
	slices.SortFunc(devices, func(a, b *inventory.Device) int { return strings.Compare(a.ID, b.ID) })
	s.Update(func(last inventory.Snapshot) inventory.Snapshot {
		return inventory.Snapshot{Version: last.Version + 1, Devices: devices, Complete: complete, Generation: last.Generation}
	})
}

// generation starts a new generation, so that later snapshots belong to another mode.
func (s source) generation() {
	s.Update(func(last inventory.Snapshot) inventory.Snapshot { last.Generation++; return last })
}

// device returns a device with these reasons. A reason makes it unhealthy unless it is written as degraded:NAME.
func device(id string, reasons ...string) *inventory.Device {
	card, _, _ := strings.Cut(id, "-")
	d := &inventory.Device{ID: id, OfferedAs: resource, PCIAddress: "0000:" + card}
	for _, reason := range reasons {
		name, mild := strings.CutPrefix(reason, "degraded:")
		d.Reasons = append(d.Reasons, name)
		if d.Health = max(d.Health, inventory.Degraded); !mild {
			d.Health = inventory.Unhealthy
		}
	}
	return d
}

// rig is an API server and a recorder that writes to it.
type rig struct {
	*simapiserver.Server
	source
	t        *testing.T
	pipes    *pipes.Listener
	config   apiserver.Config
	recorder *kubeevents.Recorder
	logs     *observer.ObservedLogs
	missing  *latest.Value[[]ledger.Missing]
	end      func() // stops Run and Follow and waits for them

	mu       sync.Mutex
	cordons  []cordon.Cordon // must not change after a snapshot has been published
	held     map[string][]inventory.Holding
	asking   error         // the error when asked about holders
	slow     time.Duration // how long it takes to answer about holders
	results  map[string]int
	failures int
}

// story runs tell in a bubble with a running recorder.
func story(t *testing.T, tell func(*rig), prepare ...func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { tell(start(t, prepare...)) })
}

// storyOf is like story, but runs tell as a subtest.
func storyOf(t *testing.T, name string, tell func(*rig), prepare ...func(*rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { story(t, tell, prepare...) })
}

func start(t *testing.T, prepare ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, source: newSource(), pipes: pipes.Listen(0), missing: latest.New[[]ledger.Missing](nil), held: map[string][]inventory.Holding{}, results: map[string]int{}}
	r.Server = simapiserver.Start(r.pipes)
	t.Cleanup(r.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, os.WriteFile(path, r.Kubeconfig(), 0o600))
	r.config = apiserver.Config{Kubeconfig: path, Dial: r.pipes.Dial, Failed: func() { r.locked(func() { r.failures++ }) }}
	for _, p := range prepare {
		p(r)
	}
	r.run()
	return r
}

// run starts a recorder, as a daemon does at startup.
func (r *rig) run() {
	r.t.Helper()
	core, logs := eventtest.Observed(r.t)
	r.logs = logs
	client := must.Value(apiserver.Open(r.config, zap.New(core)))(r.t)
	r.recorder = kubeevents.New(kubeevents.Config{
		Node: node, Client: client, Cordon: func(device string, members ...string) *cordon.Cordon {
			return cordon.Find(r.cordons, device, members...)
		},
		Missing: r.missing.Load, Count: func(result string) { r.locked(func() { r.results[result]++ }) },
	}, zap.New(core))
	end := task.Run(r.t, r.recorder.Run)
	unfollow := task.Run(r.t, func(ctx context.Context) error { return r.recorder.Follow(ctx, r.source, r.holders) })
	r.end = func() {
		unfollow()
		end()
	}
}

func (r *rig) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *rig) holders(context.Context) inventory.Holdings {
	var takes time.Duration
	r.locked(func() { takes = r.slow })
	time.Sleep(takes) // fake time
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asking != nil {
		return inventory.Holdings{Err: r.asking}
	}
	return inventory.Holdings{Of: maps.Clone(r.held)}
}

// hold sets a device's holders, each as NAMESPACE/POD/CONTAINER.
func (r *rig) hold(id string, holders ...string) {
	r.locked(func() { r.held[id] = []inventory.Holding{{As: resource, Holders: holders}} })
}

var errNoAnswer = errors.New("no answer")

// after advances the fake time by d, and waits until all other goroutines are blocked.
func after(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}

// shows publishes a list and waits until its Events have been written.
func (r *rig) shows(devices ...*inventory.Device) {
	r.publish(true, devices...)
	after(30 * time.Second)
}

// short formats an Event without its message.
func short(e simapiserver.Event) string {
	text, _, _ := strings.Cut(e.String(), " "+e.Message)
	return text
}

// events compares the API server's Events, without their messages.
func (r *rig) events(when string, want ...string) {
	r.t.Helper()
	compare.Values(r.t, fmt.Sprintf("%s: events", when), want, r.each(short))
}

// each formats the API server's Events.
func (r *rig) each(format func(simapiserver.Event) string) (all []string) {
	for _, e := range r.Events() {
		all = append(all, format(e))
	}
	return all
}

// counted compares the results that Count was called with.
func (r *rig) counted(want map[string]int) {
	r.t.Helper()
	r.locked(func() { compare.Values(r.t, "counted", want, r.results) })
}

// lines returns the event names of the log lines at level info and above.
func (r *rig) lines() []string {
	var lines []string
	for _, l := range r.logs.All() {
		if l.Level > zap.DebugLevel {
			lines = append(lines, l.ContextMap()["event"].(string))
		}
	}
	return lines
}

// logged compares the events that were logged.
func (r *rig) logged(want ...string) {
	r.t.Helper()
	compare.Values(r.t, "log", want, r.lines())
}
