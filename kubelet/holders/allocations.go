package holders

import (
	"sync"
	"time"
)

// Allocations contains the devices that this daemon has given to containers, each with the time it was last given out.
// Its size is bounded by the number of devices that were ever listed. It is safe for concurrent use.
type Allocations struct {
	added chan struct{} // holds an element while there is a new allocation

	mu    sync.Mutex
	given map[Key]Allocation
}

// Allocation records when a device was given out and with which nodes (names and numbers, MAJOR:MINOR).
type Allocation struct {
	At    time.Time
	Nodes []string
}

// NewAllocations returns an empty set.
func NewAllocations() *Allocations {
	return &Allocations{added: make(chan struct{}, 1), given: map[Key]Allocation{}}
}

// Added returns a channel that holds an element if an allocation has been added since the channel was last read.
func (a *Allocations) Added() <-chan struct{} { return a.added }

// Add records that a resource's devices are being given out, unless check returns an error. check returns each device's
// nodes, by device id. It runs under the lock. So when a device becomes unhealthy or leaves the list and the inventory
// then asks for its holders, the inventory finds this allocation unless check has rejected it. undo removes the
// allocation again if the devices weren't given out after all.
func (a *Allocations) Add(resource string, check func() (nodes map[string][]string, err error)) (undo func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes, err := check()
	if err != nil {
		return nil, err
	}
	now, before := time.Now(), map[Key]Allocation{}
	for id, names := range nodes {
		key := Key{Resource: resource, ID: id}
		before[key] = a.given[key]
		a.given[key] = Allocation{now, names}
	}
	select {
	case a.added <- struct{}{}:
	default: // it hasn't been read yet
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for key, was := range before {
			switch {
			case !a.given[key].At.Equal(now): // it has been given out again since
			case was.At.IsZero():
				delete(a.given, key)
			default:
				a.given[key] = was
			}
		}
	}, nil
}

// since reports whether any device was given out at this time or later.
func (a *Allocations) since(at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, given := range a.given {
		if !given.At.Before(at) {
			return true
		}
	}
	return false
}

// All returns a copy of the set.
func (a *Allocations) All() map[Key]Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[Key]Allocation, len(a.given))
	for key, given := range a.given {
		all[key] = given
	}
	return all
}
