package sensors

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

const (
	overdueAfter = 10 * time.Second // maximum duration of a reading
	mostReadings = 4                // maximum number of concurrent readings, not counting overdue ones
	leaveAfter   = time.Second      // how long Run waits for readings before returning
)

// Values of the sensors setting.
const (
	None = "none"
	Main = "main" // the sensors needed for the summary
	All  = "all"
)

// Settings says what to read.
type Settings struct {
	Which    string        // None, Main or All
	Interval time.Duration // time between readings of a card; 0 means off
}

// Config says where [Sensors] gets its data from.
type Config struct {
	Host    sysfs.Host
	Devices interface { // an inventory
		Latest() (inventory.Snapshot, <-chan struct{})
	}
	// Settings returns the current settings and a channel that is closed when they may have changed. It must not block.
	Settings func() (Settings, <-chan struct{})
}

// Card holds a card's newest values.
type Card struct {
	Summary []sensors.Reading
	All     []sensors.Reading // nil with [Main]
	// Failures counts sensor reads that have failed since startup, and overdue readings.
	Failures int
	// PCI is the state of the card's PCI function. It is read even for cards whose sensors aren't read.
	PCI
	Firmware sensors.Firmware
}

// PCI is the state of a PCI function. Unknown fields are zero.
type PCI struct {
	Link        sysfs.Link
	Correctable map[string]uint64 // as returned by [sysfs.ParseCorrectable]; must not be modified
}

// Sensors reads a node's sensors. Create it with [New], and run it once.
type Sensors struct {
	cfg    Config
	log    *zap.Logger
	read   func(address string, k kept, what scope) outcome
	table  atomic.Pointer[map[string]Card]
	cards  map[string]*card // by PCI address
	queue  []*card          // cards to be read
	busy   int              // readings in progress that aren't overdue
	tasks  sync.WaitGroup
	result chan result
}

// card is the state of one card. Only Run uses it.
type card struct {
	address string
	wanted  bool // the newest devices and settings include the card
	what    scope
	queued  bool
	started time.Time // when the reading in progress started; zero if there is none
	overdue bool
	discard bool // the result of the reading in progress won't be used
	kept    kept
	failing time.Time // when the card's readings started to fail; zero if they succeed
	shown   Card
}

type result struct {
	card *card
	what scope
	outcome
}

// scope is how much of a card is read.
type scope uint8

const (
	onlyPCI scope = iota
	main
	all
)

// New returns Sensors without any values.
func New(cfg Config, log *zap.Logger) *Sensors {
	s := &Sensors{cfg: cfg, log: log.Named("sensors"), cards: make(map[string]*card), result: make(chan result)}
	s.read = (&devices{host: cfg.Host}).read
	s.table.Store(&map[string]Card{})
	return s
}

// Latest returns the newest values of the cards on the node, keyed by PCI address (DDDD:BB:DD.F). It doesn't block and
// is safe for concurrent use.
func (s *Sensors) Latest() map[string]Card {
	present := make(map[string]Card)
	all := *s.table.Load()
	if len(all) == 0 {
		return present
	}
	snapshot, _ := s.cfg.Devices.Latest()
	for _, d := range snapshot.Devices {
		address := CardOf(d)
		if c, ok := all[address]; ok {
			present[address] = c
		}
	}
	return present
}

// CardOf returns the PCI address of a device's physical card. It returns "" if the device has no card, or if the card
// has left and is only listed because a container may hold it.
func CardOf(d *inventory.Device) string {
	if slices.Contains(d.Reasons, inventory.ReasonRemoved) || slices.Contains(d.Reasons, inventory.ReasonRemovedInUse) {
		return ""
	}
	if physical := d.Attributes[inventory.AttributePhysicalFunction]; physical != "" {
		return physical
	}
	return d.PCIAddress
}

// Run reads the cards' sensors at regular intervals until ctx is done, and then returns nil.
func (s *Sensors) Run(ctx context.Context) error {
	defer s.await()
	var last Settings
	var due time.Time // when the next readings are due; zero means immediately
	for {
		settings, changed := s.cfg.Settings()
		if settings != last {
			last, due = settings, time.Time{}
		}
		snapshot, stale := s.cfg.Devices.Latest()
		now, next := time.Now(), time.Time{}
		switch {
		case settings.Which == None || settings.Interval == 0:
			s.retain(nil)
			stale = nil
		case !snapshot.Complete:
		case now.Before(due):
			s.retain(wanted(snapshot.Devices, settings))
			next = due
		default:
			due = now.Add(settings.Interval)
			s.request(wanted(snapshot.Devices, settings))
			next = due
		}
		s.expire(now)
		s.start(ctx, now)
		var wake <-chan time.Time
		if next = s.next(next); !next.IsZero() {
			wake = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-stale: // nil if no cards are read
		case <-wake:
		case r := <-s.result:
			s.take(r)
		}
	}
}

// wanted returns what to read from the cards of the given devices, keyed by the card's PCI address.
func wanted(devices []*inventory.Device, settings Settings) map[string]scope {
	wanted := make(map[string]scope)
	for _, d := range devices {
		what := onlyPCI
		switch {
		case d.Unwanted():
			continue
		case settings.Which == All && d.Family != "vfio" && d.Family != "aws":
			what = all
		case d.Family == "dfl" || d.Family == "opae":
			what = main
		}
		wanted[CardOf(d)] = max(wanted[CardOf(d)], what)
	}
	delete(wanted, "")
	return wanted
}

// request queues the wanted cards and forgets the others. A card whose previous reading hasn't returned yet isn't
// queued; if that reading is overdue, request counts another failure.
func (s *Sensors) request(wanted map[string]scope) {
	for _, address := range slices.Sorted(maps.Keys(wanted)) {
		c := s.cards[address]
		if c == nil {
			c = &card{address: address}
			s.cards[address] = c
		}
		c.what, c.wanted = wanted[address], true
		switch {
		case c.overdue:
			c.shown.Failures++
		case c.started.IsZero() && !c.queued:
			c.queued = true
			s.queue = append(s.queue, c)
		}
	}
	s.retain(wanted)
}

// retain forgets all cards that aren't wanted. A card must be forgotten as soon as it leaves, because by the next
// reading, there may be a different card in its slot.
func (s *Sensors) retain(wanted map[string]scope) {
	for address, c := range s.cards {
		if _, ok := wanted[address]; !ok {
			s.forget(c)
		}
	}
	s.publish()
}

// forget removes a card. If a reading of the card is in progress, its result won't be used, and no other reading is
// started until it has returned.
func (s *Sensors) forget(c *card) {
	s.queue = slices.DeleteFunc(s.queue, func(q *card) bool { return q == c })
	if c.started.IsZero() {
		delete(s.cards, c.address)
		return
	}
	*c = card{address: c.address, started: c.started, overdue: c.overdue, discard: true}
}

// start starts queued readings until mostReadings are in progress.
func (s *Sensors) start(ctx context.Context, now time.Time) {
	for len(s.queue) > 0 && s.busy < mostReadings {
		c := s.queue[0]
		s.queue = s.queue[1:]
		c.queued, c.started = false, now
		s.busy++
		address, k, what := c.address, c.kept, c.what
		s.tasks.Go(func() {
			r := result{c, what, s.read(address, k, what)}
			select {
			case s.result <- r:
			case <-ctx.Done():
			}
		})
	}
}

// expire marks overdue readings and counts them as failures.
func (s *Sensors) expire(now time.Time) {
	for _, c := range s.cards {
		if took := now.Sub(c.started); !c.started.IsZero() && !c.overdue && took >= overdueAfter {
			c.overdue = true
			s.busy--
			if c.wanted {
				s.failed(c, 1, errOverdue)
			}
			c.shown = Card{Failures: c.shown.Failures}
			s.publish()
		}
	}
}

var (
	errOverdue = errors.New("no answer within 10 s")
	errEnded   = errors.New("no answer before the end of the daemon")
)

// next returns when Run must wake up: at the given time or when the next reading becomes overdue, whichever is earlier.
// A zero time means that Run doesn't have to wake up.
func (s *Sensors) next(at time.Time) time.Time {
	for _, c := range s.cards {
		if overdue := c.started.Add(overdueAfter); !c.started.IsZero() && !c.overdue && (at.IsZero() || overdue.Before(at)) {
			at = overdue
		}
	}
	return at
}

// take records the result of a reading.
func (s *Sensors) take(r result) {
	c := r.card
	if !c.overdue {
		s.busy--
	}
	old := c.overdue || c.discard
	if c.started, c.overdue, c.discard = (time.Time{}), false, false; !c.wanted {
		delete(s.cards, c.address)
	}
	if old {
		return
	}
	c.kept = r.kept
	c.shown = Card{Summary: sensors.Summarize(r.readings), Failures: c.shown.Failures, PCI: r.pci, Firmware: r.firmware}
	if r.what == all {
		c.shown.All = r.readings
	}
	switch {
	case r.failures > 0:
		s.failed(c, r.failures, r.err)
	case !r.void && !c.failing.IsZero():
		s.log.Info("sensors read again", logevent.SensorsRead, logevent.PCI(c.address), logevent.Lasted(time.Since(c.failing)))
		c.failing = time.Time{}
	}
	s.publish()
}

// failed counts n failures for a card, and logs err unless the card's readings were failing before.
func (s *Sensors) failed(c *card, n int, err error) {
	c.shown.Failures += n
	if c.failing.IsZero() {
		c.failing = time.Now()
		s.log.Warn("sensors not read", logevent.SensorsFailed, logevent.PCI(c.address), logevent.Err(err))
	}
}

// publish publishes a new map with the cards' values.
func (s *Sensors) publish() {
	table := make(map[string]Card, len(s.cards))
	for address, c := range s.cards {
		if c.wanted {
			table[address] = c.shown
		}
	}
	s.table.Store(&table)
}

// await waits for the readings in progress, but only for leaveAfter, because a reading that hangs in the kernel can't
// be stopped.
func (s *Sensors) await() {
	done := make(chan struct{})
	go func() { s.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(leaveAfter):
		for _, address := range slices.Sorted(maps.Keys(s.cards)) {
			if c := s.cards[address]; !c.started.IsZero() {
				s.log.Warn("hung read of sensors abandoned", logevent.SensorsFailed, logevent.PCI(c.address), logevent.Err(errEnded))
			}
		}
	}
}
