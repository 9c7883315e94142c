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

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/kubelet/peers"
)

// blindInterval is the maximum time between checks of the directory while it can't be watched, because it doesn't exist
// or inotify isn't available.
const blindInterval = time.Second

// directory watches the kubelet's directory. It only reports that the directory may have changed. To miss no change, a
// reader must get a new channel from changed before it checks the files.
type directory struct {
	path    string
	kubelet string // path of kubelet.sock
	poll    time.Duration
	changed latest.Signal
	peers   *peers.Peers // the other daemons with sockets in the directory
	log     *zap.Logger
}

func newDirectory(path string, poll time.Duration, log *zap.Logger) *directory {
	return &directory{
		path:    filepath.Clean(path),
		kubelet: filepath.Join(path, kubeletSocket),
		poll:    poll,
		changed: latest.NewSignal(),
		peers:   peers.New(path),
		log:     log,
	}
}

// run watches the kubelet's directory until ctx is done.
func (d *directory) run(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { d.peers.Run(ctx, d.changed, d.log) })
	dirwatch.Run(ctx, dirwatch.Config{
		Dirs: []string{d.path}, Concerns: d.concerns, Interval: d.poll, Blind: min(d.poll, blindInterval), Log: d.log,
	}, d.changed.Raise)
}

// concerns reports whether the event is about the kubelet's socket or a plugin's socket. Events about the checkpoint
// don't count, because the kubelet writes it to the same directory after each list. concerns also tells d.peers about
// each new file.
func (d *directory) concerns(e fsnotify.Event) bool {
	if e.Has(fsnotify.Create) {
		d.peers.Created(e.Name)
	}
	name := filepath.Base(e.Name)
	return e.Has(fsnotify.Create|fsnotify.Remove|fsnotify.Rename) && (name == kubeletSocket || strings.HasPrefix(name, peers.Prefix))
}

// identity distinguishes sockets that have had the same path at different times. It includes the modification time
// because inode numbers are reused.
type identity struct {
	device, inode uint64
	modified      time.Time
}

// identify returns a socket's identity, or an error if the file isn't a socket.
func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return identity{}, fmt.Errorf("%s: found %v, want a socket", path, info.Mode())
	}
	stat := info.Sys().(*syscall.Stat_t)
	return identity{device: uint64(stat.Dev), inode: stat.Ino, modified: info.ModTime()}, nil
}

// missing reports whether err means that a file doesn't exist, perhaps because its directory has been replaced by a
// file (ENOTDIR).
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
