package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Names in the state directory.
const (
	fileName = "cards.json"
	badName  = fileName + ".bad"
	lockName = "cards.lock"
)

// Limits for the file.
const (
	fileVersion = 1
	maxFile     = 64 << 10 // bytes
	maxCards    = 256
	maxRecent   = 20  // a card's health changes
	maxTurns    = 16  // a device's newest turns; its quarantine is measured from the newest one
	maxText     = 100 // bytes
)

// content is the JSON object in cards.json.
type content struct {
	Version int    `json:"version"`
	Machine string `json:"machine,omitempty"` // ID of the machine that the cards are in; "" if not known
	Cards   []card `json:"cards"`             // sorted by address
}

// card is a card's entry in the file.
type card struct {
	Card     string         `json:"card"`            // as in [Missing]
	PCIID    string         `json:"pciId,omitempty"` // as in [inventory.Facts]; "" if not known
	Serial   string         `json:"serial,omitempty"`
	Family   string         `json:"family,omitempty"`
	First    time.Time      `json:"firstSeen"`
	Last     time.Time      `json:"lastSeen"`             // if the card is present, when the file was written
	Expected bool           `json:"expected"`             // when last observed, it was present and neither cordoned nor excluded
	Missing  time.Time      `json:"missing,omitzero"`     // when the card was found missing; zero if it isn't
	Changes  int            `json:"healthChanges"`        // number
	Failures int            `json:"failures"`             // how many of these changes were to unhealthy
	Removals int            `json:"removals"`             // number
	Removed  time.Time      `json:"lastRemoved,omitzero"` // zero if never or unknown
	Recent   []HealthChange `json:"recent,omitempty"`     // the newest health changes, oldest first
	Former   *card          `json:"former,omitempty"`     // the card that was in this slot before; nil if there was none

	// Devices holds what the inventory needs to know about the card's devices after a restart, keyed by device id.
	Devices map[string]*inventory.Memory `json:"devices,omitempty"`

	// The following fields cover the time since the daemon started, and aren't stored in the file.
	present, before   bool      // present now; already known at startup
	reported          bool      // the card is missing, and this has been logged
	faulty            time.Time // when the present card's fault or quarantine began; zero if it has neither
	late              time.Time // when the absent card's driver was first late; zero if it isn't late
	changes, removals int
	steps             int       // how many of the newest changes in Recent may be steps of a removal
	stepsFrom         time.Time // when the first of these steps was recorded
}

func (c *card) asMissing() Missing { return Missing{c.Card, c.Missing, c.PCIID} }

// HealthChange is a change in a device's health.
type HealthChange struct {
	Time   time.Time `json:"time"`
	Device string    `json:"device"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason,omitempty"` // "" if the health got better
	OfCard bool      `json:"ofCard,omitempty"` // it changed the card's worst health, so it is counted
}

// parse parses a file.
func parse(text []byte) (content, error) {
	var c content
	var of struct{ Version int }
	if err := json.Unmarshal(text, &of); err == nil && of.Version != fileVersion {
		return c, fmt.Errorf("version: found %d, want %d", of.Version, fileVersion)
	}
	if err := privatedir.DecodeJSON(text, &c); err != nil {
		return content{}, fmt.Errorf(`%w, want {"version": %d, "cards": [...]}`, err, fileVersion)
	}
	if n := len(c.Cards); n > maxCards {
		return content{}, fmt.Errorf("cards: found %d, want at most %d", n, maxCards)
	}
	if err := checkText("machine", c.Machine); err != nil {
		return content{}, err
	}
	for i := range c.Cards {
		if err := c.Cards[i].check(); err != nil {
			return content{}, fmt.Errorf("cards[%d]: %w", i, err)
		}
		if !bytes.Contains(text, []byte(`"failures":`)) {
			c.Cards[i].countFailures()
		}
		if i > 0 && c.Cards[i-1].Card >= c.Cards[i].Card {
			return content{}, fmt.Errorf("cards[%d]: card: found %s after %s, want them sorted, each once", i, c.Cards[i].Card, c.Cards[i-1].Card)
		}
	}
	return c, nil
}

// countFailures sets c.Failures for a card from a file of an older version, which didn't store the number of failures.
// It only finds failures that are still in c.Recent.
func (c *card) countFailures() {
	for i := range c.Recent {
		t := &c.Recent[i]
		if t.OfCard = i == 0 || !t.Time.Equal(c.Recent[i-1].Time); t.OfCard && t.isFailure() { // otherwise the change belongs to another port
			c.Failures++
		}
	}
}

// check returns an error if a ledger couldn't have written this card.
func (c *card) check() error {
	if address, err := sysfs.ParseCard(c.Card); err != nil {
		return fmt.Errorf("card: found %.100q, %w", c.Card, err)
	} else if address != c.Card {
		return fmt.Errorf("card: found %q, want %q", c.Card, address)
	}
	if c.Changes < 0 || c.Failures < 0 || c.Removals < 0 {
		return fmt.Errorf("healthChanges, failures, removals: found %d, %d and %d, want no negative number", c.Changes, c.Failures, c.Removals)
	}
	if len(c.Recent) > maxRecent {
		return fmt.Errorf("recent: found %d changes, want at most %d", len(c.Recent), maxRecent)
	}
	err := errors.Join(checkText("pciId", c.PCIID), checkText("serial", c.Serial), checkText("family", c.Family),
		checkTime("firstSeen", c.First), checkTime("lastSeen", c.Last), checkTime("missing", c.Missing),
		checkTime("lastRemoved", c.Removed))
	for _, t := range c.Recent {
		err = errors.Join(err, checkDevice(t.Device, c.Card), checkTime("time", t.Time),
			checkText("from", t.From), checkText("to", t.To), checkText("reason", t.Reason))
	}
	for id, m := range c.Devices {
		err = errors.Join(err, checkDevice(id, c.Card))
		if m == nil {
			return fmt.Errorf("devices[%q]: found null, want an object", id)
		}
		for _, at := range m.Turns {
			err = errors.Join(err, checkTime("turns", at))
		}
		for _, h := range m.Holds {
			err = errors.Join(err, checkText("reason", h.Reason), checkTime("since", h.Since), checkTime("passing", h.Passing))
			if h.Health > inventory.Unhealthy || h.Reason == "" {
				err = errors.Join(err, fmt.Errorf("holds: found reason %q with health %d, want a reason and a health up to %d", h.Reason, h.Health, inventory.Unhealthy))
			}
		}
	}
	if f := c.Former; f != nil {
		if f.Former != nil || f.Card != c.Card {
			return fmt.Errorf("former: found card %.100q, want %q without another former one", f.Card, c.Card)
		}
		err = errors.Join(err, f.check())
	}
	return err
}

func checkDevice(id, card string) error {
	if cardOf(id) != card {
		return fmt.Errorf("device: found %.100q, want %s or one of its ports", id, card)
	}
	return checkText("device", id)
}

// checkText returns an error if it isn't safe to print text in a log or on a terminal.
func checkText(name, text string) error {
	if len(text) > maxText || strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s: found %.100q, want at most %d bytes of printable characters", name, text, maxText)
	}
	return nil
}

// checkTime returns an error unless t can be written to the file in any time zone.
func checkTime(name string, t time.Time) error {
	if year := t.Year(); year < 1 || year > 9000 {
		return fmt.Errorf("%s: found the year %d, want one from 1 to 9000", name, year)
	}
	return nil
}

// encode returns the content of the file. If that would be too large, encode first leaves out the oldest health
// changes, then the former cards, then all but one turn and one hold per device, and finally the least wanted cards.
func encode(c content) []byte {
	recent := func(n int) func(*card) {
		return func(c *card) { c.Recent = c.Recent[max(len(c.Recent)-n, 0):] }
	}
	slices.SortFunc(c.Cards, byAddress)
	for _, cut := range []func(*card){recent(maxRecent / 2), recent(maxRecent / 4), recent(1), recent(0), cutFormer, cutMemory} {
		if text, fits := c.marshal(); fits {
			return text
		}
		for i := range c.Cards {
			cut(&c.Cards[i])
		}
	}
	all := slices.SortedFunc(slices.Values(c.Cards), byWant)
	least := sort.Search(len(all), func(n int) bool {
		c.Cards = all[n:]
		_, fits := c.marshal()
		return fits
	})
	c.Cards = slices.SortedFunc(slices.Values(all[least:]), byAddress)
	text, _ := c.marshal()
	return text
}

func (c content) marshal() (text []byte, fits bool) {
	text, err := json.Marshal(c)
	return append(text, '\n'), err == nil && len(text) < maxFile
}

func cutFormer(c *card) { c.Former = nil }

// cutMemory keeps only the newest turn of each device, from which its quarantine is measured, and the hold that ends
// last.
func cutMemory(c *card) {
	for id, m := range c.Devices {
		kept := inventory.Memory{Turns: m.Turns[max(len(m.Turns)-1, 0):], Quarantined: m.Quarantined, Bad: m.Bad}
		if len(m.Holds) > 0 {
			last := slices.MaxFunc(m.Holds, byEnd)
			for _, h := range m.Holds {
				last.Health = max(last.Health, h.Health)
			}
			kept.Holds = []inventory.Hold{last}
		}
		c.Devices[id] = &kept
	}
}

// byEnd sorts holds by when they end. Holds without a time come last, because their conditions are still present.
func byEnd(a, b inventory.Hold) int {
	if a.Since.IsZero() || b.Since.IsZero() {
		return b.Since.Compare(a.Since)
	}
	return a.Since.Compare(b.Since)
}

func byAddress(a, b card) int { return cmp.Compare(a.Card, b.Card) }

// byWant sorts cards in the order in which they can be forgotten: first cards that aren't expected, then missing cards,
// then expected cards, and finally cards whose devices the inventory has to remember. Within each class, the oldest
// come first.
func byWant(a, b card) int {
	class := func(c card) int {
		switch {
		case len(c.Devices) > 0:
			return 3
		case !c.Missing.IsZero():
			return 1
		case c.Expected:
			return 2
		}
		return 0
	}
	return cmp.Or(cmp.Compare(class(a), class(b)), a.Last.Compare(b.Last), byAddress(a, b))
}

// open reads cards.json in the state directory.
func open(path string) (content, error) {
	dir, err := privatedir.OpenDir(path, false)
	if err != nil {
		return content{}, err
	}
	defer dir.Close()
	return read(dir)
}

// read returns the content of cards.json. If the file can't be used, read renames it, unless the only reason is a lack
// of memory or file descriptors. The error wraps fs.ErrNotExist if there is no file.
func read(dir *os.Root) (content, error) {
	text, err := privatedir.ReadFile(dir, fileName, maxFile)
	var c content
	if err == nil {
		if c, err = parse(text); err != nil {
			err = privatedir.PathError(filepath.Join(dir.Name(), fileName), err)
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || sysfs.IsShortage(err) {
		return c, err
	}
	if aside := dir.Rename(fileName, badName); aside != nil {
		err = errors.Join(err, privatedir.PathError(filepath.Join(dir.Name(), badName), aside))
	}
	return content{}, err
}

// replace replaces cards.json. Unless this daemon already holds the lock, replace first acquires it, and keeps it.
// replaced is false if another daemon holds the lock.
func (l *Ledger) replace() (replaced bool, err error) {
	dir, err := privatedir.OpenDir(l.cfg.Dir, true)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if l.lock == nil {
		if l.lock, err = privatedir.TryLock(dir, lockName, privatedir.Exclusive); l.lock == nil {
			l.waited = l.waited || err == nil
			return false, err
		}
		if l.waited {
			l.followFile(dir)
		}
	}
	if l.isUnread() {
		c, err := read(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err // the next call tries to read the file again, unless it has been renamed
		}
		l.mu.Lock()
		l.take(c)
		l.unread = false
		l.publish()
		l.mu.Unlock()
	}
	return privatedir.ReplaceFile(dir, fileName, encode(l.content()))
}

func (l *Ledger) isUnread() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unread
}

// followFile catches up with the daemon that has been writing the file: it forgets absent cards that the other daemon
// has forgotten, and stops expecting cards that the other daemon has seen leave.
func (l *Ledger) followFile(dir *os.Root) {
	file, err := read(dir)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for address, c := range l.cards {
		if c.present || !c.before {
			continue
		}
		i := slices.IndexFunc(file.Cards, func(c card) bool { return c.Card == address })
		if i < 0 {
			delete(l.cards, address)
		} else if !file.Cards[i].Expected {
			c.Expected, c.Missing, c.reported, l.changed = false, time.Time{}, false, true
		}
	}
	l.publish()
}

// release releases the lock.
func (l *Ledger) release() error {
	if l.lock == nil {
		return nil
	}
	lock := l.lock
	l.lock = nil
	return lock.Release()
}
