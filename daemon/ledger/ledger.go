package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

const (
	settle     = 10 * time.Second // time from the first complete list until cards are missing: drivers may still find them
	pace       = time.Second      // least time between two writes
	retry      = time.Minute      // time between two writes that fail
	busy       = 5 * time.Second  // time between two attempts while another daemon writes the file
	diskWithin = 5 * time.Second  // longest time of one use of the state directory; more: the file system hangs
	endWithin  = time.Second      // the same at the end of the daemon
)

// Config holds the settings of a [Ledger].
type Config struct {
	Dir     string // the state directory; "": nothing is stored
	Machine string // id of the machine; "": not known
	// Exempt reports whether nobody expects a card now, because it is cordoned or excluded, or its family is off. nil:
	// each card is expected. It must not block.
	Exempt  func(address, family string) bool
	Metrics *metrics.Metrics // required
}

// Missing is a card that was present when the node was last observed, and has been absent since a start.
type Missing struct {
	Card  string    // PCI address as lspci prints it: 3b:00.0
	Since time.Time // when it was first found to be missing
	Model string    // VVVV:DDDD:SSSS:SSSS, vendor, device and subsystem; "" if not known
}

// Ledger remembers the cards of a node. Create it with [Open], and run it once.
type Ledger struct {
	cfg     Config
	log     *zap.Logger
	disk    *privatedir.Turns
	missing *latest.Value[[]Missing]
	touched latest.Signal // raised by Forget

	// Of the function that uses the disk.
	lock   *privatedir.Lock // nil: not taken yet
	unread bool             // there may be a file that could not be read

	// Of Run.
	last  inventory.Snapshot          // the last one that was observed
	known map[string]inventory.Health // health of the hardware of a device that has been well since it was listed, by id
	fault string                      // the error that was logged last; "": none since the last success

	before []string // the cards in the file at the start that were present then

	mu      sync.Mutex
	cards   map[string]*card   // by address
	present map[string]bool    // by address
	counts  map[string]*counts // by address; since the start
	changed bool               // since the last write
}

// counts are what a card did since the start of the daemon.
type counts struct{ changes, removals int }

// Open reads the ledger in a state directory. If it cannot be used, Open logs a warning, and the ledger is empty. Open
// blocks for the disk, for 5 s at most.
func Open(ctx context.Context, cfg Config, log *zap.Logger) *Ledger {
	l := &Ledger{
		cfg: cfg, log: log.Named("ledger"), disk: privatedir.NewTurns(cfg.Dir), missing: latest.New[[]Missing](nil), touched: latest.NewSignal(),
		known: make(map[string]inventory.Health), cards: make(map[string]*card), present: make(map[string]bool), counts: make(map[string]*counts),
	}
	if cfg.Dir == "" {
		return l
	}
	found := make(chan content, 1)
	err := l.disk.Within(ctx, diskWithin, func(context.Context) error {
		c, err := read(cfg.Dir)
		found <- c
		return err
	})
	if l.unread = err != nil && !errors.Is(err, fs.ErrNotExist); l.unread {
		l.report(err)
	} else {
		l.report(nil)
	}
	select {
	case c := <-found:
		if c.Machine != "" && cfg.Machine != "" && c.Machine != cfg.Machine {
			l.log.Info("ledger begun anew", logevent.LedgerBegun, logevent.Count(len(c.Cards)), logevent.Reason("another machine"))
			break
		}
		for i := range c.Cards {
			l.cards[c.Cards[i].Card] = &c.Cards[i]
			if c.Cards[i].Expected {
				l.before = append(l.before, c.Cards[i].Card)
			}
		}
	default: // the file system hangs
	}
	l.publish()
	return l
}

// Missing returns the missing cards, sorted by address, and a channel that is closed when they change. The slice is
// read-only.
func (l *Ledger) Missing() ([]Missing, <-chan struct{}) { return l.missing.Load() }

// Remembered returns the devices that were on hold or in quarantine, for [inventory.Config]. It must not be called after Run.
func (l *Ledger) Remembered() map[string]*inventory.Device {
	all := make(map[string]*inventory.Device)
	for _, c := range l.cards {
		for id, m := range c.Devices {
			all[id] = &inventory.Device{ID: id, Family: c.Family, Memory: m, Facts: inventory.Facts{
				PCIID: c.PCIID, Attributes: map[string]string{inventory.AttributeSerialNumber: c.Serial},
			}}
		}
	}
	return all
}

// Counts returns the cards for the metrics, sorted by address.
func (l *Ledger) Counts() []metrics.Card {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]metrics.Card, 0, len(l.cards))
	for _, address := range slices.Sorted(maps.Keys(l.cards)) {
		n := *cmp.Or(l.counts[address], &counts{})
		all = append(all, metrics.Card{Address: address, HealthChanges: n.changes, Removals: n.removals, Missing: !l.cards[address].Missing.IsZero()})
	}
	return all
}

// Forget removes a card that will not come back.
func (l *Ledger) Forget(address, by string) (Missing, error) {
	text := address
	address, err := sysfs.ParseCard(address)
	if err != nil {
		return Missing{}, fmt.Errorf("card: found %.100q, %w", text, err)
	}
	if err := checkText("by", by); err != nil {
		return Missing{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cards[address]
	switch {
	case l.present[address]:
		return Missing{}, fmt.Errorf("card: found %s, which is present, want one that is absent", address)
	case c == nil:
		return Missing{}, fmt.Errorf("card: found %s, want one that this node remembers: %s", address,
			cmp.Or(strings.Join(slices.Sorted(maps.Keys(l.cards)), ", "), "there is none"))
	}
	delete(l.cards, address)
	l.changed = true
	l.publish()
	l.touched.Raise()
	l.log.Info("card forgotten", logevent.CardForgotten, logevent.Device(address), logevent.By(by))
	return Missing{address, c.Missing, c.PCIID}, nil
}

// publish publishes the missing cards, if they have changed. The caller holds mu, or the ledger is not shared yet.
func (l *Ledger) publish() {
	var all []Missing
	for _, address := range slices.Sorted(maps.Keys(l.cards)) {
		if c := l.cards[address]; !c.Missing.IsZero() {
			all = append(all, Missing{address, c.Missing, c.PCIID})
		}
	}
	if before, _ := l.missing.Load(); !slices.Equal(before, all) {
		l.missing.Store(all)
	}
}

// Devices is the source of the devices: an inventory.
type Devices interface {
	Latest() (inventory.Snapshot, <-chan struct{}) // the channel closes when the snapshot is stale
}

// Run follows these devices until ctx ends, and writes the file after changes, and at the end. Then it returns nil.
func (l *Ledger) Run(ctx context.Context, devices Devices) error {
	var settled, due <-chan time.Time
	var wrote time.Time
	var writing <-chan result // nil: no write is under way
	settling := true
	wait := pace
	for {
		touched := l.touched.Next()
		snapshot, stale := devices.Latest()
		l.observe(snapshot, time.Now())
		if settling && snapshot.Complete {
			settling, settled = false, time.After(settle)
		}
		if due == nil && writing == nil && l.dirty() {
			due = time.After(time.Until(wrote.Add(wait)))
		}
		select {
		case <-ctx.Done():
			l.end(ctx)
			return nil
		case <-stale:
		case <-touched:
		case <-settled:
			l.begin(time.Now())
		case <-due:
			due, wrote = nil, time.Now()
			writing = l.save(ctx, diskWithin)
		case r := <-writing:
			writing, wait = nil, pace
			switch {
			case r.err != nil:
				wait = retry
			case !r.written:
				wait = busy
			}
			if !r.written {
				l.soil()
			}
			if ctx.Err() == nil {
				l.report(r.err)
			}
		}
	}
}

// result is the result of a write.
type result struct {
	written bool // false without an error: another daemon writes the file
	err     error
}

// save begins to write the file. The channel receives the result, within the limit.
func (l *Ledger) save(ctx context.Context, limit time.Duration) <-chan result {
	text, done := l.encode(time.Now()), make(chan result, 1)
	go func() {
		written := make(chan bool, 1)
		r := result{err: l.disk.Within(ctx, limit, func(context.Context) error {
			is, err := l.write(text)
			written <- is
			return err
		})}
		select {
		case r.written = <-written:
		default: // the file system hangs
		}
		done <- r
	}()
	return done
}

// end writes the file at the end of the daemon, also if only the times of the present cards have changed.
func (l *Ledger) end(ctx context.Context) {
	if l.cfg.Dir == "" {
		return
	}
	text := l.encode(time.Now())
	err := l.disk.Within(context.WithoutCancel(ctx), endWithin, func(context.Context) error {
		_, err := l.write(text)
		if l.lock != nil {
			err = errors.Join(err, l.lock.Release())
			l.lock = nil
		}
		return err
	})
	if err != nil {
		l.report(err)
	}
}

func (l *Ledger) dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed && l.cfg.Dir != ""
}

func (l *Ledger) soil() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
}

// report logs an error of the state directory once, and sets its metric.
func (l *Ledger) report(err error) {
	l.cfg.Metrics.LedgerStored(err)
	switch {
	case err == nil:
		l.fault = ""
	case err.Error() != l.fault:
		l.fault = err.Error()
		l.log.Warn("ledger cannot be used", logevent.LedgerUnavailable, logevent.Path(filepath.Join(l.cfg.Dir, fileName)), logevent.Err(err))
	}
}

// encode returns the text of the file, and notes that it contains all changes.
func (l *Ledger) encode(now time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = false
	c := content{Version: fileVersion, Machine: l.cfg.Machine, Cards: make([]card, 0, len(l.cards))}
	for address, of := range l.cards {
		written := *of
		if l.present[address] {
			written.Last = timeOf(now)
		}
		c.Cards = append(c.Cards, written)
	}
	return encode(c)
}

// observe notes what has changed since the last snapshot.
func (l *Ledger) observe(s inventory.Snapshot, now time.Time) {
	if s.Version == l.last.Version {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cards := make(map[string][]*inventory.Device)
	for _, d := range s.Devices {
		if inventory.IsAddress(d.ID) && !hasLeft(d) {
			cards[cardOf(d.ID)] = append(cards[cardOf(d.ID)], d)
		}
	}
	for address := range l.present {
		if cards[address] == nil {
			l.removed(address, s.Complete && l.last.Complete && s.Generation == l.last.Generation, now)
		}
	}
	for address, devices := range cards {
		l.noteCard(address, devices, now)
	}
	for _, c := range inventory.Changes(l.last.Devices, s.Devices) {
		l.noteChange(c, now)
	}
	l.last = s
	l.publish()
}

// removed notes that a card has left while it was watched. If it left because of another mode, that is no removal.
func (l *Ledger) removed(address string, pulled bool, now time.Time) {
	delete(l.present, address)
	c := l.cards[address]
	if c == nil { // there were too many cards
		return
	}
	c.Last, c.Expected, c.Devices, l.changed = timeOf(now), false, nil, true
	if pulled {
		c.Removals++
		l.counts[address].removals++
	}
}

// noteCard notes that a card is present with these devices.
func (l *Ledger) noteCard(address string, listed []*inventory.Device, now time.Time) {
	was := l.cards[address]
	pci, serial, family, anyPCI := "", "", "", false
	expected := false
	for _, d := range listed {
		pci, serial, family = cmp.Or(pci, d.PCIID), cmp.Or(serial, d.Attributes[inventory.AttributeSerialNumber]), cmp.Or(family, d.Family)
		anyPCI = anyPCI || d.AnyPCIID
		expected = expected || isExpected(d)
	}
	pci, serial, family = clean(pci), clean(serial), clean(family)
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	c, returned := was, "missing card returned"
	if was == nil || differ(was.PCIID, pci) && !anyPCI || differ(was.Serial, serial) {
		c = &card{Card: address, First: timeOf(now), Last: timeOf(now)}
		if was != nil {
			c.Former = &card{
				Card: address, PCIID: was.PCIID, Serial: was.Serial, Family: was.Family, First: was.First, Last: was.Last,
				Changes: was.Changes, Removals: was.Removals,
			}
			c.Missing, returned = was.Missing, "another card is in the slot of a missing one"
		}
	}
	if was == nil && !l.makeRoom() {
		return
	}
	before := *c
	c.PCIID, c.Serial, c.Family, c.Expected = cmp.Or(pci, c.PCIID), cmp.Or(serial, c.Serial), cmp.Or(family, c.Family), expected
	if !c.Missing.IsZero() {
		l.log.Info(returned, logevent.DeviceReturned, logevent.Device(address), logevent.Lasted(max(now.Sub(c.Missing), 0)))
		c.Missing = time.Time{}
	}
	l.cards[address], l.present[address] = c, true
	l.counts[address] = cmp.Or(l.counts[address], &counts{})
	l.changed = l.changed || c != was || !reflect.DeepEqual(before, *c)
}

// makeRoom forgets a card that is not present if there are too many. It returns false if all are present.
func (l *Ledger) makeRoom() bool {
	if len(l.cards) < maxCards || len(l.present) == len(l.cards) {
		return len(l.cards) < maxCards
	}
	var absent []card
	for address, c := range l.cards {
		if !l.present[address] {
			absent = append(absent, *c)
		}
	}
	least := slices.MinFunc(absent, byWant).Card
	delete(l.cards, least)
	delete(l.counts, least)
	return true
}

// noteChange notes what a change of a device means for its card.
func (l *Ledger) noteChange(change inventory.Change, now time.Time) {
	d, c := change.New, l.cards[cardOf(change.ID)]
	if d == nil || hasLeft(d) || c == nil || !l.present[c.Card] {
		delete(l.known, change.ID)
		if c != nil {
			l.noteMemory(c, &inventory.Device{ID: change.ID})
		}
		return
	}
	if d.PCIID != "" || c.PCIID == "" { // else the inventory has not recalled the device yet
		l.noteMemory(c, d)
	}
	health, is := ofHardware(d)
	was, known := l.known[d.ID]
	if !is || !known && health == inventory.Unhealthy || known && was == health { // not well yet: it is being plugged in
		return
	}
	l.known[d.ID] = health
	if !known {
		return
	}
	t := turn{Time: timeOf(now), Device: clean(d.ID), From: was.String(), To: health.String()}
	if health > was && len(d.Reasons) > 0 {
		t.Reason = clean(d.Reasons[0])
	}
	c.Recent = append(slices.Clone(c.Recent[max(len(c.Recent)+1-maxRecent, 0):]), t)
	c.Changes++
	l.counts[c.Card].changes++
	l.changed = true
}

// noteMemory notes what the inventory must know of a device after a restart.
func (l *Ledger) noteMemory(c *card, d *inventory.Device) {
	if m := memoryOf(d); !reflect.DeepEqual(m, c.Devices[d.ID]) {
		all := maps.Clone(c.Devices) // a text of the former map may be in the making
		if m == nil {
			delete(all, d.ID)
		} else {
			if all == nil {
				all = make(devices, 1)
			}
			all[d.ID] = m
		}
		c.Devices, l.changed = all, true
	}
}

// begin decides which cards are missing, after the start.
func (l *Ledger) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.present) > 0 && len(l.before) > 0 && !slices.ContainsFunc(l.before, func(address string) bool { return l.present[address] }) {
		l.log.Info("ledger begun anew", logevent.LedgerBegun, logevent.Count(len(l.before)), logevent.Reason("all addresses have changed"))
		for _, address := range l.before {
			delete(l.cards, address)
		}
		l.changed = true
	}
	for _, address := range slices.Sorted(maps.Keys(l.cards)) {
		c := l.cards[address]
		if l.present[address] {
			continue
		}
		if !c.Expected || l.cfg.Exempt != nil && l.cfg.Exempt(c.Card, c.Family) {
			l.changed = l.changed || !c.Missing.IsZero()
			c.Missing = time.Time{}
			continue
		}
		if c.Missing.IsZero() || c.Missing.After(now) { // or the clock was set back
			c.Missing, l.changed = timeOf(now), true
		}
		l.log.Error("card is missing since the last start", logevent.DeviceMissing, logevent.Device(c.Card), logevent.Lasted(now.Sub(c.Missing)))
	}
	l.publish()
}

// ofHardware returns the health of a device's hardware, and false if its reasons hide that: recovering, in quarantine,
// cordoned, programmed.
func ofHardware(d *inventory.Device) (inventory.Health, bool) {
	return d.Health, d.Health != inventory.Unhealthy || d.Fault
}

// isExpected reports whether somebody would miss a device: not if it is cordoned, excluded or unwanted, and not if it is a virtual
// function, which exists only after somebody has made it.
func isExpected(d *inventory.Device) bool {
	return !d.Unwanted() && d.Attributes[inventory.AttributePhysicalFunction] == "" &&
		!slices.Contains(d.Reasons, inventory.ReasonCordoned) && !slices.Contains(d.Reasons, inventory.ReasonExcluded)
}

// hasLeft reports whether a listed device is not in its slot.
func hasLeft(d *inventory.Device) bool {
	return slices.Contains(d.Reasons, inventory.ReasonRemoved) || slices.Contains(d.Reasons, inventory.ReasonRemovedInUse)
}

// memoryOf returns the memory of a device in the form in which it is written.
func memoryOf(d *inventory.Device) *inventory.Memory {
	if d.Memory == nil {
		return nil
	}
	m := *d.Memory
	m.Turns = slices.Clone(m.Turns[max(len(m.Turns)-maxTurns, 0):])
	for i, t := range m.Turns {
		m.Turns[i] = timeOf(t)
	}
	m.Holds = slices.Clone(m.Holds)
	for i := range m.Holds {
		m.Holds[i].Reason, m.Holds[i].Since = clean(m.Holds[i].Reason), timeOf(m.Holds[i].Since)
	}
	return &m
}

// timeOf returns a time in the form in which it is written.
func timeOf(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond).Round(0) }

// clean returns a text that the file accepts.
func clean(text string) string {
	if checkText("", text) != nil {
		return "?"
	}
	return text
}

func cardOf(id string) string {
	address, _, _ := strings.Cut(id, "-p")
	return address
}
