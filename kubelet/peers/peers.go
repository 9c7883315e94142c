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
	// absence is how long a peer can be without a socket before it counts as gone.
	absence = 500 * time.Millisecond
	// minRedialInterval is the minimum time between connections to the same socket, even if the peer closes them right
	// away.
	minRedialInterval = 100 * time.Millisecond
	// uncertainty is how far apart two sockets' creation times must be to tell which of their daemons registered first.
	uncertainty = time.Second
	// never means that there is nothing to wait for. It is longer than any real wait.
	never = time.Hour
)

// Peers watches the peers in a directory, and names this daemon's sockets.
type Peers struct {
	dir  string
	own  string // prefix of this daemon's socket names
	gone *latest.Value[departure]

	mu      sync.Mutex
	created map[string]time.Time // creation times of sockets that Run doesn't know about yet, by owner
}

// departure summarizes all departures of peers so far.
type departure struct {
	at   time.Time // when the latest departure was noticed
	made time.Time // creation time of the newest socket that any departed peer had
}

// peer is another daemon.
type peer struct {
	made  time.Time       // when its newest socket was created
	held  map[string]bool // paths of the sockets with an open connection
	alive bool            // as of the latest update
	seen  time.Time       // when it was last known to be alive
}

// New returns a Peers for the directory. The names of this daemon's sockets are random.
func New(dir string) *Peers {
	return &Peers{dir: dir, own: newOwner(), gone: latest.New(departure{}), created: map[string]time.Time{}}
}

// Gone reports whether a peer that registered later than this daemon is gone, in which case the kubelet may not be
// using this daemon any more. made is the creation time of the socket that this daemon registered. Gone also returns a
// channel that is closed when the next peer is gone.
func (p *Peers) Gone(made time.Time) (bool, <-chan struct{}) {
	d, next := p.gone.Load()
	return d.at.After(made) && d.made.After(made.Add(-uncertainty)), next
}

// Created tells p about a file that was just created and may be a peer's socket, so that a peer isn't missed if it
// crashes before Run lists the directory.
func (p *Peers) Created(path string) {
	if owner := p.ownerOf(path); owner != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.created[owner] = time.Now()
	}
}

// Run watches the peers until ctx is done, and removes the sockets of peers that were killed. The caller must raise the
// changed signal whenever the directory changes.
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

// hold waits until the peer has closed the connection and minRedialInterval has passed, or until ctx is done.
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

// update connects to each peer socket that isn't connected yet, and announces which peers have gone. gone lists those
// peers by the prefix of their socket names. wait is how long to wait before calling update again if the directory
// doesn't change.
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
			add(owner, info.ModTime()).alive = true // denied by SELinux, or because the peer is in another user namespace
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
