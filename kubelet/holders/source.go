package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// Config says where the sources are. Only Rules, Socket and KubeletDir are required. [New] fills in Pod, Confirm and Admission.
type Config struct {
	Rules
	Socket      string       // of the pod-resources API
	KubeletDir  string       // with the kubelet's checkpoint
	Allocations *Allocations // by this daemon
	Injected    *Injected    // by CDI
	// StateDir is where a daemon without Refresh stores what it knows about the entries of the checkpoint; "": nowhere.
	StateDir string
	// Claims returns the devices of the prepared claims, by id. It reads a file, and does not wait for anything else.
	Claims func(context.Context) (map[string][]inventory.Holding, error)
	// Refresh makes the kubelet write its checkpoint again, by sending it a list that it has already. It does not block,
	// and reports whether the kubelet gets a list.
	Refresh func() bool
}

// Source asks the sources. Create it with [New].
type Source struct {
	cfg  Config
	turn chan struct{} // full while a caller uses the fields below

	disk *privatedir.Turns // to write the state directory

	reader checkpoint.Reader
	file   time.Time    // of the checkpoint
	known  knownEntries // in the state directory
	state  State
	asked  time.Time
}

// New returns a source. It reads the state directory, but asks no source yet.
func New(cfg Config) *Source {
	if cfg.Pod == "" {
		cfg.Pod, _ = os.Hostname()
	}
	cfg.Confirm, cfg.Admission = cmp.Or(cfg.Confirm, Confirm), cmp.Or(cfg.Admission, Admission)
	s := &Source{cfg: cfg, turn: make(chan struct{}, 1), disk: privatedir.NewTurns(cfg.StateDir)}
	if cfg.StateDir != "" && cfg.Refresh == nil { // else the kubelet is asked to write its checkpoint again
		read := make(chan knownEntries, 1)
		err := s.disk.Within(context.Background(), openWithin, func(context.Context) error { read <- readEntries(cfg.StateDir); return nil })
		if err == nil { // else it counts as a file that cannot be read
			s.known = <-read
		}
	}
	return s
}

const (
	// recent is the longest time for which [Source.Recent] uses an answer. The kubelet answers 100 requests a second,
	// for all its clients together.
	recent = time.Second
	// readAgain and readAgainFor are how often and how long the checkpoint is read again if the kubelet is about to
	// write it.
	readAgain    = 50 * time.Millisecond
	readAgainFor = 300 * time.Millisecond
	// maxHeld is the greatest number of devices in an answer that may be ours. A node has some dozens.
	maxHeld = 10_000
)

// Ask asks all sources, and returns who uses which device.
func (s *Source) Ask(ctx context.Context) inventory.Holdings { return s.ask(ctx, 0) }

// Recent is like Ask, but returns the last answer if it is less than a second old and no device has been given out
// since. It writes nothing to the disk.
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
		report := s.report(ctx)
		s.asked, s.state = report.Asked, Merge(s.state, report, s.cfg.Rules)
		if age == 0 { // else the caller may serve the kubelet
			if s.cfg.Injected != nil && s.state.settled() {
				_ = s.cfg.Injected.forget(context.WithoutCancel(ctx), s.state.injects) // it is tried again
			}
			s.remember(ctx)
		}
	}
	return s.state.Holdings()
}

// remember writes what is known about the entries of the checkpoint, if that has changed. While a source does not answer,
// an earlier daemon may know more.
func (s *Source) remember(ctx context.Context) {
	now := s.state.known()
	now.Version, now.Checkpoint = 1, s.file
	if s.cfg.StateDir == "" || len(s.state.missing) > 0 || len(now.Ended)+len(now.Named) == 0 || now.equal(s.known) {
		return
	}
	err := s.disk.Within(context.WithoutCancel(ctx), diskWithin, func(context.Context) error { return now.write(s.cfg.StateDir) })
	if err == nil { // else it is tried again
		s.known = now
	}
}

// report asks the kubelet, and reads the files.
func (s *Source) report(ctx context.Context) Report {
	r := Report{Asked: time.Now()}
	r.Answer, r.KubeletErr = podresources.List(ctx, s.cfg.Socket)
	r.Answered = time.Now()
	byID(r.Answer.Holders)
	if n := s.cfg.countOurs(r.Answer); n > maxHeld {
		r.Answer = podresources.Answer{}
		r.KubeletErr = fmt.Errorf("pod-resources socket %s: found %d devices that may be ours, want at most %d", s.cfg.Socket, n, maxHeld)
	}
	if s.cfg.Claims != nil {
		r.Claims, r.ClaimsErr = s.cfg.Claims(context.WithoutCancel(ctx)) // ctx may have ended if the kubelet hangs
	}
	if s.cfg.Allocations != nil {
		r.Allocated = s.cfg.Allocations.All()
	}
	if s.cfg.Injected != nil {
		r.Injected = s.cfg.Injected.all()
	}
	s.readCheckpoint(ctx, &r)
	return r
}

// readCheckpoint reads the kubelet's checkpoint, and again while the kubelet is about to write it. If the checkpoint
// has entries that the kubelet's answer does not explain, or lacks some, it is refreshed once.
func (s *Source) readCheckpoint(ctx context.Context, r *Report) {
	refreshed, replaced := false, false
	refresh := func() {
		if !refreshed && s.cfg.Refresh != nil {
			refreshed = s.cfg.Refresh()
		}
	}
	for first := true; ; first = false {
		files := s.reader.Files()
		r.Checkpoint, r.CheckpointErr = s.reader.Read(s.cfg.KubeletDir)
		replaced = replaced || !first && s.reader.Files() > files
		s.file = r.Checkpoint.Written
		r.Known = s.known.of(s.file)
		r.Checkpoint.Written = written(r.Checkpoint.Written, r.Answered, replaced)
		leftover := s.cfg.leftover(*r) || errors.Is(r.CheckpointErr, fs.ErrNotExist)
		if leftover {
			refresh()
		}
		waited := time.Since(r.Answered)
		if waited >= readAgainFor/3 && s.cfg.lacks(*r) {
			refresh() // the kubelet may have written an older state last
		}
		if waited >= readAgainFor || !(leftover && refreshed) && (waited >= readAgainFor/3 || s.cfg.DRA || !s.cfg.lacks(*r)) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(readAgain):
		}
	}
}

// written returns when a checkpoint file with this modification time was written. replaced means that the file was seen
// to change after the answer.
func written(at, answered time.Time, replaced bool) time.Time {
	if replaced && !at.After(answered) {
		at = answered.Add(1) // the times of files are several milliseconds behind the clock
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

// byID replaces the names that the API has for the driver's devices by their ids.
func byID(held map[podresources.Key][]podresources.Holder) {
	for key, holders := range held {
		if id, ok := draname.ID(key.ID); ok && key.Resource == draname.Driver {
			delete(held, key)
			held[Key{Resource: key.Resource, ID: id}] = holders
		}
	}
}

// Record returns what the files say at the start of the daemon: the devices that may be in use, with the nodes that
// were given out. An error means that devices may be missing from the record, because a file exists but cannot be read.
func (s *Source) Record(ctx context.Context) (map[string][]inventory.Holding, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	r := Report{Asked: time.Now(), KubeletErr: errNotRecorded}
	r.Checkpoint, r.CheckpointErr = s.reader.Read(s.cfg.KubeletDir)
	r.Known = s.known.of(r.Checkpoint.Written)
	if s.cfg.Claims != nil {
		r.Claims, r.ClaimsErr = s.cfg.Claims(ctx)
	}
	err := r.CheckpointErr
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // a file that may not be read stays so
		err = nil
	}
	return Merge(State{}, r, s.cfg.Rules).Holdings().Of, errors.Join(err, r.ClaimsErr)
}
