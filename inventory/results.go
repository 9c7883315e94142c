package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// result is the result of one reading.
type result struct {
	job     *job
	number  int    // of the reading, counted separately for each job
	epoch   uint64 // the epoch of the families that read the card
	outline bool
	family  string
	reading Reading
	took    time.Duration
	same    bool  // a check showed that the known reading is still valid
	err     error // errGone if no family has this card; any other error means that the card couldn't be read
}

// outcome tells the node that a card is gone, that it was read, that a check found no change in it, or that only its
// trouble (the conditions of the card as a whole) has changed.
type outcome struct {
	address string
	cause   time.Time // when the hint arrived; zero if there was none
	gone    bool
	same    bool        // the node already has this reading
	family  string      // the family that read the card
	reading *Reading    // nil if the card wasn't read
	outline bool        // the reading is an outline
	trouble []Condition // conditions of the card as a whole; each unit also has its own
}

var errGone = fmt.Errorf("card is gone: %w", fs.ErrNotExist)

// start reads a card in a new goroutine, which sends the result to the loop. If r already contains a reading, the
// goroutine first checks whether that reading is still valid, and keeps it if so.
func (s *scheduler) start(ctx context.Context, r result, read func(Family, sysfs.Host, string) (Reading, error)) {
	r.epoch = s.epoch
	s.underWay[task{r.job.address, r.outline}]++
	families, address := s.families, r.job.address
	s.tasks.Go(func() {
		defer backlog.FlushOnPanic(s.log)
		began := time.Now()
		if r.same = len(r.reading.Observed) > 0 && sysfs.Unchanged(r.reading.Observed); !r.same {
			r.family, r.reading, r.err = readCard(families, s.host, address, read)
		}
		r.took = time.Since(began)
		select {
		case s.results <- r:
		case <-ctx.Done():
		}
	})
}

// readCard returns the reading of the first family that finds units. If none does, it returns the reading of the last
// family that knows the card.
func readCard(families []Family, host sysfs.Host, address string, read func(Family, sysfs.Host, string) (Reading, error)) (family string, found Reading, err error) {
	var trouble error
	err = errGone
	for _, f := range families {
		reading, ferr := read(f, host, address)
		if ferr == nil {
			ferr = reading.Shortage()
		}
		switch {
		case ferr == nil && len(reading.Units) > 0:
			return f.Name(), reading, nil
		case ferr == nil:
			family, found, err = f.Name(), reading, nil
		case !sysfs.Gone(ferr):
			trouble = errors.Join(trouble, fmt.Errorf("%s: %w", f.Name(), ferr))
		}
	}
	if trouble != nil {
		return "", Reading{}, trouble
	}
	return family, found, err
}

// take handles a reading's result, or discards it if it is late.
func (s *scheduler) take(ctx context.Context, r result, now time.Time) {
	j := r.job
	j.outlined = j.outlined && !r.outline
	if t := (task{j.address, r.outline}); s.underWay[t] > 1 {
		s.underWay[t]--
	} else {
		delete(s.underWay, t)
	}
	switch next := s.jobs[j.address]; {
	case next == nil:
		return // the card was removed
	case next != j: // there is a different card in the slot, which may be waiting for the old card's readings to return
		s.queue(next)
		return
	case r.outline:
		s.takeOutline(j, r)
		return
	case r.number != j.newest || j.state != reading:
		s.takeLate(j, r, now)
		return
	}
	s.setState(j, idle)
	s.measure(r)
	switch {
	case r.err == nil:
		s.takeReading(j, r)
	case errors.Is(r.err, errGone) && j.want == wantNothing:
		s.removeJob(j)
		return
	case errors.Is(r.err, errGone):
		s.removeDevices(j) // the card will be read again
	case sysfs.IsShortage(r.err):
		s.starve(j, r.err, now)
	default:
		s.failed(ctx, j, r.err, now)
	}
	s.countUnreadable(j)
	s.queue(j) // another reading may have been requested
}

// takeReading handles a successful reading.
func (s *scheduler) takeReading(j *job, r result) {
	if j.recoveryFailed && r.number > j.givenUpAt && r.reading.answers() {
		j.recoveryFailed = false
	}
	if j.failures > 0 {
		s.log.Info("card could be read again", logevent.ScanRecovered, logevent.PCI(j.address), logevent.Count(j.failures))
	}
	j.known, j.wasRead, j.failures = r, true, 0
	j.starved, j.unchecked = time.Time{}, false
	delete(s.first, j.address)
	s.found(j, r)
	if len(r.reading.Units) == 0 {
		s.discover(r.reading.Related, j.answered)
	}
	for name, h := range j.nodeHints {
		if slices.Contains(j.nodes, name) {
			s.hintCard(j.address, h)
		}
	}
}

// takeOutline handles the result of an outline, but ignores it if the card could be read in the meantime.
func (s *scheduler) takeOutline(j *job, r result) {
	if r.epoch != s.epoch {
		return
	}
	delete(s.first, j.address)
	if r.err == nil && len(j.trouble()) > 0 && !j.listed {
		s.found(j, r)
	}
}

// takeLate handles a late reading. The result is discarded, because it may be out of date. If there is no newer
// reading, the card is read again.
func (s *scheduler) takeLate(j *job, r result, now time.Time) {
	j.stuck--
	if r.number == j.newest && j.state == overdue {
		s.setState(j, idle)
		s.log.Info("slow read finished", logevent.ReadRecovered, logevent.PCI(j.address), logevent.Lasted(now.Sub(j.started)))
		s.request(j, wantNow)
		return
	}
	s.queue(j) // a request may have been waiting because too many readings were hanging
}

// measure counts a reading in the metrics, separately for each kind of result.
func (s *scheduler) measure(r result) {
	switch m := s.cfg.Metrics; {
	case r.err == nil:
		m.ScanDone(r.took)
	case errors.Is(r.err, errGone):
		m.ScanGone(r.took)
	case sysfs.IsShortage(r.err):
		m.ScanStarved(r.took)
	default:
		m.ScanFailed(r.took)
	}
}

// found records and reports a card's reading or outline.
func (s *scheduler) found(j *job, r result) {
	if !r.same {
		j.listed, j.nodes = len(r.reading.Units) > 0, j.nodes[:0]
		for _, u := range r.reading.Units {
			j.nodes = append(append(j.nodes, u.Nodes...), u.ParentNodes...)
		}
		s.setRelated(j, r.reading.Related)
	}
	s.report(j, outcome{cause: j.answered, family: r.family, reading: &r.reading, outline: r.outline, same: r.same})
}

// report adds the card's current trouble to an outcome, and records the outcome for the loop.
func (s *scheduler) report(j *job, o outcome) {
	o.address, o.trouble = j.address, j.trouble()
	s.outcomes = append(s.outcomes, o)
}

// takeOutcomes returns the outcomes since the last call.
func (s *scheduler) takeOutcomes() []outcome {
	all := s.outcomes
	s.outcomes = nil
	return all
}

// failed counts a failed reading. If a card has been read before, its devices keep their state until
// failuresUntilUnhealthy readings have failed. At most one failure is counted per health interval, so that a burst of
// hints doesn't make the devices unhealthy sooner.
func (s *scheduler) failed(ctx context.Context, j *job, err error, now time.Time) {
	j.starved, j.unchecked = time.Time{}, false
	counts := j.failures == 0 || now.Sub(j.failedAt) >= s.cfg.HealthInterval
	if counts {
		j.failures, j.failedAt = j.failures+1, now
	}
	log := s.log.Debug
	if counts && (j.failures == 1 || j.failures == failuresUntilUnhealthy) {
		log = s.log.Warn
	}
	log("card could not be read", logevent.ScanFailed, logevent.PCI(j.address), logevent.Count(j.failures), logevent.Err(err))
	if len(j.trouble()) > 0 {
		s.markUnreadable(ctx, j)
	}
}

// markUnreadable makes a card's devices unhealthy because the card can't be read. If the card's devices aren't known,
// it starts to read the card's outline in order to find them.
func (s *scheduler) markUnreadable(ctx context.Context, j *job) {
	s.report(j, outcome{cause: j.answered})
	if j.listed {
		delete(s.first, j.address)
		return
	}
	s.outline(ctx, j)
}

// outline starts to read the outline of a card, unless that is already in progress. Like a full reading, it may hang.
func (s *scheduler) outline(ctx context.Context, j *job) {
	if !j.outlined && !s.full(task{j.address, true}) {
		j.outlined = true
		s.start(ctx, result{job: j, outline: true}, Family.Outline)
	}
}

// trouble returns the conditions of the card as a whole: that it can't be read, and that the kernel gave up recovering
// it.
func (j *job) trouble() []Condition {
	var all []Condition
	switch {
	case j.state == overdue:
		all = append(all, Condition{Reason: ReasonReadTimeout, Health: Unhealthy})
	case j.unchecked:
		all = append(all, Condition{Reason: ReasonUnchecked, Health: Unhealthy})
	case j.failures >= failuresUntilUnhealthy, j.failures > 0 && !j.wasRead:
		all = append(all, Condition{Reason: ReasonScanFailed, Health: Unhealthy})
	}
	if j.recoveryFailed {
		all = append(all, Condition{Reason: ReasonRecoveryFailed, Health: Unhealthy})
	}
	return all
}

// countUnreadable updates the number of cards whose last reading failed or is overdue.
func (s *scheduler) countUnreadable(j *job) {
	switch is := s.jobs[j.address] == j && (j.state == overdue || j.failures > 0); {
	case is == s.unreadable[j]:
		return
	case is:
		s.unreadable[j] = true
	default:
		delete(s.unreadable, j)
	}
	s.cfg.Metrics.CardsUnreadable(len(s.unreadable))
}
