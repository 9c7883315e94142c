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
	// maxBody limits a request, in bytes. An API server accepts pods of up to 3 MiB, and etcd stores up to 1.5 MiB.
	maxBody = 3 << 20
	// smallBody is the largest size of a request that is received immediately. Nearly all pods are smaller. Each
	// connection has at most one such request. Of a larger request, only the first smallBody bytes are received before
	// it waits for its turn.
	smallBody = 64 << 10
	// maxLarge limits the total size of all larger requests that are received or handled at the same time.
	maxLarge = maxBody
	// headBytes is how much of a rejected request is read to find its uid.
	headBytes = 1 << 10
	// largeWithin is how long a large request waits for its turn, and then for the rest of its bytes.
	largeWithin = 500 * time.Millisecond
	// decodeTiny, decodeSmall and decodeLarge are the numbers of pods that are decoded at the same time. A decoded pod
	// can take twenty times the memory of its JSON. Pods of up to tinyBody bytes do not wait for larger ones.
	tinyBody    = 16 << 10
	decodeTiny  = 4
	decodeSmall = 2
	decodeLarge = 1
	// waitTiny and wait limit how many pods can wait to be decoded. The connections of waiting pods are not closed to
	// make room for others, so these pods must not use up all connections of [httpd.ServeBodies].
	waitTiny = 64
	wait     = 16
)

var (
	errBusy  = errors.New("the operator is busy with other requests: try again")
	errSlow  = errors.New("the request did not arrive in time: try again")
	errLarge = fmt.Errorf("the request for the pod is too large, want at most %d bytes", maxBody)
)

// listTimeout limits how long a request waits for mappings from the cache and from the API server. It is shorter than
// the webhook's timeout, so that the API server receives the reason.
const listTimeout = 3 * time.Second

// Each pod with an unknown name causes a read from the API server. liveLimit is how many requests can do this at the
// same time, liveRate is how many can do it per second, and liveBurst is how many can do it in a burst. shareRate and
// shareBurst are the rate and the burst for the pods of one namespace. Only one pod of a namespace reads at a time.
const (
	liveLimit  = 4
	liveRate   = 10
	liveBurst  = 20
	shareRate  = 2
	shareBurst = 5
)

// limits bounds the memory that requests take.
type limits struct {
	bytes              *semaphore.Weighted // total size of large requests, until their answers are known
	hosts              *queues             // for large requests, by address
	tiny, small, large *decodeLimit        // for decoding pods
	live               *shares             // for reads from the API server
	reading            *semaphore.Weighted // requests that read from the API server
	namespaces         *queues             // for these requests, by namespace
}

func newLimits() limits {
	return limits{
		semaphore.NewWeighted(maxLarge), newQueues(),
		newDecodeLimit(decodeTiny, waitTiny), newDecodeLimit(decodeSmall, wait), newDecodeLimit(decodeLarge, wait),
		newShares(), semaphore.NewWeighted(liveLimit), newQueues(),
	}
}

// forSize returns the limit for decoding a pod of this size, and how long its request may take.
func (l *limits) forSize(pod int) (*decodeLimit, time.Duration) {
	switch {
	case pod <= tinyBody:
		return l.tiny, listTimeout
	case pod <= smallBody:
		return l.small, listTimeout
	}
	return l.large, largeWithin
}

// receive waits until there is room for a large request. It returns a function that releases the room.
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

// decodeLimit limits how many pods are decoded at the same time, and how many wait. Waiting pods are decoded round
// robin by address, so an address with many pods delays a pod of another address by one pod only.
type decodeLimit struct {
	mu      sync.Mutex
	free    int // how many more may be decoded now
	room    int // how many may wait
	round   int // round of the waiting request that was admitted last
	waiting []*waiter
}

// waiter is a request that waits. In each round, one request of each address is admitted.
type waiter struct {
	host  string
	round int
	done  chan error // receives nil when it is this request's turn
}

func newDecodeLimit(now, wait int) *decodeLimit { return &decodeLimit{free: now, room: wait} }

// acquire waits for a turn. If too many requests are waiting, the last request of the address with the most requests
// fails at once.
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

// queues admits one request of each name at a time. So a client or a namespace can have only one request in the common
// queue.
type queues struct {
	mu sync.Mutex
	of map[string]*queue
}

type queue struct {
	turn  *semaphore.Weighted
	users int // requests that have the turn or are waiting for it
}

func newQueues() *queues { return &queues{of: map[string]*queue{}} }

// enter waits for the turn of a name. It returns a function that ends the turn.
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

// shares limits how often something can be done, both in total and for each namespace.
type shares struct {
	mu  sync.Mutex
	all *rate.Limiter
	of  map[string]*rate.Limiter // only namespaces that used their share recently
}

func newShares() *shares {
	return &shares{all: rate.NewLimiter(liveRate, liveBurst), of: map[string]*rate.Limiter{}}
}

// allow reports whether a namespace may do it now. A namespace that has used up its share does not reduce the shares of
// the others.
//
// Anyone can invent namespaces. So the map contains only namespaces that were allowed, until their share is restored.
// These are at most liveBurst + liveRate*shareBurst/shareRate.
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
