package bitstreams

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

const (
	// most is the largest number of bitstreams that are followed: eight slices.
	most = 512
	// settle is the time without changes after which the store is read, as several files may be installed together.
	settle = 200 * time.Millisecond
	// interval is the longest time between two readings, as inotify may miss a change.
	interval = time.Minute
	// blind replaces interval while the store cannot be watched, for example because it does not exist yet.
	blind = 10 * time.Second
)

// Follower has the bitstreams of a store. Create it with [New], and run it once.
type Follower struct {
	store  programming.Store
	log    *zap.Logger
	stored *latest.Value[[]programming.Stored]
	failed string // the error that was logged
}

// New returns a Follower that has read the store.
func New(store programming.Store, log *zap.Logger) *Follower {
	f := &Follower{store: store, log: log.Named("bitstreams"), stored: latest.New[[]programming.Stored](nil)}
	f.read()
	return f
}

// Latest returns the bitstreams, sorted, and a channel that is closed when they have changed. Those that can have no name
// in the API are left out. While the store cannot be read, there are none: the hook could not read it, either.
func (f *Follower) Latest() ([]programming.Stored, <-chan struct{}) { return f.stored.Load() }

// Run follows the store until ctx ends. Then it returns nil.
func (f *Follower) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		dirs := f.dirs()
		watching, stop := context.WithCancel(ctx)
		dirwatch.Run(watching, dirwatch.Config{
			Dirs: dirs, Concerns: func(notify.Event) bool { return true }, Settle: settle, Interval: interval, Blind: blind, Log: f.log,
		}, func() {
			f.read()
			if !slices.Equal(f.dirs(), dirs) { // the first bitstream for an interface, or the last one
				stop()
			}
		})
		stop()
	}
	return nil
}

// dirs returns the directories with the bitstreams, and that of the store.
func (f *Follower) dirs() []string {
	dirs := []string{string(f.store)}
	stored, _ := f.stored.Load()
	for _, b := range stored {
		if dir := filepath.Join(string(f.store), b.InterfaceID); dir != dirs[len(dirs)-1] {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (f *Follower) read() {
	found, err := f.store.Names()
	text := ""
	if err != nil {
		text = err.Error()
	}
	found = slices.DeleteFunc(found, func(b programming.Stored) bool { return draname.Bitstream(b.InterfaceID, b.ID) == "" })
	left := max(0, len(found)-most)
	found = found[:len(found)-left]
	if text != f.failed && err != nil {
		f.log.Warn("store of bitstreams could not be read", logevent.StoreFailed, logevent.Path(string(f.store)), logevent.Err(err))
	}
	f.failed = text
	if was, _ := f.stored.Load(); !slices.Equal(was, found) {
		if left > 0 {
			f.log.Warn("store has too many bitstreams, some are not published", logevent.StoreFailed, logevent.Path(string(f.store)), logevent.Count(left))
		}
		f.stored.Store(found)
	}
}
