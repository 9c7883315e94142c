package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
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
	settle       = 10 * time.Second // time from the first complete list until absent cards count as missing, to give drivers time
	lateInterval = time.Minute      // time between checks of cards whose drivers are late
	lateWithin   = time.Hour        // how long a driver can be late; after that, none is expected to bind
	pace         = time.Second      // minimum time between writes
	busy         = 5 * time.Second  // time between attempts to write while another daemon writes the file
	retry        = time.Minute      // time between attempts after a failed write
	diskWithin   = 5 * time.Second  // time limit for one access to the state directory
	endWithin    = time.Second      // same as diskWithin, but when the daemon exits
)

// Config holds a [Ledger]'s settings.
type Config struct {
	Dir     string // the state directory; if it is "", nothing is stored
	Machine string // the machine's ID; "" if not known
	// Exempt reports whether a card is currently allowed to be absent, because it is cordoned or excluded, its family
	// is disabled, or a virtual machine may be using it. If Exempt is nil, all cards are expected. It must not block.
	Exempt func(address, family, pciID string) bool
	// OnBus reports whether there is a PCI function with this PCI ID at the address. An empty pciID matches any
	// function. If the function exists but none of its devices are listed, its driver is late. If OnBus is nil, no card
	// counts as being on the bus. It must not block.
	OnBus func(address, pciID string) bool
	// Changed returns channels that are closed when Exempt's results may have changed. If Changed is nil, the results
	// never change.
	Changed func() (cordons, settings <-chan struct{})
	Metrics *metrics.Metrics // required
}

// Missing is an expected card that is absent; the package comment explains when a card is missing.
type Missing struct {
	Card  string    // PCI address as lspci prints it: 3b:00.0
	Since time.Time // when it was first found missing
	Model string    // VVVV:DDDD:SSSS:SSSS, vendor, device and subsystem; "" if not known
}

// History is what has happened to a card. It is part of the state that is served on the local socket, and uses the same
// JSON keys as cards.json.
type History struct {
	Card     string         `json:"card"` // as in [Missing]
	Changes  int            `json:"healthChanges"`
	Failures int            `json:"failures"` // number of changes to unhealthy
	Removals int            `json:"removals"`
	Removed  time.Time      `json:"lastRemoved,omitzero"` // zero if never or unknown
	Recent   []HealthChange `json:"recent"`               // the newest health changes, oldest first
	Former   *Former        `json:"former"`               // the card that was in this slot before; nil if there was none
}

// Former is a card that has been replaced by another one.
type Former struct {
	PCIID    string    `json:"pciId"` // "" if not known
	Serial   string    `json:"serial"`
	First    time.Time `json:"firstSeen"`
	Last     time.Time `json:"lastSeen"`
	Changes  int       `json:"healthChanges"`
	Removals int       `json:"removals"`
}

// Ledger remembers a node's cards. Create it with [Open], and run it once.
type Ledger struct {
	cfg     Config
	log     *zap.Logger
	missing *latest.Value[[]Missing]
	touched latest.Signal // raised when changed is set

	disk   *privatedir.Turns
	lock   *privatedir.Lock // used by the function that accesses the disk; nil until acquired
	waited bool             // another daemon held the lock
	fault  string           // the last error that was logged; "" after a success

	last  inventory.Snapshot          // the last snapshot observed
	known map[string]inventory.Health // by id, the hardware's health; set once a listed device has been healthy
	began bool                        // the cards that were missing at startup have been determined
	look  bool                        // a card has appeared or lost its driver since the last call to findMissing

	mu       sync.Mutex
	cards    map[string]*card // by address
	unread   bool             // there may be a file that couldn't be read
	taken    bool             // the file's cards haven't been compared with the present cards yet
	complete bool             // all cards have been read since startup
	changed  bool             // the file must be written
}

// Open reads the ledger from the state directory. If the file can't be used, Open logs a warning and returns an empty
// ledger. Open waits up to 5 s for the disk.
func Open(ctx context.Context, cfg Config, log *zap.Logger) *Ledger {
	l := &Ledger{
		cfg: cfg, log: log.Named("ledger"), disk: privatedir.NewTurns(cfg.Dir), missing: latest.New[[]Missing](nil), touched: latest.NewSignal(),
		known: make(map[string]inventory.Health), cards: make(map[string]*card),
	}
	if cfg.Dir == "" {
		return l
	}
	found := make(chan content, 1)
	err := l.disk.Within(ctx, diskWithin, func(context.Context) error {
		c, err := open(cfg.Dir)
		found <- c
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	l.unread = err != nil
	l.changed = l.unread // the writer will try to read it again
	l.report(err)
	select {
	case c := <-found:
		l.take(c)
	default: // the file system hangs
	}
	return l
}

// take adds the cards in c, which is the content of a file. If a card is already known, take only adds its history.
func (l *Ledger) take(c content) {
	if c.Machine != "" && l.cfg.Machine != "" && c.Machine != l.cfg.Machine {
		l.begunAnew(len(c.Cards), "another machine")
		return
	}
	l.cfg.Machine, l.taken = cmp.Or(l.cfg.Machine, c.Machine), true
	for i := range c.Cards {
		was := &c.Cards[i]
		switch is := l.cards[was.Card]; {
		case is != nil:
			is.follow(was)
		case l.makeRoom(was.Expected):
			was.before, l.cards[was.Card] = true, was
		}
	}
}

// Missing returns the missing cards, sorted by address, and a channel that is closed when they change. The slice is
// read-only, and empty until all cards have been read.
func (l *Ledger) Missing() ([]Missing, <-chan struct{}) { return l.missing.Load() }

// Awaited returns the number of expected cards that haven't been found yet but don't count as missing.
func (l *Ledger) Awaited() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.cards {
		if !c.present && (c.Missing.IsZero() || !l.complete) && c.Expected && !l.isExempt(c) {
			n++
		}
	}
	return n
}

// Remembered returns the devices that, according to the file, were bad, on hold or in quarantine. They are meant for
// [inventory.Config]. Remembered must not be called once Run has been called.
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

// Counts returns each card's counts for the metrics, sorted by address.
func (l *Ledger) Counts() []metrics.Card {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []metrics.Card
	now := time.Now()
	for _, c := range l.sorted() {
		all = append(all, metrics.Card{Address: c.Card, HealthChanges: c.changes - c.doubtful(now), Removals: c.removals, Missing: !c.Missing.IsZero()})
	}
	return all
}

// History returns what has happened to each card, sorted by address.
func (l *Ledger) History() []History {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := []History{}
	for _, c := range l.sorted() {
		h := History{Card: c.Card, Changes: c.Changes, Failures: c.Failures, Removals: c.Removals, Removed: c.Removed, Recent: append([]HealthChange{}, c.Recent...)}
		if f := c.Former; f != nil {
			h.Former = &Former{f.PCIID, f.Serial, f.First, f.Last, f.Changes, f.Removals}
		}
		all = append(all, h)
	}
	return all
}

// Forget removes a card that won't come back, and writes the file, which can take up to 5 s. If it returns an error,
// nothing has changed.
func (l *Ledger) Forget(ctx context.Context, address, by string) (Missing, error) {
	card, err := sysfs.ParseCard(address)
	if err != nil {
		return Missing{}, fmt.Errorf("card: found %.100q, %w", address, err)
	}
	if err := checkText("by", by); err != nil {
		return Missing{}, err
	}
	c, err := l.remove(card)
	if err != nil {
		return Missing{}, err
	}
	stored := true
	if l.cfg.Dir != "" {
		stored, err = l.store(ctx, diskWithin)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !stored {
		if l.cards[card] == nil {
			l.cards[card] = c
		}
		l.changed = true // if the file system hangs, the file may still be written later, without the card
		l.publish()
		return Missing{}, cmp.Or(err, fmt.Errorf("%s: another daemon writes it, try again when the upgrade has ended", filepath.Join(l.cfg.Dir, fileName)))
	}
	l.publish()
	l.log.Info("card forgotten", logevent.CardForgotten, logevent.Device(card), logevent.By(by))
	return c.asMissing(), err
}

// remove removes an absent card from the ledger and returns it.
func (l *Ledger) remove(address string) (*card, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cards[address]
	switch {
	case c == nil:
		return nil, fmt.Errorf("card: found %s, want one that this node remembers: %s", address,
			cmp.Or(strings.Join(slices.Sorted(maps.Keys(l.cards)), ", "), "there is none"))
	case c.present:
		return nil, fmt.Errorf("card: found %s, which is present, want one that is absent", address)
	}
	delete(l.cards, address)
	l.changed = true
	return c, nil
}

// sorted returns the cards, sorted by address.
func (l *Ledger) sorted() []*card {
	return slices.SortedFunc(maps.Values(l.cards), func(a, b *card) int { return cmp.Compare(a.Card, b.Card) })
}

// publish publishes the missing cards if they have changed and all cards have been read. It wakes the writer if the
// file must be written.
func (l *Ledger) publish() {
	var all []Missing
	for _, c := range l.cards {
		if !c.Missing.IsZero() {
			all = append(all, c.asMissing())
		}
	}
	slices.SortFunc(all, func(a, b Missing) int { return cmp.Compare(a.Card, b.Card) })
	if before, _ := l.missing.Load(); l.complete && !slices.Equal(before, all) {
		l.missing.Store(all)
	}
	if l.changed {
		l.touched.Raise()
	}
}

// Devices is the source of devices, usually an inventory.
type Devices interface {
	Latest() (inventory.Snapshot, <-chan struct{}) // the channel is closed when there is a newer snapshot
}

// Run follows the devices until ctx is done, and then returns nil. It writes the file after changes, and once more
// before it returns.
func (l *Ledger) Run(ctx context.Context, devices Devices) error {
	var writer sync.WaitGroup
	if l.cfg.Dir != "" {
		writer.Go(func() { l.write(ctx) })
	}
	defer writer.Wait()
	var settled <-chan time.Time
	var due bool // check for missing cards again
	for {
		snapshot, stale := devices.Latest()
		var cordons, settings <-chan struct{}
		if l.cfg.Changed != nil {
			cordons, settings = l.cfg.Changed()
		}
		l.observe(snapshot, time.Now())
		if (due || l.look && l.began) && l.findMissing(time.Now()) {
			settled = time.After(lateInterval)
		}
		due = false
		if snapshot.Complete && settled == nil {
			settled = time.After(settle)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		case <-settled:
			due = true
		case <-cordons:
			due = l.began
		case <-settings:
			due = l.began
		}
	}
}

// write writes the file after changes until ctx is done, and then once more to update the times at which present cards
// were last seen.
func (l *Ledger) write(ctx context.Context) {
	for ctx.Err() == nil {
		touched := l.touched.Next()
		if !l.hasChanged() {
			select {
			case <-ctx.Done():
			case <-touched:
			}
			continue
		}
		stored, err := l.store(ctx, diskWithin)
		if ctx.Err() != nil {
			break
		}
		l.report(err)
		wait := pace
		switch {
		case err != nil:
			wait = retry
		case !stored:
			wait = busy
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := l.store(ctx, endWithin); err != nil {
		l.report(err)
	}
	_ = l.disk.Within(ctx, endWithin, func(context.Context) error { return l.release() })
}

func (l *Ledger) hasChanged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// content returns what the file should contain, and marks the ledger as unchanged.
func (l *Ledger) content() content {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	c := content{Version: fileVersion, Machine: l.cfg.Machine, Cards: []card{}}
	for _, of := range l.cards {
		card := *of
		card.Devices = make(map[string]*inventory.Memory, len(of.Devices))
		for id, m := range of.Devices {
			card.Devices[id] = written(m, now)
		}
		if of.present {
			card.Last = timeOf(now)
		}
		c.Cards = append(c.Cards, card)
	}
	l.changed = false
	return c
}

// store replaces the file. If another daemon is writing it, store returns false and no error.
func (l *Ledger) store(ctx context.Context, limit time.Duration) (stored bool, err error) {
	done := make(chan bool, 1)
	err = l.disk.Within(ctx, limit, func(ctx context.Context) error {
		is, err := l.replace()
		if done <- is; !is || err != nil || ctx.Err() != nil { // if ctx is done, the caller has given up
			l.mu.Lock()
			defer l.mu.Unlock()
			l.changed = true
			l.touched.Raise()
		}
		return err
	})
	select {
	case stored = <-done:
	default: // the file system hangs
	}
	return stored, err
}

// report sets the metric for access to the state directory, and logs err unless it is the same as the previous error.
func (l *Ledger) report(err error) {
	l.cfg.Metrics.LedgerStored(err)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != l.fault {
		l.log.Warn("ledger cannot be used", logevent.LedgerUnavailable, logevent.Path(filepath.Join(l.cfg.Dir, fileName)), logevent.Err(err))
	}
	l.fault = text
}

func (l *Ledger) begunAnew(cards int, reason string) {
	l.log.Info("ledger started again", logevent.LedgerBegun, logevent.Count(cards), logevent.Reason(reason))
}
