// Package latest shares a value between goroutines: one goroutine stores new values, and the others load the newest
// value or wait for a newer one.
//
// A reader may miss intermediate values, but always ends up with the newest one. No call blocks, and Load doesn't take
// a lock.
package latest

import (
	"sync"
	"sync/atomic"
)

// Value holds the newest value. Create it with [New]. It is safe for concurrent use.
type Value[T any] struct {
	storing sync.Mutex
	current atomic.Pointer[version[T]]
}

type version[T any] struct {
	value T
	stale chan struct{} // closed when a newer version is stored
}

// New returns a Value that holds value.
func New[T any](value T) *Value[T] {
	v := &Value[T]{}
	v.current.Store(&version[T]{value, make(chan struct{})})
	return v
}

// Load returns the newest value and a channel that is closed when there is a newer one.
func (v *Value[T]) Load() (T, <-chan struct{}) {
	c := v.current.Load()
	return c.value, c.stale
}

// Store replaces the value.
func (v *Value[T]) Store(value T) {
	v.Update(func(T) T { return value })
}

// Update replaces the value with the result of change, which must not block.
func (v *Value[T]) Update(change func(T) T) {
	v.storing.Lock()
	defer v.storing.Unlock()
	old := v.current.Load()
	v.current.Store(&version[T]{change(old.value), make(chan struct{})})
	close(old.stale) // after the store, so that readers that wake up find the new value
}

// Signal wakes waiting goroutines. It is a [Value] that doesn't carry any data.
type Signal struct{ v *Value[struct{}] }

// NewSignal returns a Signal.
func NewSignal() Signal { return Signal{New(struct{}{})} }

// Next returns a channel that is closed by the next Raise.
func (s Signal) Next() <-chan struct{} {
	_, stale := s.v.Load()
	return stale
}

// Raise wakes all goroutines that are waiting for the signal.
func (s Signal) Raise() { s.v.Store(struct{}{}) }
