package peers

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/latest"
)

const (
	// absence is how long a peer may be without a socket before it counts as gone.
	absence = 500 * time.Millisecond
	// minRedialInterval is the least time between two connections to one socket, however early
	// the peer closes the first.
	minRedialInterval = 100 * time.Millisecond
	// uncertainty bounds the time between two sockets whose daemons may have registered in the
	// opposite order.
	uncertainty = time.Second
	// never is longer than any wait.
	never = time.Hour
)

// Peers watches the peers in one directory, and names the sockets of this daemon.
type Peers struct {
	dir  string
	own  string // prefix of the names of this daemon's sockets
	gone *latest.Value[departure]

	mu      sync.Mutex
	created map[string]time.Time // by owner: times of new sockets that Run has not read yet
}

// departure describes the peers that are gone.
type departure struct {
	at   time.Time // when the last of them was found to be gone
	made time.Time // when the newest of their sockets was made
}

// peer is one other daemon.
type peer struct {
	made  time.Time       // when its newest socket was made
	held  map[string]bool // paths of the sockets with a connection
	alive bool            // in the last call of update
	seen  time.Time       // when it was last known to be alive
}

// New returns the peers in this directory. The names of this daemon's sockets are random.
func New(dir string) *Peers {
	return &Peers{dir: dir, own: newOwner(), gone: latest.New(departure{}), created: map[string]time.Time{}}
}

// Gone reports whether a peer that registered later is gone, so that the kubelet may have
// dropped this daemon's registration. It also returns a channel that is closed when the next peer is
// gone. made is the time when the socket of this daemon's registration was made.
func (p *Peers) Gone(made time.Time) (bool, <-chan struct{}) {
	d, next := p.gone.Load()
	return d.at.After(made) && d.made.After(made.Add(-uncertainty)), next
}

// Created records a file that was just created. If it is the socket of a peer, the peer may crash
// before Run lists the directory.
func (p *Peers) Created(path string) {
	if owner := p.ownerOf(path); owner != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.created[owner] = time.Now()
	}
}

// Run watches the peers until ctx ends, and removes the sockets of those that were killed. changed is raised when the
// directory has changed.
func (p *Peers) Run(ctx context.Context, changed latest.Signal, log *zap.Logger) {
	var holding sync.WaitGroup
	defer holding.Wait()
	ended := make(chan string)  // paths
	known := map[string]*peer{} // by owner
	for ctx.Err() == nil {
		next := changed.Next()
		wait, gone := p.update(ctx, known, func(path string, conn net.Conn) {
			holding.Go(func() {
				hold(ctx, conn)
				select {
				case ended <- path:
				case <-ctx.Done():
				}
			})
		})
		for _, owner := range gone {
			p.removeLeftovers(ctx, owner, log)
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-time.After(wait):
		case path := <-ended:
			delete(known[p.ownerOf(path)].held, path)
		}
	}
}

// hold blocks until the peer closes the connection, and for minRedialInterval at least, or until
// ctx ends.
func hold(ctx context.Context, conn net.Conn) {
	least := time.After(minRedialInterval)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, _ = io.Copy(io.Discard, conn)
	if stop() {
		_ = conn.Close()
	}
	select {
	case <-least:
	case <-ctx.Done():
	}
}

// update connects to each socket of a peer that has no connection yet, and publishes the peers
// that are gone. It returns the time after which it must be called again even if the directory does
// not change, and the owners of the sockets of those that are gone.
func (p *Peers) update(ctx context.Context, known map[string]*peer, hold func(string, net.Conn)) (wait time.Duration, gone []string) {
	now := time.Now()
	for _, k := range known {
		if k.alive {
			k.seen = now
		}
		k.alive = len(k.held) > 0
	}
	add := func(owner string, made time.Time) *peer {
		k := known[owner]
		if k == nil {
			k = &peer{held: map[string]bool{}, seen: now}
			known[owner] = k
		}
		if made.After(k.made) {
			k.made = made
		}
		return k
	}
	p.mu.Lock()
	for owner, made := range p.created {
		add(owner, made)
	}
	clear(p.created)
	p.mu.Unlock()

	for _, entry := range sockets(p.dir) {
		path := filepath.Join(p.dir, entry.Name())
		owner := p.ownerOf(path)
		info, err := entry.Info()
		if err != nil || owner == "" || known[owner] != nil && known[owner].held[path] {
			continue
		}
		conn, err := dial(ctx, path)
		switch {
		case err == nil:
			k := add(owner, info.ModTime())
			k.held[path], k.alive = true, true
			hold(path, conn)
		case !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist):
			add(owner, info.ModTime()).alive = true // refused by SELinux, or another user namespace
		}
	}

	wait = never
	for owner, k := range known {
		left := absence - now.Sub(k.seen)
		switch {
		case k.alive:
		case left > 0:
			wait = min(wait, left)
		default:
			delete(known, owner)
			gone = append(gone, owner)
			p.gone.Update(func(d departure) departure {
				if k.made.After(d.made) {
					d.made = k.made
				}
				d.at = now
				return d
			})
		}
	}
	return wait, gone
}
