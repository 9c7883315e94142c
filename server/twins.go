package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// absence is how long a daemon without a socket is not taken for gone: one that
// registers again has none for some moments.
const absence = 300 * time.Millisecond

// manners is how long a connection counts as held at least: who hangs up at once is
// not called again at once.
const manners = 100 * time.Millisecond

// departure is that other daemons of ours have gone.
type departure struct {
	at   time.Time // when the last one was given up
	made time.Time // when the youngest of all their sockets was made
}

// twins are the other daemons of ours that serve in the kubelet's directory, as the
// new one does during an upgrade with surge. A kubelet up to 1.36 knows one plugin of
// a resource, the one that registered last, and none any more when that one ends:
// the others keep their streams and are never told. So they watch each other, by a
// connection to each socket that stays silent and ends with the socket's owner,
// however that ends: who was killed leaves its socket behind.
//
// The goroutine of run owns what it knows. departed is for everybody.
type twins struct {
	dir      string
	own      string // what the names of our own sockets begin with
	departed *feed[departure]

	mu    sync.Mutex
	fresh map[string]time.Time // by owner: when a socket was made, as far as run has not looked
}

// twin is one other daemon, known by how the names of its sockets begin.
type twin struct {
	sockets map[string]bool // that a connection is held to
	made    time.Time       // when the youngest socket was made
	barred  bool            // there is a socket that we may not connect to
	missed  time.Time       // since when there is neither; zero: there is one
}

func newTwins(dir string) *twins {
	return &twins{dir: dir, own: newSocketOwner(), departed: newFeed(departure{}), fresh: map[string]time.Time{}}
}

// appeared takes note of a socket that was made just now: who crashes at once may have
// gone when run looks.
func (t *twins) appeared(path string) {
	owner := ownerOf(path)
	if owner == "" || owner == t.own {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh[owner] = time.Now()
}

// run watches until ctx ends. It looks whenever the directory has changed.
func (t *twins) run(ctx context.Context, changed signal) {
	var held sync.WaitGroup
	defer held.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan string) // paths
	hold := func(path string, conn net.Conn) {
		held.Go(func() {
			least := time.NewTimer(manners)
			defer least.Stop()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			_, _ = io.Copy(io.Discard, conn)
			if stop() {
				_ = conn.Close()
			}
			select {
			case <-least.C:
			case <-ctx.Done():
			}
			select {
			case ended <- path:
			case <-ctx.Done():
			}
		})
	}
	known := map[string]*twin{} // by owner
	for {
		news := changed.next()
		again := t.look(ctx, known, hold)
		timer := time.NewTimer(min(again, t.giveUp(known)))
		select {
		case <-ctx.Done():
		case <-news:
		case <-timer.C:
		case path := <-ended:
			delete(known[ownerOf(path)].sockets, path)
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// never is longer than anything waits.
const never = time.Hour

// look takes a connection to each socket of others that answers and that there is
// none to yet. It says how soon to look again unasked.
func (t *twins) look(ctx context.Context, known map[string]*twin, hold func(string, net.Conn)) time.Duration {
	t.takeFresh(known)
	for _, w := range known {
		w.barred = false
	}
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return never
	}
	again := never
	for _, entry := range entries {
		path := filepath.Join(t.dir, entry.Name())
		owner := ownerOf(path)
		if entry.Type() != fs.ModeSocket || owner == "" || owner == t.own {
			continue
		}
		if w := known[owner]; w != nil && w.sockets[path] {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue
		}
		switch conn, err := dialUnix(ctx, path); {
		case err == nil:
			meet(known, owner, info.ModTime()).sockets[path] = true
			hold(path, conn)
		case missing(err):
		case !errors.Is(err, syscall.ECONNREFUSED):
			// SELinux or another user namespace keeps us out. Its owner takes the socket
			// along, unless it is killed: that much can be seen.
			meet(known, owner, info.ModTime()).barred = true
		case time.Since(info.ModTime()).Abs() < birth:
			again = breath // it may not listen yet
		}
	}
	return again
}

// takeFresh takes those for known of whom a socket was made since the last time.
func (t *twins) takeFresh(known map[string]*twin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for owner, made := range t.fresh {
		meet(known, owner, made)
	}
	clear(t.fresh)
}

// meet returns the twin, of which a socket was made then.
func meet(known map[string]*twin, owner string, made time.Time) *twin {
	w := known[owner]
	if w == nil {
		w = &twin{sockets: map[string]bool{}}
		known[owner] = w
	}
	if made.After(w.made) {
		w.made = made
	}
	return w
}

// giveUp publishes who has been without socket for too long, and says when the next
// may have been.
func (t *twins) giveUp(known map[string]*twin) time.Duration {
	wait := never
	for owner, w := range known {
		switch {
		case len(w.sockets) > 0, w.barred:
			w.missed = time.Time{}
			continue
		case w.missed.IsZero():
			w.missed = time.Now()
		}
		if left := absence - time.Since(w.missed); left > 0 {
			wait = min(wait, left)
			continue
		}
		delete(known, owner)
		t.departed.update(func(d departure) departure {
			if d.made.Before(w.made) {
				d.made = w.made
			}
			d.at = time.Now()
			return d
		})
	}
	return wait
}

// undoes says whether the end of those who have gone may have undone a registration
// on a socket that was made then: whether it was there when they ended, and one of
// them registered after it. Who made its socket within settled of the other may have
// registered in the other order.
func (d departure) undoes(made time.Time) bool {
	return d.at.After(made) && d.made.After(made.Add(-settled))
}

// ownerOf returns how the names of all sockets of one daemon begin, or "": it is
// no socket of ours.
func ownerOf(path string) string {
	name := filepath.Base(path)
	if len(name) != len(socketPrefix)+socketLetters+len(socketSuffix) ||
		!strings.HasPrefix(name, socketPrefix) || !strings.HasSuffix(name, socketSuffix) {
		return ""
	}
	return name[:len(socketPrefix)+ownerLetters]
}
