package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// listing is the result of listing all cards.
type listing struct {
	cards []string
	epoch uint64
	seeks bool  // only meant to find out whether overdue cards have left
	err   error // from the families that couldn't list all of their cards
}

// resolution is the result of looking up a device node's card by the node's number.
type resolution struct {
	hint    Hint
	owners  []string // the cards whose last readings contained the node
	address string   // the card that the node belongs to now, or ""
}

// hintNode requests readings of the cards whose last readings contained this node. It also looks up the card by the
// node's number, because drivers reuse names (lowest first) and the node may belong to a different card by now. A
// reading in progress may have seen the node before this hint; if its result contains the node, the card is read again.
func (s *scheduler) hintNode(ctx context.Context, name string, h Hint) {
	r := resolution{hint: h}
	for address, j := range s.jobs {
		if j.state == reading {
			j.nodeHints = keepFirst(j.nodeHints, name, h)
		}
		if slices.Contains(j.nodes, name) {
			r.owners = append(r.owners, address)
		}
	}
	for _, address := range r.owners {
		s.hintCard(address, h)
	}
	s.tasks.Go(func() {
		r.address, _ = s.host.CardOfNode(h.Node)
		select {
		case s.resolved <- r:
		case <-ctx.Done():
		}
	})
}

// takeResolution requests a reading of the card that the device node belongs to. If neither the node's device number
// nor the last readings show which card that is, takeResolution lists all cards.
func (s *scheduler) takeResolution(ctx context.Context, r resolution) {
	switch {
	case r.address != "" && !slices.Contains(r.owners, r.address):
		s.hintCard(r.address, r.hint)
	case r.address == "" && len(r.owners) == 0:
		s.log.Debug("hint received", logevent.HintReceived, logevent.Node(r.hint.Node), logevent.Source(r.hint.Source))
		s.list(ctx, r.hint.At)
	}
}

// list starts listing all cards. If a listing is already in progress, another one follows, because the current one may
// have read the directory before the change.
func (s *scheduler) list(ctx context.Context, hinted time.Time) {
	if s.allAt.IsZero() {
		s.allAt = hinted
	}
	if s.listing {
		s.relist = true
		return
	}
	s.startListing(ctx, listing{epoch: s.epoch})
}

// seek lists the cards to find out which cards with overdue readings have left. It is called after a hint for a card
// that can't be read because too many of its readings hang. Once that card is known to have left, the next card in its
// slot can be read.
func (s *scheduler) seek(ctx context.Context) {
	if s.seeking = false; s.listing {
		s.relist = true
		return
	}
	s.startListing(ctx, listing{epoch: s.epoch, seeks: true})
}

func (s *scheduler) startListing(ctx context.Context, all listing) {
	s.listing, s.relist = true, false
	families := s.families
	s.tasks.Go(func() {
		for _, f := range families {
			cards, err := f.Cards(s.host)
			if err != nil {
				all.err = errors.Join(all.err, fmt.Errorf("%s: %w", f.Name(), err))
			}
			all.cards = append(all.cards, cards...)
		}
		select {
		case s.listed <- all:
		case <-ctx.Done():
		}
	})
}

// takeListing schedules a reading of every listed or known card. A known card that isn't listed is removed only if the
// reading doesn't find it or hangs.
func (s *scheduler) takeListing(ctx context.Context, found listing, now time.Time) {
	s.listing = false
	if found.epoch != s.epoch {
		s.list(ctx, s.allAt)
		return
	}
	listed := make(map[string]bool, len(found.cards))
	for _, address := range found.cards {
		listed[address] = true
	}
	for _, j := range s.jobs {
		if j.state == overdue && !listed[j.address] && found.err == nil {
			s.removeJob(j)
			s.relist = s.relist || found.seeks // the next card may have arrived in the meantime
		}
	}
	if !found.seeks {
		s.noteListing(found.err, now)
		s.readAll(ctx, listed, now)
	}
	if s.relist {
		s.list(ctx, s.allAt)
	}
}

// readAll schedules a reading of every listed or known card.
func (s *scheduler) readAll(ctx context.Context, listed map[string]bool, now time.Time) {
	for address := range listed {
		if s.jobs[address] == nil {
			s.jobs[address] = &job{address: address}
		}
	}
	how := wantRoutine
	if s.first == nil {
		how = wantNow // no limit, so that slow cards don't delay the first list
	}
	for _, j := range s.jobs {
		if j.hinted.IsZero() {
			j.hinted = s.allAt
		}
		s.request(j, how)
	}
	s.allAt = time.Time{}
	if s.first != nil || s.shortage.listing { // after a shortage, the next listing counts as the first
		return
	}
	s.first, s.firstUntil = make(map[string]bool, len(s.jobs)), now.Add(firstGrace)
	for address, j := range s.jobs {
		s.first[address] = true
		if !j.listed && j.state == overdue && !j.mayRead() {
			s.outline(ctx, j)
		}
	}
}

// noteListing counts a listing in the metrics. It logs once when cards can no longer be listed, and once when they can
// again.
func (s *scheduler) noteListing(err error, now time.Time) {
	if s.shortage.listing = sysfs.IsShortage(err); s.shortage.listing {
		s.cfg.Metrics.ListingStarved()
		s.noteShortage(err, now)
		return
	}
	s.cfg.Metrics.Listing(err)
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text != "" && text != s.listErr:
		s.log.Warn("cards could not be listed", logevent.ScanFailed, logevent.Err(err))
	case text == "" && s.listErr != "":
		s.log.Info("cards could be listed again", logevent.ScanRecovered)
	}
	s.listErr = text
}
