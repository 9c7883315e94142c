package bitstreams

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

const (
	// maxBitstreams is the maximum number of bitstreams to publish, which fill eight slices.
	maxBitstreams = 512
	// settleTime is how long the store must stay unchanged before it is read, because several files may be installed in
	// one go.
	settleTime = 200 * time.Millisecond
	// interval is the maximum time between reads, so that changes that inotify misses are noticed eventually.
	interval = time.Minute
	// blindInterval replaces interval while the store can't be watched, for example because it doesn't exist yet.
	blindInterval = 10 * time.Second
	// readTimeout limits how long reading the store can take, because the store may be on a network file system that
	// hangs.
	readTimeout = 5 * time.Second
)

// Follower keeps track of the bitstreams in a store. Create it with [New], and call Run once.
type Follower struct {
	store  programming.Store
	log    *zap.Logger
	disk   *privatedir.Turns
	dirs   []string // the store and the interface directories in it
	stored *latest.Value[[]programming.Stored]
	failed string // the last error that was logged
}

// New reads the store, which takes up to 5 s, and returns a Follower.
func New(store programming.Store, log *zap.Logger) *Follower {
	f := &Follower{
		store: store, log: log.Named("bitstreams"), disk: privatedir.NewTurns(string(store)), stored: latest.New[[]programming.Stored](nil),
	}
	f.read(context.Background())
	return f
}

// Latest returns the bitstreams, sorted, and a channel that is closed when they change. Bitstreams whose names aren't
// valid in the API are left out. The list is empty while the store can't be read, because the hook couldn't read it
// either.
func (f *Follower) Latest() ([]programming.Stored, <-chan struct{}) { return f.stored.Load() }

// Run rereads the store whenever it changes until ctx is done, and then returns nil.
func (f *Follower) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		dirs := f.dirs
		watching, stop := context.WithCancel(ctx)
		dirwatch.Run(watching, dirwatch.Config{
			// Ignore hidden files: they are bitstreams that are still being written, which can take an hour.
			Dirs: dirs, Concerns: func(e notify.Event) bool { return !strings.HasPrefix(filepath.Base(e.Name), ".") },
			Settle: settleTime, Interval: interval, Blind: blindInterval, Log: f.log,
		}, func() {
			if f.read(ctx); !slices.Equal(f.dirs, dirs) {
				stop()
			}
		})
		stop()
	}
	return nil
}

// content is the result of reading the store.
type content struct {
	dirs   []string
	stored []programming.Stored
}

func (f *Follower) content() (found content, err error) {
	found.dirs = []string{string(f.store)}
	entries, _ := os.ReadDir(string(f.store)) // an error here will also be returned by Names
	for _, e := range entries {
		if id, err := programming.ParseID(e.Name()); err == nil && id == e.Name() && e.IsDir() {
			found.dirs = append(found.dirs, filepath.Join(string(f.store), id)) // even if it is empty, because a file may be about to be installed
		}
	}
	found.stored, err = f.store.Names()
	return found, err
}

func (f *Follower) read(ctx context.Context) {
	read := make(chan content, 1)
	err := f.disk.Within(ctx, readTimeout, func(context.Context) error {
		found, err := f.content()
		read <- found
		return err
	})
	if ctx.Err() != nil {
		return
	}
	now := content{dirs: []string{string(f.store)}}
	select {
	case now = <-read:
	default: // the file system is hanging
	}
	f.dirs = now.dirs
	text := ""
	if err != nil {
		text = err.Error()
	}
	found := slices.DeleteFunc(now.stored, func(b programming.Stored) bool { return draname.Bitstream(b.InterfaceID, b.ID) == "" })
	left := max(0, len(found)-maxBitstreams)
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
