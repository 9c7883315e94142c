package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/kubelet/peers"
)

// blindInterval bounds the time between two checks of the directory while it cannot be
// watched, because it does not exist or inotify is refused.
const blindInterval = time.Second

// directory watches the kubelet's directory. It reports only that the directory may have
// changed: a reader takes the channel first and then checks the files.
type directory struct {
	path    string
	kubelet string // path of kubelet.sock
	poll    time.Duration
	changed latest.Signal
	peers   *peers.Peers // the other daemons that serve in it
	log     *zap.Logger

	// The rest belongs to run.
	notify  *notify.Instance // nil: the directory is not watched
	watched identity         // the directory that is watched
	refused bool             // a refusal of inotify was logged
}

func newDirectory(path string, poll time.Duration, log *zap.Logger) *directory {
	return &directory{
		path:    path,
		kubelet: filepath.Join(path, kubeletSocket),
		poll:    poll,
		changed: latest.NewSignal(),
		peers:   peers.New(path),
		log:     log,
	}
}

// run watches until ctx ends.
func (d *directory) run(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { d.peers.Run(ctx, d.changed) })
	defer d.detach()
	for ctx.Err() == nil {
		wait := d.poll
		if err := d.attach(); err != nil {
			wait = min(wait, blindInterval)
		}
		d.changed.Raise()
		d.await(ctx, wait)
	}
}

// await blocks until a relevant file has changed, for wait at most.
func (d *directory) await(ctx context.Context, wait time.Duration) {
	over := time.After(wait)
	var events <-chan fsnotify.Event
	var failed <-chan error
	if d.notify != nil {
		events, failed = d.notify.Events(), d.notify.Failed()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-failed: // an overflow, for example: watch again
			d.detach()
			return
		case e := <-events:
			if e.Has(fsnotify.Create) {
				d.peers.Created(e.Name)
			}
			if d.concerns(e) {
				return
			}
		}
	}
}

// concerns reports whether the event is about the kubelet's socket, a socket of this plugin, or
// the directory itself. It ignores the kubelet's checkpoint, which the kubelet writes there after
// each list.
func (d *directory) concerns(e fsnotify.Event) bool {
	name := filepath.Base(e.Name)
	return (e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)) &&
		(name == kubeletSocket || strings.HasPrefix(name, peers.Prefix) || e.Name == d.path)
}

// attach watches the present directory. It returns an error if there is none, or inotify is refused.
func (d *directory) attach() error {
	present, err := identify(d.path, fs.ModeDir)
	if err != nil {
		d.detach()
		return err
	}
	// The kernel removes the watch with its directory; the next directory may have the
	// same inode number.
	if d.notify != nil && d.notify.Watching() && d.watched == present {
		return nil
	}
	d.detach()
	n, err := notify.Open() // a new instance: a watch cannot be removed from the old one
	if err == nil {
		if err = n.Add(d.path); err != nil {
			n.Close()
		}
	}
	if err != nil {
		if !missing(err) && !d.refused {
			d.refused = true
			d.log.Warn("watch of the kubelet directory refused",
				logevent.SourceLost, logevent.Source("inotify"), logevent.Path(d.path), logevent.Err(err))
		}
		return err
	}
	if d.refused {
		d.refused = false
		d.log.Info("kubelet directory watched again", logevent.SourceRecovered, logevent.Source("inotify"), logevent.Path(d.path))
	}
	// If the directory was replaced meanwhile, the next attach watches the new one.
	d.notify, d.watched = n, present
	return nil
}

// detach ends the watch.
func (d *directory) detach() {
	if d.notify != nil {
		d.notify.Close()
	}
	d.notify, d.watched = nil, identity{}
}

// identity distinguishes files that had the same path one after the other. It has the time of
// modification because inode numbers are reused; for directories the time is zero.
type identity struct {
	device, inode uint64
	modified      time.Time
}

// identify returns the identity of a file. It returns an error unless the file is of this kind, which
// is fs.ModeSocket or fs.ModeDir.
func identify(path string, kind fs.FileMode) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, err
	}
	if info.Mode().Type() != kind {
		want := map[fs.FileMode]string{fs.ModeSocket: "a socket", fs.ModeDir: "a directory"}[kind]
		return identity{}, fmt.Errorf("%s: found %v, want %s", path, info.Mode(), want)
	}
	stat := info.Sys().(*syscall.Stat_t)
	id := identity{device: uint64(stat.Dev), inode: stat.Ino}
	if kind != fs.ModeDir {
		id.modified = info.ModTime()
	}
	return id, nil
}

// missing reports whether the error means that the file does not exist. The error is ENOTDIR if
// its directory was replaced by a file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
