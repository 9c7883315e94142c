package inventory

import (
	"context"
	"slices"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

const (
	// firstGrace is how long the first snapshot of an epoch waits until all cards have been read.
	// If the list grew card by card, pods that are re-admitted after a boot would lose their
	// devices.
	firstGrace = 250 * time.Millisecond
	// maxRoutineReads is the greatest number of cards of the routine queue that are read at the
	// same time. A reading takes a thread while it waits for hardware, and two if it is slow and
	// has a hedged read. Cards of the other queue and overdue readings do not count.
	maxRoutineReads = 32
	// maxStuck is how many readings of one card may hang at the same time. When a hint arrives for a card whose newest
	// reading hangs, another reading is started, because the card in the slot may have been replaced.
	maxStuck = 3
	// maxInSlot is how many readings of one PCI address may hang, and how many outlines. Readings of cards that have
	// left the slot also count, because each takes a thread until it returns. The limit is high enough that a new card
	// in the slot is read even if the readings of the cards before it hang.
	maxInSlot = 4 * maxStuck
	// failuresUntilUnhealthy is the number of readings in a row that must fail before the devices of the card become
	// unhealthy. One failure is enough for a card that has not been read since it was plugged in.
	failuresUntilUnhealthy = 3
	// leaveReadersAfter is how long Run waits at its end for readings that hang.
	leaveReadersAfter = time.Second
)

// scheduler decides when each card is read. It reports what it finds out about a card as an [outcome], which the loop
// passes to the node. The scheduler knows nothing about devices. Only the loop uses it.
type scheduler struct {
	*Inventory
	families []Family
	epoch    uint64         // grows with each change of the families; results of earlier epochs are discarded
	tasks    sync.WaitGroup // every goroutine that the loop starts

	jobs       map[string]*job            // by the address of the card
	reading    map[*job]bool              // jobs whose newest reading is under way and not overdue
	unreadable map[*job]bool              // jobs whose last reading failed or is overdue
	underWay   map[task]int               // readings and outlines that have not returned, also of cards that have left
	related    map[string]map[string]bool // address -> the cards whose readings name it as related
	now        []*job                     // queue of cards to be read at once
	routine    []*job                     // queue of cards to be read in turn, a limited number at a time
	busy       int                        // readings of the routine queue that are under way and not overdue

	results  chan result
	listed   chan listing
	resolved chan resolution
	listing  bool      // a listing is under way
	relist   bool      // another listing follows the one under way
	allAt    time.Time // time of the first hint for everything since the last listing
	seeking  bool      // overdue cards must be listed, because there was a hint for one
	listErr  string    // last error of a listing, so that it is logged once
	outcomes []outcome // that the loop has not taken yet, in their order

	// first contains the cards of the first listing of this epoch that have not been read yet. It is nil before that
	// listing. The first snapshot is published when first is empty, or at firstUntil, which is zero afterwards.
	first      map[string]bool
	firstUntil time.Time

	shortage shortage
}

// task identifies the readings, or the outlines, of the cards in a slot.
type task struct {
	address string
	outline bool
}

// job is the state of reading one card.
type job struct {
	address string
	related []string // of the newest reading

	want   want
	queued want // the queue that the job is in; wantNothing: none

	state    state
	newest   int       // number of the newest reading
	started  time.Time // of the newest reading
	hedged   bool      // a hedged read was started for the newest reading
	counted  bool      // the newest reading counts in scheduler.busy
	outlined bool      // an outline is under way
	stuck    int       // readings under way whose results will be discarded: overdue, superseded, or the later of two
	known    result    // the newest good reading, which a check uses; zero: there is none of this card through these families
	nodes    []string  // the device nodes in the newest reading or outline
	listed   bool      // a reading or an outline through the families of this epoch has found units
	wasRead  bool      // the card has been read since it was plugged in

	hinted    time.Time       // first hint since the newest reading began; zero: none
	answered  time.Time       // first hint before the newest reading: the cause of its changes
	nodeHints map[string]Hint // hints for nodes since the newest reading began, by name

	failures int       // failed readings in a row, one per health interval at most
	failedAt time.Time // when the last one was counted
	starved  time.Time // since when each reading has failed because of a shortage; zero: the newest has not
	// unchecked: each reading has failed because of a shortage for too long.
	unchecked bool

	recoveryFailed bool // the kernel gave up recovering the card, and no later reading was good
	givenUpAt      int  // number of the newest reading when the kernel gave up
}

// want is how soon a card must be read.
type want uint8

const (
	wantNothing want = iota
	wantCheck        // in turn, and only if the card has changed since the last reading
	wantRoutine      // in turn
	wantNow          // before the routine queue, and without a limit on the number of readings
)

// state is the state of the newest reading of a card.
type state uint8

const (
	idle    state = iota
	reading       // under way
	overdue       // under way for longer than the read timeout
)

func newScheduler(inv *Inventory) *scheduler {
	return &scheduler{
		Inventory: inv, families: inv.cfg.Policy.Families,
		jobs: make(map[string]*job), reading: make(map[*job]bool), unreadable: make(map[*job]bool),
		underWay: make(map[task]int), related: make(map[string]map[string]bool),
		results: make(chan result), listed: make(chan listing), resolved: make(chan resolution),
	}
}

// use lists all cards and reads them again through these families. The results of readings that are
// under way will be discarded.
func (s *scheduler) use(ctx context.Context, families []Family, now time.Time) {
	s.families = families
	s.epoch++
	for _, j := range s.jobs {
		j.answered, j.listed, j.known = time.Time{}, false, result{}
		if j.state != reading {
			continue
		}
		j.stuck++
		if j.stuck < maxStuck {
			s.setState(j, idle)
		} else {
			s.setState(j, overdue)
		}
	}
	s.first, s.firstUntil = nil, now.Add(firstGrace)
	s.list(ctx, time.Time{})
}

// hintCard requests a reading of a card, and of the cards to which it is related, before the routine
// queue.
func (s *scheduler) hintCard(address string, h Hint) {
	s.log.Debug("hint received", logevent.HintReceived, logevent.PCI(address), logevent.Source(h.Source))
	if s.jobs[address] == nil {
		s.jobs[address] = &job{address: address}
	}
	hinted := []*job{s.jobs[address]}
	for card := range s.related[address] {
		hinted = append(hinted, s.jobs[card])
	}
	for _, j := range hinted {
		if j.hinted.IsZero() {
			j.hinted = h.At
		}
		if h.RecoveryFailed {
			j.recoveryFailed, j.givenUpAt, j.answered = true, j.newest, h.At
			s.report(j, outcome{cause: h.At})
		}
		s.request(j, wantNow)
		s.seeking = s.seeking || j.state == overdue && (!j.mayRead() || s.full(task{j.address, false}))
	}
}

// request adds a card to a queue. A card that is being read is read again when that reading has returned, because the
// file that has changed may have been read before the change.
func (s *scheduler) request(j *job, w want) {
	j.want = max(j.want, w)
	s.queue(j)
}

func (s *scheduler) queue(j *job) {
	if j.want <= j.queued || !j.mayRead() {
		return
	}
	j.queued = j.want
	if j.want == wantNow {
		s.now = append(s.now, j)
	} else {
		s.routine = append(s.routine, j)
	}
}

// mayRead reports whether a reading may be started.
func (j *job) mayRead() bool {
	return j.state == idle || j.state == overdue && j.want == wantNow && j.stuck < maxStuck
}

// full reports whether too many readings or outlines of a slot hang.
func (s *scheduler) full(t task) bool { return s.underWay[t] >= maxInSlot }

// startReadings starts the readings that are due. A card that is in both queues is read once.
func (s *scheduler) startReadings(ctx context.Context, now time.Time) {
	if s.seeking {
		s.seek(ctx)
	}
	for _, j := range s.now {
		j.queued = wantNothing
		if j.want == wantNow && j.mayRead() {
			s.read(ctx, j, now)
		}
	}
	s.now = s.now[:0]
	for len(s.routine) > 0 && s.busy < maxRoutineReads {
		j := s.routine[0]
		s.routine = s.routine[1:]
		j.queued = wantNothing
		if (j.want == wantRoutine || j.want == wantCheck) && j.mayRead() {
			s.busy++
			j.counted = true
			s.read(ctx, j, now)
		}
	}
}

// read starts the reading of a card, or a check if that is enough. If too many readings of its slot hang, the card counts
// as one that hangs, and is read when one of them returns.
func (s *scheduler) read(ctx context.Context, j *job, now time.Time) {
	if s.full(task{j.address, false}) {
		j.want = wantNow
		if s.setState(j, overdue); !s.unreadable[j] {
			s.log.Warn("card not read because too many reads of its slot hang", logevent.ReadTimeout, logevent.PCI(j.address))
		}
		s.giveUp(ctx, j)
		return
	}
	r := result{job: j}
	if j.want == wantCheck && j.failures == 0 && j.starved.IsZero() {
		r.family, r.reading = j.known.family, j.known.reading
	}
	j.newest++
	r.number = j.newest
	j.want, j.queued, j.hedged, j.started, j.nodeHints = wantNothing, wantNothing, false, now, nil
	j.answered, j.hinted = j.hinted, time.Time{}
	s.setState(j, reading)
	s.start(ctx, r, Family.Read)
}

// discover requests readings of the addresses that are not known yet. They come from a function without units, which
// names the card that it belongs to: it may have been plugged in after that card. hinted is the time of the hint for
// the function, or zero if there was none. After a hint, a card that is being read is read once more, because that
// reading may have begun before the function was there, and find no card.
func (s *scheduler) discover(addresses []string, hinted time.Time) {
	for _, address := range addresses {
		switch j := s.jobs[address]; {
		case j == nil:
			j = &job{address: address, hinted: hinted}
			s.jobs[address] = j
			s.request(j, wantNow)
		case j.state == reading && !hinted.IsZero():
			if j.hinted.IsZero() {
				j.hinted = hinted
			}
			s.request(j, wantNow)
		}
	}
}

// setState sets the state of the newest reading. It also keeps the set of readings under way and the count of routine
// ones up to date.
func (s *scheduler) setState(j *job, to state) {
	j.state = to
	if to == reading {
		s.reading[j] = true
		return
	}
	delete(s.reading, j)
	if j.counted {
		s.busy--
		j.counted = false
	}
}

// onTime handles slow and overdue readings.
func (s *scheduler) onTime(ctx context.Context, now time.Time) {
	for j := range s.reading {
		switch took := now.Sub(j.started); {
		case took >= s.cfg.ReadTimeout:
			j.stuck++
			s.setState(j, overdue)
			s.cfg.Metrics.ScanTimeout(took)
			s.log.Warn("read timed out", logevent.ReadTimeout, logevent.PCI(j.address), logevent.Lasted(took))
			s.giveUp(ctx, j)
			s.queue(j)
		case took >= s.cfg.ReadTimeout/2 && !j.hedged:
			// A slow reading gets a hedged read, which may avoid the cause of the delay: if the
			// kernel begins to program after the first reading has begun, that reading waits for the
			// locked errors of the FME, and a later reading does not read them. The first result of
			// the two is used.
			j.hedged = true
			if j.stuck+1 < maxStuck && !s.full(task{j.address, false}) {
				j.stuck++ // the later result of the two is discarded
				s.start(ctx, result{job: j, number: j.newest}, Family.Read)
			}
		}
	}
}

// giveUp makes the devices of an overdue card unhealthy.
func (s *scheduler) giveUp(ctx context.Context, j *job) {
	j.starved, j.unchecked = time.Time{}, false
	s.countUnreadable(j)
	s.markUnreadable(ctx, j)
}

// recheck requests readings of cards whose devices may change without a change of the card. After an overdue reading, a
// card is read anyway.
func (s *scheduler) recheck(addresses []string) {
	for _, address := range addresses {
		if j := s.jobs[address]; j != nil && j.state != overdue {
			s.request(j, wantNow)
		}
	}
}

// progress reports how far the first list of this epoch is. answered reports whether the holders are known.
func (s *scheduler) progress(now time.Time, answered bool) progress {
	read := s.first != nil && len(s.first) == 0
	late := !s.firstUntil.IsZero() && !now.Before(s.firstUntil)
	return progress{read: read, due: read && answered || late}
}

// next returns the earliest time at which onTime must be called, or zero.
func (s *scheduler) next() time.Time {
	next := s.firstUntil
	for j := range s.reading {
		after := s.cfg.ReadTimeout
		if !j.hedged {
			after /= 2
		}
		next = earlier(next, j.started.Add(after))
	}
	return next
}

// tick requests a check of each steady card, and readings of the others, once per health interval. It also logs the end
// of a shortage, once all cards have been listed and read again.
func (s *scheduler) tick(ctx context.Context, steady map[string]bool) {
	starved := s.shortage.listing
	for _, j := range s.jobs {
		starved = starved || !j.starved.IsZero()
		if steady[j.address] {
			s.request(j, wantCheck)
		} else {
			s.request(j, wantRoutine)
		}
		if j.state == overdue && !j.listed { // the earlier outline failed
			s.outline(ctx, j)
		}
	}
	if !starved && !s.shortage.since.IsZero() {
		s.log.Info("file descriptors and memory available again", logevent.DaemonRecovered, logevent.Lasted(s.shortage.last.Sub(s.shortage.since)))
		s.shortage.since = time.Time{}
	}
	if s.shortage.listing {
		s.list(ctx, time.Time{})
	}
}

// setRelated sets the addresses whose hints also concern a card.
func (s *scheduler) setRelated(j *job, addresses []string) {
	if slices.Equal(j.related, addresses) {
		return
	}
	for _, address := range j.related {
		delete(s.related[address], j.address)
		if len(s.related[address]) == 0 {
			delete(s.related, address)
		}
	}
	j.related = addresses
	for _, address := range addresses {
		if address == j.address {
			continue
		}
		if s.related[address] == nil {
			s.related[address] = make(map[string]bool)
		}
		s.related[address][j.address] = true
	}
}

// removeDevices removes the devices of a card that is gone.
func (s *scheduler) removeDevices(j *job) {
	s.setRelated(j, nil)
	j.starved, j.unchecked = time.Time{}, false
	j.nodes, j.listed, j.wasRead, j.known = nil, false, false, result{}
	s.report(j, outcome{cause: j.answered, gone: true})
}

// removeJob removes a card that is gone. The results of its readings that are under way will be
// discarded.
func (s *scheduler) removeJob(j *job) {
	s.removeDevices(j)
	s.setState(j, idle)
	delete(s.first, j.address)
	delete(s.jobs, j.address)
	s.countUnreadable(j)
}

// awaitTasks waits for all goroutines. A reading that hangs in the kernel cannot be ended: after
// leaveReadersAfter it is logged and abandoned.
func (s *scheduler) awaitTasks() {
	done := make(chan struct{})
	go func() { s.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(leaveReadersAfter):
		for _, j := range s.jobs {
			if j.state == reading || j.stuck > 0 {
				s.log.Warn("hung read abandoned", logevent.ReadTimeout, logevent.PCI(j.address), logevent.Lasted(time.Since(j.started)))
			}
		}
	}
}
