package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	// maxBody is the maximum size of a request, in bytes. An API server accepts pods of up to 3 MiB, even though etcd
	// can store only 1.5 MiB.
	maxBody = 3 << 20
	// smallBody is the maximum size of a request that is received immediately. Nearly all pods are smaller. Each
	// connection has at most one such request. Larger requests have to wait for their turn once their first smallBody
	// bytes have been received.
	smallBody = 64 << 10
	// maxLarge limits the total size of larger requests that are being received or handled.
	maxLarge = maxBody
	// headBytes is how much of a rejected request is read to find its UID.
	headBytes = 1 << 10
	// largeWithin is how long a large request can wait for its turn, and how long the rest of it can then take to
	// arrive.
	largeWithin = 500 * time.Millisecond
	// decodeTiny, decodeSmall and decodeLarge limit how many pods of each size are decoded at the same time. A decoded
	// pod can take up twenty times as much memory as its JSON. Pods of up to tinyBody bytes don't wait for larger ones.
	tinyBody    = 16 << 10
	decodeTiny  = 4
	decodeSmall = 2
	decodeLarge = 1
	// waitTiny and wait limit how many pods can wait to be decoded. A waiting pod's connection isn't closed to make
	// room for others, so waiting pods must not use up all of [httpd.ServeBodies]' connections.
	waitTiny = 64
	wait     = 16
)

var (
	errBusy  = errors.New("the operator is busy with other requests: try again")
	errSlow  = errors.New("the request did not arrive in time: try again")
	errLarge = fmt.Errorf("the request for the pod is too large, want at most %d bytes", maxBody)
)

// listTimeout limits how long a request waits for mappings from the cache and the API server. It is shorter than the
// webhook's timeout, so that the API server learns the reason for a failure.
const listTimeout = 3 * time.Second

// Each pod that requests an unknown name causes a read from the API server. liveLimit is the maximum number of
// concurrent reads, liveRate the number per second, and liveBurst the number in a burst. shareRate and shareBurst are
// the rate and burst for a single namespace, which never has more than one read at a time.
const (
	liveLimit  = 4
	liveRate   = 10
	liveBurst  = 20
	shareRate  = 2
	shareBurst = 5
)

// limits bounds the memory that requests use.
type limits struct {
	bytes              *semaphore.Weighted // total size of the large requests that haven't been answered yet
	hosts              *queues             // queues of large requests, by address
	tiny, small, large *decodeLimit        // limits on decoding pods
	live               *shares             // limits on reads from the API server
	reading            *semaphore.Weighted // requests that are reading from the API server
	namespaces         *queues             // queues for these requests, by namespace
}

func newLimits() limits {
	return limits{
		semaphore.NewWeighted(maxLarge), newQueues(),
		newDecodeLimit(decodeTiny, waitTiny), newDecodeLimit(decodeSmall, wait), newDecodeLimit(decodeLarge, wait),
		newShares(), semaphore.NewWeighted(liveLimit), newQueues(),
	}
}

// forSize returns the limit for decoding a pod of the given size, and the time limit for its request.
func (l *limits) forSize(pod int) (*decodeLimit, time.Duration) {
	switch {
	case pod <= tinyBody:
		return l.tiny, listTimeout
	case pod <= smallBody:
		return l.small, listTimeout
	}
	return l.large, largeWithin
}

// receive waits until there is room for a large request of the given size. The caller must call release when the
// request no longer needs the room.
func (l *limits) receive(ctx context.Context, host string, size int) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, largeWithin)
	defer cancel()
	leave, err := l.hosts.enter(ctx, host)
	if err != nil {
		return nil, errBusy
	}
	if err := l.bytes.Acquire(ctx, int64(size)); err != nil {
		leave()
		return nil, errBusy
	}
	return func() {
		l.bytes.Release(int64(size))
		leave()
	}, nil
}

// decodeLimit limits how many pods are decoded at the same time, and how many wait. The addresses of waiting pods take
// turns, so an address with lots of pods delays a pod from another address by just one pod.
type decodeLimit struct {
	mu      sync.Mutex
	free    int // how many more pods can be decoded now
	room    int // how many more pods can wait
	round   int // the round of the last waiting request that was admitted
	waiting []*waiter
}

// waiter is a waiting request. Each round admits one request per address.
type waiter struct {
	host  string
	round int
	done  chan error // receives nil when it is this request's turn
}

func newDecodeLimit(now, wait int) *decodeLimit { return &decodeLimit{free: now, room: wait} }

// acquire waits for a turn. If too many requests are waiting, the last one from the address that has the most requests
// fails immediately.
func (l *decodeLimit) acquire(ctx context.Context, host string) error {
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return nil
	}
	own := &waiter{host, l.round + 1, make(chan error, 1)}
	of := map[string]int{host: 1}
	for _, w := range l.waiting {
		of[w.host]++
		if w.host == host {
			own.round = w.round + 1
		}
	}
	next := slices.IndexFunc(l.waiting, func(w *waiter) bool { return w.round > own.round })
	if next < 0 {
		next = len(l.waiting)
	}
	l.waiting = slices.Insert(l.waiting, next, own)
	if len(l.waiting) > l.room {
		last := 0
		for i, w := range l.waiting {
			if of[w.host] >= of[l.waiting[last].host] {
				last = i
			}
		}
		l.waiting[last].done <- errBusy
		l.waiting = slices.Delete(l.waiting, last, last+1)
	}
	l.mu.Unlock()

	select {
	case err := <-own.done:
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, own); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return errBusy
	}
	return <-own.done
}

func (l *decodeLimit) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.free++
		return
	}
	next := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	l.round = next.round
	next.done <- nil
}

// queues admits only one request at a time for each name, so that no client or namespace ever has more than one request
// in the common queue.
type queues struct {
	mu sync.Mutex
	of map[string]*queue
}

type queue struct {
	turn  *semaphore.Weighted
	users int // requests that have the turn or are waiting for it
}

func newQueues() *queues { return &queues{of: map[string]*queue{}} }

// enter waits until no other request with this name has the turn. The caller must call leave to end its own turn.
func (q *queues) enter(ctx context.Context, name string) (leave func(), err error) {
	q.mu.Lock()
	one := q.of[name]
	if one == nil {
		one = &queue{turn: semaphore.NewWeighted(1)}
		q.of[name] = one
	}
	one.users++
	q.mu.Unlock()
	gone := func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(q.of, name)
		}
	}
	if err := one.turn.Acquire(ctx, 1); err != nil {
		gone()
		return nil, err
	}
	return func() {
		one.turn.Release(1)
		gone()
	}, nil
}

// shares limits how often mappings are read from the API server, both in total and per namespace.
type shares struct {
	mu  sync.Mutex
	all *rate.Limiter
	of  map[string]*rate.Limiter // only for namespaces that have used their share recently
}

func newShares() *shares {
	return &shares{all: rate.NewLimiter(liveRate, liveBurst), of: map[string]*rate.Limiter{}}
}

// allow reports whether a read for the namespace is allowed now. A namespace that has used up its share doesn't reduce
// the shares of others.
//
// Because anyone can make up namespaces, allow adds a namespace to the map only if it allows the read, and removes the
// namespace once its share is restored. So the map never contains more than liveBurst + liveRate*shareBurst/shareRate
// namespaces.
func (s *shares) allow(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.of, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= shareBurst })
	one := s.of[namespace]
	if one == nil {
		one = rate.NewLimiter(shareRate, shareBurst)
	}
	if one.TokensAt(now) < 1 || !s.all.AllowN(now, 1) {
		return false
	}
	s.of[namespace] = one
	return one.AllowN(now, 1)
}
