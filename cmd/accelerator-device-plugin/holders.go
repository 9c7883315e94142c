package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/draname"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/checkpoint"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

// Timeouts of a request to the kubelet for holders.
const (
	holdersPatient = 2 * time.Second        // if the answer is needed
	holdersSoon    = 500 * time.Millisecond // if the caller can do without it
)

// held is an answer of the kubelet: the holders of devices. It is nil if they are not known.
type held map[podresources.Key][]podresources.Holder

// askHolders asks the kubelet for the holders of devices. A device that belongs to a claim on
// the DRA driver has the driver's name as its resource, and the device id: 3b:00.0. memory adds the
// holders that the kubelet may not name yet; it may be nil.
func askHolders(ctx context.Context, socket string, within time.Duration, memory *podresources.Memory) (held, error) {
	justStarted := podresources.JustStarted(socket)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, err := podresources.List(ctx, socket)
	if err != nil {
		return nil, err
	}
	if memory != nil {
		return devicesHeld(memory.Complete(answer, justStarted)), nil
	}
	return devicesHeld(answer.Holders), nil
}

// devicesHeld returns the holders with the ids of devices in place of the names that the driver gives them.
func devicesHeld(all map[podresources.Key][]podresources.Holder) held {
	known := held{}
	for key, holders := range all {
		if key.Resource == draname.Driver {
			if id, ok := draname.ID(key.ID); ok {
				key.ID = id
			}
		}
		known[key] = holders
	}
	return known
}

// lookup returns a function for the holders of one device, those of claims included. It is nil if the
// holders are not known.
func (h held) lookup() func(resource, id string) []string {
	if h == nil {
		return nil
	}
	return func(resource, id string) []string {
		all := h.of(draname.Driver, id)
		if resource != draname.Driver {
			all = append(h.of(resource, id), all...)
		}
		return all
	}
}

// names reports whether the kubelet names a holder of the device.
func (h held) names(resource, id string) bool {
	return len(h[podresources.Key{Resource: resource, ID: id}]) > 0
}

func (h held) of(resource, id string) []string {
	var names []string
	for _, holder := range h[podresources.Key{Resource: resource, ID: id}] {
		names = append(names, holder.String())
	}
	return names
}

// byClaim reports whether a device of the kubelet's answer is held by a claim.
func byClaim(key podresources.Key) bool { return key.Resource == draname.Driver }

var errClaimNodes = errors.New("the nodes of claims are not known to the device plugin")

// ours returns the holdings under names of our resources, and those of claims, by device id, sorted by the names.
func (h held) ours(owns func(resource, id string) bool) map[string][]inventory.Holding {
	all := make(map[string][]inventory.Holding)
	for key := range h {
		if owns(key.Resource, key.ID) {
			all[key.ID] = append(all[key.ID], inventory.Holding{As: key.Resource, Holders: h.of(key.Resource, key.ID)})
		} else if byClaim(key) && inventory.IsAddress(key.ID) {
			all[key.ID] = append(all[key.ID], inventory.Holding{
				As: key.Resource, Holders: h.of(key.Resource, key.ID), OtherAPI: true, NodesErr: errClaimNodes,
			})
		}
	}
	for _, holdings := range all {
		slices.SortFunc(holdings, func(a, b inventory.Holding) int { return strings.Compare(a.As, b.As) })
	}
	return all
}

// holderSource finds the holders of devices, and the device nodes that they were given.
type holderSource struct {
	socket     string // of the pod-resources API
	kubeletDir string // has the kubelet's checkpoint
	owns       func(resource, id string) bool
	given      *server.Allocations
	claims     *podresources.Memory // of the holders of claims
}

// rereadCheckpoint is the time after which the checkpoint is read again for a missing entry. The kubelet
// writes its checkpoint right after an allocation.
const rereadCheckpoint = 100 * time.Millisecond

// ask returns the holdings of devices by id: those with a holder in the kubelet's answer, and those so
// recent that the kubelet may not name the holder yet.
func (s holderSource) ask(ctx context.Context) (map[string][]inventory.Holding, error) {
	asked := time.Now()
	known, err := askHolders(ctx, s.socket, holdersPatient, s.claims)
	if err != nil {
		return nil, err
	}
	return s.complete(ctx, asked, known)
}

// complete returns the holdings of an answer of the kubelet. It adds allocations that the answer does not
// have yet, and the device nodes of all holdings. asked is the time of the request.
//
// Device nodes that another or an earlier daemon has given out are read from the kubelet's checkpoint. The
// only errors are those of [sysfs.IsShortage], after which the caller keeps its previous result.
func (s holderSource) complete(ctx context.Context, asked time.Time, known held) (map[string][]inventory.Holding, error) {
	all := known.ours(s.owns)
	given := map[podresources.Key]bool{} // by this daemon
	for _, a := range s.given.Compare(asked, known.names) {
		given[podresources.Key{Resource: a.Resource, ID: a.ID}] = true
		i := slices.IndexFunc(all[a.ID], func(h inventory.Holding) bool { return h.As == a.Resource })
		if i < 0 {
			i = len(all[a.ID])
			all[a.ID] = append(all[a.ID], inventory.Holding{As: a.Resource})
		}
		all[a.ID][i].Nodes = a.Nodes
	}
	others := map[podresources.Key]*inventory.Holding{}
	for id, holdings := range all {
		for i, h := range holdings {
			if key := (podresources.Key{Resource: h.As, ID: id}); !given[key] && !h.OtherAPI {
				others[key] = &holdings[i]
			}
		}
	}
	for again := false; len(others) > 0; again = true {
		record, err := checkpoint.Read(s.kubeletDir)
		if sysfs.IsShortage(err) {
			return all, err
		}
		complete := true
		for key, h := range others {
			if h.Nodes, h.NodesErr = record.Nodes(key); err != nil {
				h.NodesErr = err
			}
			complete = complete && h.NodesErr == nil
		}
		if complete || again {
			break
		}
		select { // another daemon may have given the device out just now
		case <-ctx.Done():
			return all, nil
		case <-time.After(rereadCheckpoint):
		}
	}
	return all, nil
}

// record returns the holdings in the kubelet's checkpoint, for the start. It ignores errors: if a device
// is held, complete reports them.
func (s holderSource) record() map[string][]inventory.Holding {
	record, _ := checkpoint.Read(s.kubeletDir)
	all := map[string][]inventory.Holding{}
	for key, given := range record {
		if s.owns(key.Resource, key.ID) {
			all[key.ID] = append(all[key.ID], inventory.Holding{As: key.Resource, Nodes: given.Nodes})
		}
	}
	return all
}

// holdersAge is the longest time for which an answer of the kubelet is used. The kubelet answers 100
// requests a second, for all its clients together.
const holdersAge = time.Second

// holdings has the holders of devices, and the devices that were given to containers which the kubelet
// may not name yet.
type holdings struct {
	held   held            // nil: not known
	given  map[string]bool // by id
	unsure bool            // the kubelet has just started
}

// gave reports whether a device was given to a container, whether or not the kubelet names it.
func (h holdings) gave(id string) bool { return h.given[id] }

// sharedHolders asks the kubelet for the holders of devices at most once in [holdersAge], for any
// number of callers. It keeps an answer or an error for that time.
type sharedHolders struct {
	ask    func() (held, error)
	fresh  func() bool // reports whether the kubelet has just started
	owns   func(resource, id string) bool
	given  *server.Allocations
	turn   chan struct{} // full while a caller uses the fields below
	asked  time.Time
	held   held
	unsure bool
	err    error
}

// shareHolders returns a sharedHolders for the kubelet of source. A request to the kubelet ends with
// ctx and not with the caller that began it, because other callers wait for the same answer.
func shareHolders(ctx context.Context, source holderSource) *sharedHolders {
	return &sharedHolders{
		ask:   func() (held, error) { return askHolders(ctx, source.socket, holdersSoon, source.claims) },
		fresh: func() bool { return podresources.JustStarted(source.socket) },
		owns:  source.owns, given: source.given,
		turn: make(chan struct{}, 1),
	}
}

// latest returns the holders of devices. It blocks while the kubelet is asked. A caller that waits for
// another caller's request returns when ctx ends.
func (s *sharedHolders) latest(ctx context.Context) (holdings, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return holdings{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.asked.IsZero() || time.Since(s.asked) >= holdersAge {
		s.asked, s.unsure = time.Now(), s.fresh()
		s.held, s.err = s.ask()
	}
	if s.err != nil {
		return holdings{}, s.err
	}
	given := map[string]bool{}
	for key := range s.held {
		given[key.ID] = given[key.ID] || s.owns(key.Resource, key.ID) || key.Resource == draname.Driver
	}
	for _, a := range s.given.Compare(s.asked, s.held.names) {
		given[a.ID] = true
	}
	return holdings{s.held, given, s.unsure}, nil
}
