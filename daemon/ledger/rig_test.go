package ledger_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/metricstest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
	"b-com.com/accelerator-device-plugin/test/task"
)

// settled is longer than a ledger waits before it reports missing cards.
const settled = 11 * time.Second

// rig is a node whose daemon can be restarted. It must be used in a synctest bubble.
type rig struct {
	*testing.T
	dir     string
	machine string
	exempt  *latest.Value[string] // address of a card that isn't expected
	onBus   atomic.Value          // address of a card whose driver is late

	ledger  *ledger.Ledger
	devices *latest.Value[inventory.Snapshot]
	logs    *observer.ObservedLogs
	end     func()
}

// onNode runs story on a node without a ledger. If a daemon is running at the end, it is stopped.
func onNode(t *testing.T, story func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, dir: privatedirtest.Dir(t), exempt: latest.New("")}
		story(r)
		r.stop()
	})
}

// start starts a daemon that finds these devices, replacing a running daemon.
func (r *rig) start(devices ...*inventory.Device) {
	r.Helper()
	r.open(inventory.Snapshot{})
	r.list(devices...)
}

// startAndSettle is like start, but also waits until the daemon has reported the missing cards.
func (r *rig) startAndSettle(devices ...*inventory.Device) {
	r.Helper()
	r.start(devices...)
	wait(settled)
}

// open starts a daemon with this first snapshot, replacing a running daemon.
func (r *rig) open(first inventory.Snapshot) {
	r.Helper()
	r.stop()
	core, logs := eventtest.Observed(r.T)
	r.logs, r.devices = logs, latest.New(first)
	r.ledger = ledger.Open(r.Context(), ledger.Config{
		Dir: r.dir, Machine: r.machine, Metrics: metrics.New("test"),
		Exempt:  func(address, _, _ string) bool { of, _ := r.exempt.Load(); return address == of },
		Changed: func() (cordons, settings <-chan struct{}) { _, cordons = r.exempt.Load(); return cordons, nil },
		OnBus:   func(address, pciID string) bool { return r.onBus.Load() == any(address) && pciID == model },
	}, zap.New(core))
	r.run()
}

// run runs the ledger until stop is called.
func (r *rig) run() {
	l, devices := r.ledger, source{r.devices}
	r.end = task.Run(r, func(ctx context.Context) error { return l.Run(ctx, devices) })
}

type source struct {
	*latest.Value[inventory.Snapshot]
}

func (s source) Latest() (inventory.Snapshot, <-chan struct{}) { return s.Load() }

// list publishes devices, which must be sorted by ID.
func (r *rig) list(devices ...*inventory.Device) {
	r.devices.Update(func(s inventory.Snapshot) inventory.Snapshot {
		return inventory.Snapshot{Version: s.Version + 1, Devices: devices, Complete: true, Generation: s.Generation}
	})
	synctest.Wait()
}

// exempts sets which card isn't expected.
func (r *rig) exempts(address string) {
	r.exempt.Store(address)
	synctest.Wait()
}

// stop stops the daemon if it is running.
func (r *rig) stop() {
	r.Helper()
	if r.end != nil {
		r.end()
	}
}

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) missing() string {
	var all []string
	cards, _ := r.ledger.Missing()
	for _, m := range cards {
		all = append(all, m.Card)
	}
	return strings.Join(all, " ")
}

// events returns the logged events with their devices.
func (r *rig) events() string {
	var all []string
	for _, l := range r.logs.TakeAll() {
		f := l.ContextMap()
		all = append(all, strings.TrimSuffix(fmt.Sprint(f["event"], " ", f["device"]), " <nil>"))
	}
	return strings.Join(all, "; ")
}

func (r *rig) expect(what, missing, events string) {
	r.Helper()
	compare.Equal(r, what+": missing", missing, r.missing())
	compare.Equal(r, what+": events", events, r.events())
}

// expectAwaited checks how many expected cards may still be found.
func (r *rig) expectAwaited(want int) {
	r.Helper()
	compare.Equal(r, "awaited cards", want, r.ledger.Awaited())
}

// expectCounts compares the cards in the metrics.
func (r *rig) expectCounts(want ...metrics.Card) {
	r.Helper()
	compare.Values(r, "metrics", want, r.ledger.Counts())
}

// expectFile checks that the file contains each of these texts, or doesn't contain it if it starts with "!".
func (r *rig) expectFile(texts ...string) {
	r.Helper()
	file := r.file()
	for _, text := range texts {
		text, not := strings.CutPrefix(text, "!")
		if strings.Contains(file, text) == not {
			r.Errorf("file %s, want it with %q: %t", file, text, !not)
		}
	}
}

// chmod sets the mode of the state directory, which must be 0700 for the directory to be used.
func (r *rig) chmod(mode os.FileMode) {
	r.Helper()
	must.Succeed(r, os.Chmod(r.dir, mode))
}

func (r *rig) file() string {
	text, err := os.ReadFile(filepath.Join(r.dir, "cards.json"))
	if err != nil {
		r.Errorf("no file: %v", err)
	}
	return string(text)
}

// expectStored checks the metric that says whether the file could be written.
func expectStored(t *testing.T, m *metrics.Metrics, want int) {
	t.Helper()
	compare.Contains(t, "metrics", fmt.Sprintf("accelerator_ledger_stored %d\n", want), metricstest.Page(t, m))
}

const model = "8086:09c4:8086:0000"

func healthy(id string) *inventory.Device { return device(id, nil) }

// broken returns a device that is unhealthy because of its hardware.
func broken(id string) *inventory.Device {
	return device(id, func(d *inventory.Device) {
		d.Health, d.Fault, d.Cause, d.Reasons = inventory.Unhealthy, true, "port-ap6", []string{"port-ap6"}
	})
}

// because returns a device that is unhealthy for reasons that say nothing about its hardware.
func because(id string, reasons ...string) *inventory.Device {
	return device(id, func(d *inventory.Device) { d.Health, d.Reasons = inventory.Unhealthy, reasons })
}

func device(id string, edit func(*inventory.Device)) *inventory.Device {
	d := &inventory.Device{ID: id, Family: "dfl", OfferedAs: "b-com.com/accelerator", Facts: inventory.Facts{PCIID: model}}
	if edit != nil {
		edit(d)
	}
	return d
}

// wasBad adds to a device what the inventory remembers about an unhealthy one.
func wasBad(d *inventory.Device) *inventory.Device {
	d.Memory = &inventory.Memory{Bad: true, Holds: []inventory.Hold{{Reason: "port-ap6", Health: inventory.Unhealthy}}}
	return d
}
