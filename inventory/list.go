package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// listing is what the families say which cards there are.
type listing struct {
	cards []string
	err   error // some family could not say it
}

// list starts a listing of all cards, or asks for another one after the one
// under way: that may have passed the place of the change already.
func (l *loop) list(ctx context.Context, hinted time.Time) {
	if l.allAt.IsZero() {
		l.allAt = hinted
	}
	if l.listing {
		l.relist = true
		return
	}
	l.listing, l.relist = true, false
	l.readers.Go(func() {
		found := l.listCards()
		select {
		case l.listed <- found:
		case <-ctx.Done():
		}
	})
}

// listCards runs outside the loop and touches nothing of it.
func (inv *Inventory) listCards() listing {
	var all listing
	for _, f := range inv.families {
		cards, err := f.Cards(inv.host)
		if err != nil {
			all.err = errors.Join(all.err, fmt.Errorf("%s: %w", f.Name(), err))
		}
		all.cards = append(all.cards, cards...)
	}
	return all
}

// takeListing asks for every card that is listed or known. A card that is known
// and not listed is not gone for that: reading it will tell. One whose reading
// hangs cannot tell, and is gone.
func (l *loop) takeListing(ctx context.Context, found listing) {
	l.listing = false
	starved := sysfs.OwnTrouble(found.err)
	l.listAgain = starved
	if starved {
		l.cfg.Metrics.ListingStarved()
		l.noteShortage(found.err, time.Now())
	} else {
		l.cfg.Metrics.Listing(found.err)
		l.sayListing(found)
	}
	listed := make(map[string]bool, len(found.cards))
	for _, address := range found.cards {
		listed[address] = true
		if l.cards[address] == nil {
			l.cards[address] = &card{address: address}
		}
	}
	how := wantRoutine
	if l.first == nil {
		how = wantNow // however many: none of them may hold up the others' first list
	}
	for _, c := range l.cards {
		if c.overdue && !listed[c.address] && found.err == nil {
			l.forget(ctx, c)
			continue
		}
		if c.hinted.IsZero() {
			c.hinted = l.allAt
		}
		l.ask(c, how)
	}
	l.allAt = time.Time{}
	if l.first == nil && !starved { // if starved, the next listing is the first, and nothing is published before it
		l.first, l.firstUntil = make(map[string]bool, len(l.cards)), time.Now().Add(firstGrace)
		for address := range l.cards {
			l.first[address] = true
		}
	}
	if l.relist {
		l.list(ctx, l.allAt)
	}
}

// sayListing logs that cards cannot be listed, or can again; each once.
func (l *loop) sayListing(found listing) {
	var now string
	if found.err != nil {
		now = found.err.Error()
	}
	switch {
	case now != "" && now != l.listErr:
		l.log.Warn("cards could not be listed", event.ScanFailed, event.Err(found.err))
	case now == "" && l.listErr != "":
		l.log.Info("cards could be listed again", event.ScanRecovered)
	}
	l.listErr = now
}

// resolution is the result of looking for the card of a node by the node's number.
type resolution struct {
	hint    Hint
	owners  []string // the cards that were known to have the node
	address string   // the card that has it, or ""
}

// resolve looks for the card of a node.
func (l *loop) resolve(ctx context.Context, owners []string, h Hint) {
	l.readers.Go(func() {
		r := resolution{hint: h, owners: owners}
		r.address, _ = l.host.CardOfNode(h.Node)
		select {
		case l.resolved <- r:
		case <-ctx.Done():
		}
	})
}

// takeResolution asks for the card. Where the node leads nowhere and no card was
// known to have it, anything may be new.
func (l *loop) takeResolution(ctx context.Context, r resolution) {
	switch {
	case r.address != "" && !slices.Contains(r.owners, r.address):
		l.hintCard(r.address, r.hint)
	case r.address == "" && len(r.owners) == 0:
		l.log.Debug("hint received", event.HintReceived, event.Node(r.hint.Node), event.Source(r.hint.Source))
		l.list(ctx, r.hint.At)
	}
}
