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
	// maxBody bounds a request, in bytes. An API server accepts pods of 3 MiB, and etcd of 1.5 MiB.
	maxBody = 3 << 20
	// smallBody is the size up to which a request is received at once: nearly every pod has a smaller one. Each
	// connection has at most one such request. Of a larger one, as much is received before it waits for its turn.
	smallBody = 64 << 10
	// maxLarge bounds the bytes of all larger requests that are received or handled at the same time.
	maxLarge = maxBody
	// headBytes is the part of a refused request that is read for its uid.
	headBytes = 1 << 10
	// largeWithin is how long a large request waits for its turn, and then for the rest of its bytes.
	largeWithin = 500 * time.Millisecond
	// decodeTiny, decodeSmall and decodeLarge are the numbers of pods that are decoded at the same time. A decoded pod
	// can take twenty times the memory of its JSON. Pods up to tinyBody do not wait for larger ones.
	tinyBody    = 16 << 10
	decodeTiny  = 4
	decodeSmall = 2
	decodeLarge = 1
	// waitTiny and wait are the numbers of pods that wait for that. Their connections are not closed to make room for
	// others, so they must not be all connections of [httpd.ServeBodies].
	waitTiny = 64
	wait     = 16
)

var (
	errBusy  = errors.New("the operator is busy with other requests: try again")
	errSlow  = errors.New("the request did not arrive in time: try again")
	errLarge = fmt.Errorf("the request for the pod is too large, want at most %d bytes", maxBody)
)

// listTimeout bounds the time that a request waits for mappings, from the cache and from the API
// server. It is shorter than the webhook's timeout, so that the API server receives the reason.
const listTimeout = 3 * time.Second

// liveLimit is the number of requests that may read from the API server at the same time, liveRate how many
// may do so in a second, and liveBurst how many at once. Each pod with an unknown name causes such a read.
// shareRate and shareBurst are the same for the pods of one namespace, of which one reads at a time.
const (
	liveLimit  = 4
	liveRate   = 10
	liveBurst  = 20
	shareRate  = 2
	shareBurst = 5
)

// turns limits the memory that requests take.
type turns struct {
	bytes              *semaphore.Weighted // of large requests, until their answers are known
	hosts              *queues             // of large requests, by address
	tiny, small, large *turn               // pods that are decoded
	live               *shares             // reads from the API server
	reading            *semaphore.Weighted // requests that read from the API server
	namespaces         *queues             // of these requests, by namespace
}

func newTurns() turns {
	return turns{
		semaphore.NewWeighted(maxLarge), newQueues(),
		newTurn(decodeTiny, waitTiny), newTurn(decodeSmall, wait), newTurn(decodeLarge, wait),
		newShares(), semaphore.NewWeighted(liveLimit), newQueues(),
	}
}

// forSize returns the turn to decode a pod, and how long its request may take.
func (t *turns) forSize(pod int) (*turn, time.Duration) {
	switch {
	case pod <= tinyBody:
		return t.tiny, listTimeout
	case pod <= smallBody:
		return t.small, listTimeout
	}
	return t.large, largeWithin
}

// receive waits until there is room for a large request, and returns a function that makes the room free again.
func (t *turns) receive(ctx context.Context, host string, size int) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, largeWithin)
	defer cancel()
	leave, err := t.hosts.enter(ctx, host)
	if err != nil {
		return nil, errBusy
	}
	if err := t.bytes.Acquire(ctx, int64(size)); err != nil {
		leave()
		return nil, errBusy
	}
	return func() {
		t.bytes.Release(int64(size))
		leave()
	}, nil
}

// turn bounds the pods that are decoded at the same time, and those that wait for it. Of those that wait, the next one
// of each address is decoded in turn, so an address with many of them delays another one by one pod only.
type turn struct {
	mu      sync.Mutex
	free    int // how many more may be decoded now
	room    int // how many may wait
	round   int // of the last one that waited and is decoded
	waiting []*waiter
}

// waiter is a request that waits. In each round one request of each address is decoded.
type waiter struct {
	host  string
	round int
	done  chan error // nil: it is decoded
}

func newTurn(now, wait int) *turn { return &turn{free: now, room: wait} }

// acquire waits. If too many wait, one of them fails at once: of the address that has the most, the last one.
func (t *turn) acquire(ctx context.Context, host string) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	own := &waiter{host, t.round + 1, make(chan error, 1)}
	of := map[string]int{host: 1}
	for _, w := range t.waiting {
		of[w.host]++
		if w.host == host {
			own.round = w.round + 1
		}
	}
	next := slices.IndexFunc(t.waiting, func(w *waiter) bool { return w.round > own.round })
	if next < 0 {
		next = len(t.waiting)
	}
	t.waiting = slices.Insert(t.waiting, next, own)
	if len(t.waiting) > t.room {
		last := 0
		for i, w := range t.waiting {
			if of[w.host] >= of[t.waiting[last].host] {
				last = i
			}
		}
		t.waiting[last].done <- errBusy
		t.waiting = slices.Delete(t.waiting, last, last+1)
	}
	t.mu.Unlock()

	select {
	case err := <-own.done:
		return err
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, own); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		return errBusy
	}
	return <-own.done
}

func (t *turn) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	next := t.waiting[0]
	t.waiting = slices.Delete(t.waiting, 0, 1)
	t.round = next.round
	next.done <- nil
}

// queues admits one request of each name at a time: so the requests of one client, or one namespace, are in the queue of
// all only once.
type queues struct {
	mu sync.Mutex
	of map[string]*queue
}

type queue struct {
	turn  *semaphore.Weighted
	users int // requests that have the turn or wait for it
}

func newQueues() *queues { return &queues{of: map[string]*queue{}} }

// enter waits for the turn of a name. The function that it returns ends the turn.
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

// shares limits how often all namespaces together, and each of them, may do something.
type shares struct {
	mu  sync.Mutex
	all *rate.Limiter
	of  map[string]*rate.Limiter // of the namespaces that did so a short time ago
}

func newShares() *shares {
	return &shares{all: rate.NewLimiter(liveRate, liveBurst), of: map[string]*rate.Limiter{}}
}

// allow reports whether a namespace may do it now. A namespace that has used up its share takes nothing of the others'.
//
// Anyone can invent namespaces. Only those that were allowed are in the map, until their share is whole again:
// liveBurst + liveRate*shareBurst/shareRate at most.
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
