package server

import "sync"

// feed holds the newest value and a channel that is closed when that value is
// stale. Readers may skip values and always end on the newest; no call blocks.
type feed[T any] struct {
	mu    sync.Mutex
	value T
	stale chan struct{}
}

func newFeed[T any](value T) *feed[T] {
	return &feed[T]{value: value, stale: make(chan struct{})}
}

// latest returns the newest value and the channel that is closed when the value is stale.
func (f *feed[T]) latest() (T, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, f.stale
}

// update replaces the value by the result of change.
func (f *feed[T]) update(change func(T) T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value = change(f.value)
	close(f.stale)
	f.stale = make(chan struct{})
}

// publish replaces the value.
func (f *feed[T]) publish(value T) {
	f.update(func(T) T { return value })
}

// signal is a feed without a value.
type signal struct{ feed *feed[struct{}] }

func newSignal() signal { return signal{newFeed(struct{}{})} }

// next returns the channel that is closed at the next raise.
func (s signal) next() <-chan struct{} {
	_, stale := s.feed.latest()
	return stale
}

func (s signal) raise() { s.feed.publish(struct{}{}) }
