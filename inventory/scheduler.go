package inventory

import (
	"context"
	"slices"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

const (
	// firstGrace is how long an epoch's first snapshot waits for all cards to be read. Without this wait, the list
	// would grow card by card, and pods that are readmitted after a boot would lose their devices.
	firstGrace = 250 * time.Millisecond
	// maxRoutineReads limits how many cards from the routine queue are read concurrently. A reading takes up a thread
	// while it waits for hardware, or two if it is slow and has a hedged read. Cards from the queue for immediate
	// readings don't count, and neither do overdue readings.
	maxRoutineReads = 32
	// maxStuck is how many readings of one card may hang at the same time. There can be more than one because a hint
	// for a card whose newest reading hangs starts another reading, in case the card in the slot has been replaced.
	maxStuck = 3
	// maxInSlot is how many readings of one PCI address may hang; outlines have a separate limit of the same size.
	// Readings of cards that have left the slot also count, because each takes up a thread until it returns. The limit
	// is high enough that a new card in the slot is read even if readings of previous cards are still hanging.
	maxInSlot = 4 * maxStuck
	// failuresUntilUnhealthy is the number of consecutive readings that must fail before a card's devices become
	// unhealthy. If the card hasn't been read since it was plugged in, a single failure is enough.
	failuresUntilUnhealthy = 3
	// leaveReadersAfter is how long Run waits for hanging readings before returning.
	leaveReadersAfter = time.Second
)

// scheduler decides when each card is read. It reports what it finds out about a card as an [outcome], which the loop
// passes to the node. It doesn't know anything about devices. Only the loop uses it.
type scheduler struct {
	*Inventory
	families []Family
	epoch    uint64         // increases each time the families change; results from earlier epochs are discarded
	tasks    sync.WaitGroup // all goroutines that the loop starts

	jobs       map[string]*job            // by card address
	reading    map[*job]bool              // jobs whose newest reading is in progress and not overdue
	unreadable map[*job]bool              // jobs whose last reading failed or is overdue
	underWay   map[task]int               // readings and outlines that haven't returned, even for cards that have left
	related    map[string]map[string]bool // address -> the cards whose readings list it as related
	now        []*job                     // queue of cards to be read immediately
	routine    []*job                     // queue of cards to be read in turn, a limited number at a time
	busy       int                        // readings from the routine queue that are in progress and not overdue

	results  chan result
	listed   chan listing
	resolved chan resolution
	listing  bool      // a listing is in progress
	relist   bool      // another listing follows the one in progress
	allAt    time.Time // arrival time of the first hint for everything since the last listing
	seeking  bool      // overdue cards must be listed, because there was a hint for one
	listErr  string    // last listing error, so that it is logged only once
	outcomes []outcome // outcomes that the loop hasn't taken yet, in order

	// first contains the cards from this epoch's first listing that haven't been read yet. It is nil before that
	// listing. The first snapshot is published once first is empty, or at firstUntil at the latest. After that,
	// firstUntil is zero.
	first      map[string]bool
	firstUntil time.Time

	shortage shortage
}

// task identifies either the readings or the outlines of all cards that have been in one slot.
type task struct {
	address string
	outline bool
}

// job tracks the readings of one card.
type job struct {
	address string
	related []string // from the newest reading

	want   want
	queued want // the queue that the job is in; wantNothing if it is in neither

	state    state
	newest   int       // the newest reading's number
	started  time.Time // when the newest reading started
	hedged   bool      // a hedged read was started for the newest reading
	counted  bool      // the newest reading is counted in scheduler.busy
	outlined bool      // an outline is in progress
	stuck    int       // readings in progress whose results will be discarded (overdue, superseded, or the later of two)
	known    result    // the newest successful reading, used by checks; zero if there is none for these families
	nodes    []string  // the device nodes in the newest reading or outline
	listed   bool      // a reading or outline through this epoch's families has found units
	wasRead  bool      // the card has been read since it was plugged in

	hinted    time.Time       // first hint since the newest reading began; zero if there was none
	answered  time.Time       // first hint that led to the newest reading; the cause of any changes it finds
	nodeHints map[string]Hint // hints for nodes since the newest reading began, by node name

	failures int       // consecutive failed readings, at most one per health interval
	failedAt time.Time // when the last failure was counted
	starved  time.Time // when readings started to fail because of a shortage; zero if the newest one didn't
	// unchecked means that all readings have been failing for too long because of a shortage.
	unchecked bool

	recoveryFailed bool // the kernel gave up recovering the card, and no reading has succeeded since
	givenUpAt      int  // number of the newest reading when the kernel gave up
}

// want is how soon a card must be read.
type want uint8

const (
	wantNothing want = iota
	wantCheck        // in turn, and only if the card has changed since the last reading
	wantRoutine      // in turn
	wantNow          // ahead of the routine queue, with no limit on the number of readings
)

// state is the state of a card's newest reading.
type state uint8

const (
	idle    state = iota
	reading       // in progress
	overdue       // in progress for longer than the read timeout
)

func newScheduler(inv *Inventory) *scheduler {
	return &scheduler{
		Inventory: inv, families: inv.cfg.Policy.Families,
		jobs: make(map[string]*job), reading: make(map[*job]bool), unreadable: make(map[*job]bool),
		underWay: make(map[task]int), related: make(map[string]map[string]bool),
		results: make(chan result), listed: make(chan listing), resolved: make(chan resolution),
	}
}

// use replaces the families, and has all cards listed and read again through the new ones. The results of readings in
// progress will be discarded.
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

// hintCard requests readings of a card and its related cards, ahead of the routine queue.
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

// request adds a card to a queue. If the card is already being read, it is read again afterwards, because the reading
// in progress may have read a file before it changed.
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

// mayRead reports whether another reading of the card may be started.
func (j *job) mayRead() bool {
	return j.state == idle || j.state == overdue && j.want == wantNow && j.stuck < maxStuck
}

// full reports whether too many of a slot's readings or outlines are hanging.
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

// read starts reading a card, or just checking it if that is enough. If too many readings of its slot are hanging, the
// card is treated as hanging too, and is read once one of those readings returns.
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

// discover requests a reading for each address that isn't known yet. The addresses are those related to a function
// without units, and one of them is the address of that function's card. hinted is when the hint for the function
// arrived, or zero if there was none. If there was a hint, a card that is being read is read once more, because the
// reading in progress may have begun before the function was there and so may not find a card.
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

// setState sets the state of the newest reading. It also updates the set of readings in progress and the number of
// routine readings.
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
			// Start a hedged read, which may avoid whatever is delaying the first one. For example, if the kernel
			// starts programming the card after the first reading has begun, that reading blocks on the FME's locked
			// files, which a later reading skips. Whichever result arrives first is used.
			j.hedged = true
			if j.stuck+1 < maxStuck && !s.full(task{j.address, false}) {
				j.stuck++ // the later of the two results is discarded
				s.start(ctx, result{job: j, number: j.newest}, Family.Read)
			}
		}
	}
}

// giveUp makes an overdue card's devices unhealthy.
func (s *scheduler) giveUp(ctx context.Context, j *job) {
	j.starved, j.unchecked = time.Time{}, false
	s.countUnreadable(j)
	s.markUnreadable(ctx, j)
}

// recheck requests readings of cards whose devices may change even though the cards don't. It skips overdue cards,
// which are read again anyway.
func (s *scheduler) recheck(addresses []string) {
	for _, address := range addresses {
		if j := s.jobs[address]; j != nil && j.state != overdue {
			s.request(j, wantNow)
		}
	}
}

// progress reports how far along this epoch's first list is. answered says whether the holders are known.
func (s *scheduler) progress(now time.Time, answered bool) progress {
	read := s.first != nil && len(s.first) == 0
	late := !s.firstUntil.IsZero() && !now.Before(s.firstUntil)
	return progress{read: read, due: read && answered || late}
}

// next returns the next time at which onTime must be called, or zero.
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

// tick is called once per health interval. It requests a check of each steady card and a reading of every other card.
// It also logs the end of a shortage, once all cards have been listed and read again.
func (s *scheduler) tick(ctx context.Context, steady map[string]bool) {
	starved := s.shortage.listing
	for _, j := range s.jobs {
		starved = starved || !j.starved.IsZero()
		if steady[j.address] {
			s.request(j, wantCheck)
		} else {
			s.request(j, wantRoutine)
		}
		if j.state == overdue && !j.listed { // the previous outline failed
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

// setRelated sets the addresses whose hints also apply to a card.
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

// removeJob removes a card that is gone. The results of its readings in progress will be discarded.
func (s *scheduler) removeJob(j *job) {
	s.removeDevices(j)
	s.setState(j, idle)
	delete(s.first, j.address)
	delete(s.jobs, j.address)
	s.countUnreadable(j)
}

// awaitTasks waits for all goroutines. A reading that hangs in the kernel can't be stopped, so after leaveReadersAfter
// it is logged and abandoned.
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
