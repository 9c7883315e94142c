package holders

import (
	"sync"
	"time"
)

// Allocations records the latest allocation of each device that this daemon has allocated to a container. It never
// grows beyond the number of devices ever listed. It is safe for concurrent use.
type Allocations struct {
	added chan struct{} // holds an element after an allocation, until it is read

	mu    sync.Mutex
	given map[Key]Allocation
}

// Allocation records when a device was allocated and with which device nodes (names, and numbers as MAJOR:MINOR).
type Allocation struct {
	At    time.Time
	Nodes []string
}

// NewAllocations returns an empty Allocations.
func NewAllocations() *Allocations {
	return &Allocations{added: make(chan struct{}, 1), given: map[Key]Allocation{}}
}

// Added returns a channel that receives an element after an allocation. Further allocations don't add another element
// until that one has been read.
func (a *Allocations) Added() <-chan struct{} { return a.added }

// Ask makes the daemon query all sources for the devices' holders, just as it does after an allocation.
func (a *Allocations) Ask() {
	select {
	case a.added <- struct{}{}:
	default: // the previous element hasn't been read yet
	}
}

// Add records that devices of a resource are being allocated, unless check returns an error. check returns the device
// nodes of each of these devices, keyed by device id. Add holds the lock while it calls check, so that the inventory
// can't miss an allocation: if the inventory asks for a device's holders after the device has become unhealthy or left
// the list, either the allocation is already recorded or check rejects it. The caller calls undo if the devices weren't
// allocated after all.
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
	a.Ask()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for key, was := range before {
			switch {
			case !a.given[key].At.Equal(now): // the device has been allocated again since
			case was.At.IsZero():
				delete(a.given, key)
			default:
				a.given[key] = was
			}
		}
	}, nil
}

// since reports whether any device was allocated at or after the given time.
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

// All returns a copy of all recorded allocations.
func (a *Allocations) All() map[Key]Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[Key]Allocation, len(a.given))
	for key, given := range a.given {
		all[key] = given
	}
	return all
}
