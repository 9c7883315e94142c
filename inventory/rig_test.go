package inventory_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
)

const (
	cardA = "0000:3b:00.0"
	cardB = "0001:5e:00.0"
	afu1  = "d8424dc4a4a3c413f89e433683f9040b"
	afu2  = "f7df405cbd7acf7222f144b0b93acd18"
)

// fakeFamily is a family whose cards are defined in memory by the test.
type fakeFamily struct {
	name string

	mu      sync.Mutex
	cards   map[string]inventory.Reading
	fails   map[string]error
	hangs   map[string]chan struct{}
	late    map[string]chan struct{}
	listErr error
	reads   map[string]int
	onRead  func() // called once, during the next reading, with mu held
}

func newFakeFamily(name string) *fakeFamily {
	return &fakeFamily{
		name: name, cards: map[string]inventory.Reading{}, fails: map[string]error{},
		hangs: map[string]chan struct{}{}, late: map[string]chan struct{}{}, reads: map[string]int{},
	}
}

// oneCard returns a family with card A, which has these ports, or a healthy one if none are given.
func oneCard(ports ...inventory.Unit) *fakeFamily {
	f := newFakeFamily("dfl")
	if ports == nil {
		ports = []inventory.Unit{good(0, 0)}
	}
	f.set(cardA, ports...)
	return f
}

func twoCards() *fakeFamily {
	f := oneCard()
	f.set(cardB, good(1, 0))
	return f
}

func (b *fakeFamily) Name() string               { return b.name }
func (b *fakeFamily) Signals() inventory.Signals { return inventory.Signals{} }
func (b *fakeFamily) Rows() []inventory.Row      { return nil }

func (b *fakeFamily) Cards(sysfs.Host) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.cards)), b.listErr
}

func (b *fakeFamily) Read(_ sysfs.Host, card string) (inventory.Reading, error) {
	b.mu.Lock()
	b.reads[card]++
	if b.onRead != nil {
		b.onRead()
		b.onRead = nil
	}
	hang := b.hangs[card]
	b.mu.Unlock()
	if hang != nil {
		<-hang
	}
	b.mu.Lock()
	late, err := b.late[card], b.fails[card]
	r, ok := b.cards[card]
	b.mu.Unlock()
	if late != nil {
		<-late
	}
	switch {
	case err != nil:
		return inventory.Reading{}, err
	case !ok:
		return r, fmt.Errorf("card %s: %w", card, fs.ErrNotExist)
	}
	return r, nil
}

func (b *fakeFamily) Outline(_ sysfs.Host, card string) (inventory.Reading, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.cards[card]
	if !ok {
		return r, fmt.Errorf("card %s: %w", card, fs.ErrNotExist)
	}
	var ports []inventory.Unit
	for _, p := range r.Units {
		ports = append(ports, inventory.Unit{Name: p.Name, Incarnation: p.Incarnation, Facts: inventory.Facts{PortID: -1, NUMANode: -1, Nodes: p.Nodes}})
	}
	return inventory.Reading{Units: ports}, nil
}

func (b *fakeFamily) locked(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *fakeFamily) set(card string, ports ...inventory.Unit) {
	b.locked(func() { b.cards[card] = inventory.Reading{Units: ports} })
}

func (b *fakeFamily) pull(card string)            { b.locked(func() { delete(b.cards, card) }) }
func (b *fakeFamily) fail(card string, err error) { b.locked(func() { b.fails[card] = err }) }

func (b *fakeFamily) hang(card string) (release func()) {
	c := make(chan struct{})
	b.locked(func() { b.hangs[card] = c })
	return func() {
		b.unhang(card)
		close(c)
	}
}

// delay holds back the results of reading a card until release is called.
func (b *fakeFamily) delay(card string) (release func()) {
	c := make(chan struct{})
	b.locked(func() { b.late[card] = c })
	return func() {
		b.locked(func() { delete(b.late, card) })
		close(c)
	}
}

// unhang makes new readings succeed. Readings that are already hanging still hang.
func (b *fakeFamily) unhang(card string) { b.locked(func() { delete(b.hangs, card) }) }

// good returns a healthy port that has the driver's number n.
func good(n, id int, bad ...inventory.Condition) inventory.Unit {
	return inventory.Unit{
		Name: fmt.Sprintf("dfl-port.%d", n), Incarnation: uint64(100 + n),
		Facts: inventory.Facts{PortID: id, AFUID: afu1, NUMANode: -1, Nodes: []string{fmt.Sprintf("dfl-port.%d", n)}}, PortIDKnown: true, AFUIDKnown: true, InterfaceIDKnown: true,
		Files: []inventory.HealthFile{
			{Name: "afu_id", Lost: inventory.Unhealthy}, {Name: "errors/errors", Lost: inventory.Unhealthy},
		},
		Conditions: bad,
	}
}

var (
	ap6     = inventory.Condition{Reason: "port-ap6", Health: inventory.Unhealthy}
	unbound = inventory.Condition{Reason: inventory.ReasonDriverUnbound, Health: inventory.Unhealthy}
	busy    = inventory.Condition{Reason: "reprogramming", Health: inventory.Degraded, Passing: true}
)

// rig is an inventory running in a synctest bubble.
type rig struct {
	*inventory.Inventory
	families []inventory.Family
	t        *testing.T
	family   *fakeFamily
	logs     *observer.ObservedLogs
}

var testConfig = inventory.Config{
	ResyncInterval: time.Minute, HealthInterval: 5 * time.Second, RecoveryHold: 10 * time.Second,
	ReprogramTimeout: time.Minute, ReadTimeout: 2 * time.Second, Metrics: metrics.New("test"),
}

// start runs an inventory with these families until the test ends.
func start(t *testing.T, cfg inventory.Config, family *fakeFamily, more ...inventory.Family) *rig {
	return startOn(t, sysfs.Host{}, cfg, family, more...)
}

func startOn(t *testing.T, host sysfs.Host, cfg inventory.Config, family *fakeFamily, more ...inventory.Family) *rig {
	return startFamilies(t, host, cfg, family, append([]inventory.Family{family}, more...)...)
}

// startFamilies runs an inventory with families. One of them is family or contains it.
func startFamilies(t *testing.T, host sysfs.Host, cfg inventory.Config, family *fakeFamily, families ...inventory.Family) *rig {
	t.Helper()
	core, logs := eventtest.Observed(t)
	cfg.Policy.Families = families
	inv, _ := runInventory(t, host, cfg, core)
	return &rig{inv, families, t, family, logs}
}

// runInventory runs an inventory until stop is called or the test ends.
func runInventory(t *testing.T, host sysfs.Host, cfg inventory.Config, core zapcore.Core) (inv *inventory.Inventory, stop func()) {
	inv = inventory.New(cfg, host, zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- inv.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		compare.NoError(t, "Run", <-done)
	})
	t.Cleanup(stop)
	synctest.Wait()
	return inv, stop
}

// Use replaces the policy but keeps the families.
func (r *rig) Use(p inventory.Policy) {
	p.Families = r.families
	r.Inventory.Use(p)
}

// hint sends a hint and waits until all goroutines are blocked.
func (r *rig) hint(card string) {
	r.Hint(inventory.Hint{Card: card, Source: "test", At: time.Now()})
	synctest.Wait()
}

// hintNode sends a hint for a device node and waits until all goroutines are blocked.
func (r *rig) hintNode(node string) {
	r.Hint(inventory.Hint{Node: node, Source: "test", At: time.Now()})
	synctest.Wait()
}

func (r *rig) after(d time.Duration) {
	time.Sleep(d) // in the bubble, this doesn't take any real time
	synctest.Wait()
}

// states returns the health and reasons of the devices in the latest snapshot, by ID.
func (r *rig) states() map[string]string {
	s, _ := r.Latest()
	m := map[string]string{}
	for _, d := range s.Devices {
		m[d.ID] = fmt.Sprintf("%s%s", d.Health, d.Reasons)
	}
	return m
}

func (r *rig) want(when string, want map[string]string) {
	r.t.Helper()
	compare.Values(r.t, fmt.Sprintf("%s: devices", when), want, r.states())
}

// set changes what is read from a card, and sends a hint for it.
func (r *rig) set(card string, units ...inventory.Unit) {
	r.family.set(card, units...)
	r.hint(card)
}

// pull removes a card and sends a hint for it.
func (r *rig) pull(card string) {
	r.family.pull(card)
	r.hint(card)
}

// withCard runs a test in a bubble, with an inventory that has card A with a healthy port.
func withCard(t *testing.T, cfg inventory.Config, f func(*testing.T, *rig, *fakeFamily)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		family := oneCard()
		f(t, start(t, cfg, family), family)
	})
}

// withKubeletAndCard is like withCard, but with holders.
func withKubeletAndCard(t *testing.T, f func(*testing.T, *rig, *fakeFamily, *fakeKubelet)) {
	t.Helper()
	d := newFakeKubelet()
	withCard(t, withKubelet(d), func(t *testing.T, r *rig, family *fakeFamily) { f(t, r, family, d) })
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// runInBubble runs a subtest in a synctest bubble.
func runInBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, f) })
}
