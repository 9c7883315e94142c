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

// absence is how long a daemon may be without a socket before it counts as gone: a daemon that
// registers again has none for a short time.
const absence = 300 * time.Millisecond

// minRedialInterval is the least time between two connections to one socket, however early
// the peer closes the first.
const minRedialInterval = 100 * time.Millisecond

// departure describes the peers that have gone.
type departure struct {
	at   time.Time // when the last one was found to be gone
	made time.Time // when the newest of all their sockets was made
}

// peers watches the other daemons of ours that serve in the kubelet's directory, for example
// the new daemon during an upgrade with surge. A kubelet up to 1.36 has one plugin per
// resource, the one that registered last. When that plugin ends, the kubelet has none: the
// others keep their streams, and get no notice. So each daemon holds a connection to each
// socket of its peers. It sends nothing on it. The connection ends with the peer, even if the
// peer was killed and its socket is left behind.
//
// The goroutine of run owns the known peers. All sessions read departed.
type peers struct {
	dir      string
	own      string // prefix of the names of our own sockets
	departed *feed[departure]

	mu    sync.Mutex
	fresh map[string]time.Time // by owner: when a new socket was made that run has not taken over yet
}

// peer is one other daemon. Its key is the prefix of the names of its sockets, the owner.
type peer struct {
	sockets map[string]bool // paths of the sockets with a connection
	made    time.Time       // when the newest socket was made
	barred  bool            // there is a socket without permission to connect
	missed  time.Time       // since when there are no such sockets; zero: there are
}

func newPeers(dir string) *peers {
	return &peers{dir: dir, own: newSocketOwner(), departed: newFeed(departure{}), fresh: map[string]time.Time{}}
}

// appeared records a socket that was made just now, because its daemon may have crashed before
// run lists the directory.
func (ps *peers) appeared(path string) {
	owner := ownerOf(path)
	if owner == "" || owner == ps.own {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.fresh[owner] = time.Now()
}

// run watches the peers until ctx ends. It lists their sockets whenever the directory has
// changed.
func (ps *peers) run(ctx context.Context, changed signal) {
	var held sync.WaitGroup
	defer held.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan string) // paths
	hold := func(path string, conn net.Conn) {
		held.Go(func() {
			least := time.NewTimer(minRedialInterval)
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
	known := map[string]*peer{} // by owner
	for {
		news := changed.next()
		again := ps.look(ctx, known, hold)
		timer := time.NewTimer(min(again, ps.giveUp(known)))
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

// never is longer than any wait of a peer.
const never = time.Hour

// look connects to each socket of a peer that has no connection yet. It returns the time after
// which it must be called again even if the directory does not change.
func (ps *peers) look(ctx context.Context, known map[string]*peer, hold func(string, net.Conn)) time.Duration {
	ps.mu.Lock()
	for owner, made := range ps.fresh {
		add(known, owner, made)
	}
	clear(ps.fresh)
	ps.mu.Unlock()
	for _, p := range known {
		p.barred = false
	}
	entries, err := os.ReadDir(ps.dir)
	if err != nil {
		return never
	}
	again := never
	for _, entry := range entries {
		path := filepath.Join(ps.dir, entry.Name())
		owner := ownerOf(path)
		if entry.Type() != fs.ModeSocket || owner == "" || owner == ps.own {
			continue
		}
		if p := known[owner]; p != nil && p.sockets[path] {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue
		}
		switch conn, err := dialUnix(ctx, path); {
		case err == nil:
			add(known, owner, info.ModTime()).sockets[path] = true
			hold(path, conn)
		case missing(err):
		case !errors.Is(err, syscall.ECONNREFUSED):
			// SELinux or another user namespace refuses the connection. The peer counts as gone
			// when its socket is removed, which a killed peer does not do.
			add(known, owner, info.ModTime()).barred = true
		case time.Since(info.ModTime()).Abs() < listenGrace:
			again = dialRetry // it may not listen yet
		}
	}
	return again
}

// add returns the peer with this owner, which it adds if there is none. made is when one of
// its sockets was made.
func add(known map[string]*peer, owner string, made time.Time) *peer {
	p := known[owner]
	if p == nil {
		p = &peer{sockets: map[string]bool{}}
		known[owner] = p
	}
	if made.After(p.made) {
		p.made = made
	}
	return p
}

// giveUp publishes the departure of peers that have been without a socket for absence. It
// returns the time after which it must be called again.
func (ps *peers) giveUp(known map[string]*peer) time.Duration {
	wait := never
	for owner, p := range known {
		switch {
		case len(p.sockets) > 0, p.barred:
			p.missed = time.Time{}
			continue
		case p.missed.IsZero():
			p.missed = time.Now()
		}
		if left := absence - time.Since(p.missed); left > 0 {
			wait = min(wait, left)
			continue
		}
		delete(known, owner)
		ps.departed.update(func(d departure) departure {
			if d.made.Before(p.made) {
				d.made = p.made
			}
			d.at = time.Now()
			return d
		})
	}
	return wait
}

// invalidates reports whether the kubelet may have dropped a registration because peers have
// gone. made is when the socket of the registration was made: before the peers were gone, and
// before one of them registered. Two daemons that made their sockets within settled of each
// other may have registered in the other order.
func (d departure) invalidates(made time.Time) bool {
	return d.at.After(made) && d.made.After(made.Add(-settled))
}

// ownerOf returns the owner in the name of a socket, or "" if it is no socket of ours.
func ownerOf(path string) string {
	name := filepath.Base(path)
	if len(name) != len(socketPrefix)+socketLetters+len(socketSuffix) ||
		!strings.HasPrefix(name, socketPrefix) || !strings.HasSuffix(name, socketSuffix) {
		return ""
	}
	return name[:len(socketPrefix)+ownerLetters]
}
