package admission

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	// maxBody bounds a request, in bytes. An API server accepts pods of 3 MiB, and etcd of 1.5 MiB.
	maxBody = 3 << 20
	// smallBody is the size up to which a request is received at once: nearly every pod has a smaller one. Each
	// connection has at most one such request.
	smallBody = 64 << 10
	// maxLarge bounds the bytes of all larger requests that are received or handled at the same time.
	maxLarge = maxBody
	// headBytes is the part of a refused request that is read for its uid.
	headBytes = 1 << 10
	// largeWithin is how long a large request waits for its turn, and then for its bytes.
	largeWithin = 500 * time.Millisecond
	// decodeTiny, decodeSmall and decodeLarge are the numbers of pods that are decoded at the same time. A decoded pod
	// can take twenty times the memory of its JSON. Pods up to tinyBody do not wait for larger ones.
	tinyBody    = 16 << 10
	decodeTiny  = 4
	decodeSmall = 2
	decodeLarge = 1
)

var (
	errBusy  = errors.New("the operator is busy with other large requests: try again")
	errLarge = fmt.Errorf("the request for the pod is too large, want at most %d bytes", maxBody)
)

// listTimeout bounds the time that a request waits for mappings, from the cache and from the API
// server. It is shorter than the webhook's timeout, so that the API server receives the reason.
const listTimeout = 3 * time.Second

// liveLimit is the number of requests that may read from the API server at the same time, liveRate how many
// may do so in a second, and liveBurst how many at once. Each pod with an unknown name causes such a read.
const (
	liveLimit = 4
	liveRate  = 10
	liveBurst = 20
)

// turns limits the memory that requests take.
type turns struct {
	bytes              *semaphore.Weighted // of large requests, from before the first byte is read to the answer
	tiny, small, large *semaphore.Weighted // pods that are decoded
	live               *rate.Limiter       // reads from the API server
	reading            *semaphore.Weighted // requests that read from the API server
}

func newTurns() turns {
	return turns{
		semaphore.NewWeighted(maxLarge), semaphore.NewWeighted(decodeTiny), semaphore.NewWeighted(decodeSmall),
		semaphore.NewWeighted(decodeLarge), rate.NewLimiter(liveRate, liveBurst), semaphore.NewWeighted(liveLimit),
	}
}

// forSize returns the turn to decode a pod, and how long its request may take.
func (t *turns) forSize(pod int) (*semaphore.Weighted, time.Duration) {
	switch {
	case pod <= tinyBody:
		return t.tiny, listTimeout
	case pod <= smallBody:
		return t.small, listTimeout
	}
	return t.large, largeWithin
}
