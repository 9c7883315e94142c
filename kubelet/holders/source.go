package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/podcgroup"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// Config describes the sources. Only Rules, Socket and KubeletDir are required. [New] sets defaults for Pod, Confirm
// and Admission.
type Config struct {
	Rules
	Socket      string       // the pod-resources API's socket
	KubeletDir  string       // directory of the kubelet's checkpoint
	CgroupRoot  string       // where the host's cgroups are mounted
	Allocations *Allocations // allocations made by this daemon
	Injected    *Injected    // nodes that containers got through CDI
	// StateDir is where a daemon stores the checkpoint's entries for our devices, for daemons that start later. If
	// Refresh is nil, the daemon also stores what it has learned about these entries. If StateDir is "", nothing is
	// stored.
	StateDir string
	// Claims returns the prepared claims' devices, by device id. It doesn't block on anything except reading a file.
	Claims func(context.Context) (map[string][]inventory.Holding, error)
	// Refresh resends an unchanged device list so that the kubelet rewrites its checkpoint. It doesn't block, and
	// reports whether a list will be sent.
	Refresh func() bool
}

// Source queries all sources. Create it with [New].
type Source struct {
	cfg  Config
	turn chan struct{} // full while a goroutine is using the fields below

	disk *privatedir.Turns // for writing to the state directory

	file  time.Time    // modification time of the checkpoint
	known knownEntries // content of the file in the state directory
	state State
	asked time.Time

	pods atomic.Pointer[map[Key][]string] // UIDs of the pods that have or had each device, according to the state

	mu     sync.Mutex // protects the rest
	reader checkpoint.Reader
	// seen contains the entries from all versions of the checkpoint that have been parsed since the newest query began.
	// Until the first query has ended, it also contains the entries that earlier daemons stored.
	seen     map[string]checkpoint.Entry
	unstored map[string]checkpoint.Entry // entries for our devices that have been parsed since they were last stored
}

// New returns a new Source. It reads the state directory, but doesn't query the sources yet.
func New(cfg Config) *Source {
	if cfg.Pod == "" {
		cfg.Pod, _ = os.Hostname()
	}
	cfg.Confirm, cfg.Admission = cmp.Or(cfg.Confirm, Confirm), cmp.Or(cfg.Admission, Admission)
	s := &Source{cfg: cfg, turn: make(chan struct{}, 1), disk: privatedir.NewTurns(cfg.StateDir), seen: map[string]checkpoint.Entry{}, unstored: map[string]checkpoint.Entry{}}
	if cfg.StateDir == "" {
		return s
	}
	type files struct {
		known knownEntries
		past  []checkpoint.Entry
	}
	read := make(chan files, 1)
	err := s.disk.Within(context.Background(), openWithin, func(context.Context) error {
		past, _, _ := readPast(cfg.StateDir)
		read <- files{readEntries(cfg.StateDir), past}
		return nil
	})
	if err == nil { // otherwise continue without the files, as if they were unreadable
		is := <-read
		if cfg.Refresh == nil { // with Refresh, the kubelet rewrites its checkpoint when asked to
			s.known = is.known
		}
		s.seen = named(is.past)
	}
	return s
}

const (
	// recent is how long [Source.Recent] reuses an answer. It reuses answers because the kubelet answers at most 100
	// requests per second across all clients.
	recent = time.Second
	// While the kubelet is about to write the checkpoint, it is reread every readAgain, for up to readAgainFor.
	readAgain    = 50 * time.Millisecond
	readAgainFor = 300 * time.Millisecond
	// maxHeld limits the number of devices in an answer that may be ours. A real node has a few dozen.
	maxHeld = 10_000
)

// Ask queries all sources and returns the current holders of each device.
func (s *Source) Ask(ctx context.Context) inventory.Holdings { return s.ask(ctx, 0) }

// Recent is like Ask, but returns the previous result if it is less than a second old and no device has been allocated
// since. It never writes to disk.
func (s *Source) Recent(ctx context.Context) inventory.Holdings { return s.ask(ctx, recent) }

func (s *Source) ask(ctx context.Context, age time.Duration) inventory.Holdings {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		err := context.Cause(ctx)
		return inventory.Holdings{Err: err, Missing: []inventory.MissingSource{{Name: "pod-resources", Err: err}}}
	}
	defer func() { <-s.turn }()
	if s.asked.IsZero() || time.Since(s.asked) >= age || s.cfg.Allocations != nil && s.cfg.Allocations.since(s.asked) {
		if age == 0 && s.cfg.Injected != nil { // Recent doesn't use the state directory
			s.cfg.Injected.refresh(context.WithoutCancel(ctx))
		}
		report, seen := s.report(ctx)
		s.asked, s.state = report.Asked, Merge(s.state, report, s.cfg.Rules)
		pods := s.state.podUIDs()
		s.pods.Store(&pods)
		if report.CheckpointErr == nil {
			s.forgetSeen(seen)
		}
		if age == 0 { // don't write in Recent, because its caller may be serving the kubelet
			if s.cfg.Injected != nil && s.state.whole && report.KubeletErr == nil {
				_ = s.cfg.Injected.forget(context.WithoutCancel(ctx), s.state.injects) // retried at the next query
			}
			s.remember(ctx)
		}
	}
	return s.state.Holdings()
}

// remember writes what is known about the checkpoint's entries if that has changed. It doesn't write anything while a
// source isn't answering, because an earlier daemon may have known more.
func (s *Source) remember(ctx context.Context) {
	now := s.state.known()
	now.Version, now.Checkpoint = 1, s.file
	if s.cfg.StateDir == "" || len(s.state.missing) > 0 || len(now.Ended)+len(now.Named) == 0 || now.equal(s.known) {
		return
	}
	err := s.disk.Within(context.WithoutCancel(ctx), diskWithin, func(context.Context) error { return now.write(s.cfg.StateDir) })
	if err == nil { // otherwise retry at the next query
		s.known = now
	}
}

// report queries the kubelet and reads the files. seen contains all entries that have been in the checkpoint since the
// previous query. If the kubelet has removed some of them even though their pods still have processes, report adds
// these to r.Checkpoint, unless the state has them already.
func (s *Source) report(ctx context.Context) (r Report, seen map[string]checkpoint.Entry) {
	r.Asked = time.Now()
	r.Answer, r.KubeletErr = podresources.List(ctx, s.cfg.Socket)
	r.Answered = time.Now()
	byID(r.Answer.Holders)
	if n := s.cfg.countOurs(r.Answer); n > maxHeld {
		r.Answer = podresources.Answer{}
		r.KubeletErr = fmt.Errorf("pod-resources socket %s: found %d devices that may be ours, want at most %d", s.cfg.Socket, n, maxHeld)
	}
	if s.cfg.Claims != nil {
		r.Claims, r.ClaimsErr = s.cfg.Claims(context.WithoutCancel(ctx)) // if the kubelet hangs, ctx may already be done
	}
	if s.cfg.Allocations != nil {
		r.Allocated = s.cfg.Allocations.All()
	}
	if s.cfg.Injected != nil {
		r.Injected = s.cfg.Injected.all()
	}
	seen = s.readCheckpoint(ctx, &r)
	removed := removedFrom(r.Checkpoint, seen)
	maps.DeleteFunc(removed, func(_ string, e checkpoint.Entry) bool { return s.state.has(e) })
	uids := s.state.unlisted(r, s.cfg.Rules)
	for _, e := range removed {
		uids = append(uids, e.PodUID)
	}
	r.Alive = podcgroup.Alive(s.cfg.CgroupRoot, uids)
	r.Checkpoint.Entries = slices.Clone(r.Checkpoint.Entries)
	for _, e := range removed {
		if r.Alive[e.PodUID] {
			r.Checkpoint.Entries = append(r.Checkpoint.Entries, e) // from the next query on, the state has it
		}
	}
	return r, seen
}

// read reads the checkpoint. It also returns how many versions of the file have been parsed so far, and all entries
// seen in them since the previous query, because the kubelet may remove a force-deleted pod's entry between queries.
func (s *Source) read() (record checkpoint.Record, files int, seen map[string]checkpoint.Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, err = s.readLocked()
	return record, s.reader.Files(), maps.Clone(s.seen), err
}

// readLocked reads the checkpoint. s.mu must be locked.
func (s *Source) readLocked() (checkpoint.Record, error) {
	files := s.reader.Files()
	record, err := s.reader.Read(s.cfg.KubeletDir)
	if s.reader.Files() > files {
		for _, e := range record.Entries {
			s.seen[nameOf(e)] = e
			if s.cfg.StateDir != "" && isOurs(e) {
				s.unstored[nameOf(e)] = e
			}
		}
	}
	return record, err
}

// nameOf returns a unique name for an entry.
func nameOf(e checkpoint.Entry) string {
	return e.Holder() + " " + e.Resource + " " + strings.Join(e.IDs, ",")
}

func (s *Source) forgetSeen(seen map[string]checkpoint.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range seen {
		delete(s.seen, key)
	}
}

// Ending returns the UIDs of pods that had one of these devices and still have processes, even though the kubelet is
// about to allocate the device to another container. Such pods were force-deleted a moment ago. Ending doesn't query
// the kubelet, which may be waiting for the daemon.
func (s *Source) Ending(resource string, ids []string) []string {
	record, _, seen, _ := s.read() // if it can't be read, the state still has the pods
	known := s.pods.Load()         // after seen, because a query that ends in between moves entries from seen to the state
	entries := slices.AppendSeq(slices.Clone(record.Entries), maps.Values(removedFrom(record, seen)))
	var uids []string
	for _, id := range ids {
		if known != nil {
			uids = append(uids, (*known)[Key{Resource: resource, ID: id}]...)
		}
		for _, e := range entries {
			if e.Resource == resource && slices.Contains(e.IDs, id) {
				uids = append(uids, e.PodUID)
			}
		}
	}
	return slices.Sorted(maps.Keys(podcgroup.Alive(s.cfg.CgroupRoot, uids)))
}

// readCheckpoint reads the kubelet's checkpoint, and rereads it while the kubelet is about to write it. If the
// checkpoint has entries for devices that aren't in the kubelet's answer, or vice versa, readCheckpoint makes the
// kubelet rewrite it once. It also returns the entries that had been seen by the time of the last read.
func (s *Source) readCheckpoint(ctx context.Context, r *Report) (seen map[string]checkpoint.Entry) {
	refreshed, replaced := false, false
	refresh := func() {
		if !refreshed && s.cfg.Refresh != nil {
			refreshed = s.cfg.Refresh()
		}
	}
	for first, files := true, 0; ; first = false {
		before := files
		r.Checkpoint, files, seen, r.CheckpointErr = s.read()
		replaced = replaced || !first && files > before
		s.file = r.Checkpoint.Written
		r.Known = s.known.of(s.file)
		r.Checkpoint.Written = written(r.Checkpoint.Written, r.Answered, replaced)
		leftover := s.cfg.leftover(*r) || errors.Is(r.CheckpointErr, fs.ErrNotExist)
		if leftover {
			refresh()
		}
		waited := time.Since(r.Answered)
		if waited >= readAgainFor/3 && s.cfg.lacks(*r) {
			refresh() // the kubelet may have overwritten the file with an older state
		}
		if waited >= readAgainFor || !(leftover && refreshed) && (waited >= readAgainFor/3 || s.cfg.DRA || !s.cfg.lacks(*r)) {
			return seen
		}
		select {
		case <-ctx.Done():
			return seen
		case <-time.After(readAgain):
		}
	}
}

// written corrects the checkpoint's modification time, which can be a few milliseconds behind the clock. It returns the
// zero time if the clock was set back, so that the modification time is in the future. replaced means that the
// checkpoint was seen to change after the kubelet's answer.
func written(at, answered time.Time, replaced bool) time.Time {
	if replaced && !at.After(answered) {
		at = answered.Add(1) // file times are a few milliseconds behind the clock
	}
	if at.After(time.Now().Add(time.Second)) {
		return time.Time{} // the clock was set back
	}
	return at
}

// countOurs returns the number of devices in an answer that may be ours.
func (r Rules) countOurs(answer podresources.Answer) (n int) {
	for key := range answer.Holders {
		if r.Owns(key.Resource, key.ID) || inventory.IsAddress(key.ID) {
			n++
		}
	}
	return n
}

// byID replaces the names that the DRA driver's devices have in the API with the devices' inventory ids.
func byID(held map[podresources.Key][]podresources.Holder) {
	for key, holders := range held {
		if id, ok := draname.ID(key.ID); ok && key.Resource == draname.Driver {
			delete(held, key)
			held[Key{Resource: key.Resource, ID: id}] = holders
		}
	}
}

// Record returns what a daemon can find out from files at startup: the devices that may be in use, and the device nodes
// that containers got along with them. An error means that devices may be missing from the result, because a file
// exists but can't be read.
func (s *Source) Record(ctx context.Context) (map[string][]inventory.Holding, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	r := Report{Asked: time.Now(), KubeletErr: errNotRecorded}
	var seen map[string]checkpoint.Entry
	r.Checkpoint, _, seen, r.CheckpointErr = s.read()
	r.Checkpoint.Entries = slices.Concat(r.Checkpoint.Entries, s.alive(removedFrom(r.Checkpoint, seen)))
	r.Known = s.known.of(r.Checkpoint.Written)
	if s.cfg.Claims != nil {
		r.Claims, r.ClaimsErr = s.cfg.Claims(ctx)
	}
	err := r.CheckpointErr
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // if access is denied, it stays denied
		err = nil
	}
	return Merge(State{}, r, s.cfg.Rules).Holdings().Of, errors.Join(err, r.ClaimsErr)
}
