package main

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/checkpoint"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

// How long the kubelet may take to say who holds what: for a command that was
// called to hear it, and where something else waits for the answer.
const (
	holdersPatient = 2 * time.Second
	holdersSoon    = 500 * time.Millisecond
)

// held is who holds what. nil: that is not known.
type held map[podresources.Key][]podresources.Holder

// askHolders asks who holds what.
func askHolders(ctx context.Context, socket string, within time.Duration) (held, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, err // grpc would not say that it does not exist
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return podresources.List(ctx, socket)
}

// lookup returns what lists the holders of one device, nil where they are not known.
func (h held) lookup() func(resource, id string) []string {
	if h == nil {
		return nil
	}
	return h.of
}

// names reports whether a device has a holder.
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

// ours are the devices that are held under a resource of ours, by id, each with its
// holdings in the order of their names.
func (h held) ours(owns func(resource, id string) bool) map[string][]inventory.Holding {
	all := make(map[string][]inventory.Holding)
	for key := range h {
		if owns(key.Resource, key.ID) {
			all[key.ID] = append(all[key.ID], inventory.Holding{As: key.Resource, Holders: h.of(key.Resource, key.ID)})
		}
	}
	for _, holdings := range all {
		slices.SortFunc(holdings, func(a, b inventory.Holding) int { return strings.Compare(a.As, b.As) })
	}
	return all
}

// holderSource finds the holders of devices, and the nodes that the holders were given.
type holderSource struct {
	socket     string // of the pod-resources API
	kubeletDir string // of its checkpoint
	owns       func(resource, id string) bool
	given      *server.Allocations
}

// rereadCheckpoint is the time within which the kubelet writes its checkpoint after an
// allocation: it does so before anything else.
const rereadCheckpoint = 100 * time.Millisecond

// ask returns the devices that are held, by id: those for which the kubelet names a
// holder, and those that were given out so recently that the kubelet may not name it yet.
func (s holderSource) ask(ctx context.Context) (map[string][]inventory.Holding, error) {
	asked := time.Now()
	known, err := askHolders(ctx, s.socket, holdersPatient)
	if err != nil {
		return nil, err
	}
	return s.complete(ctx, asked, known)
}

// When the kubelet is asked for the holder of a device that was given out. The pod is
// admitted within milliseconds, unless it waits for other devices.
const (
	confirmAfter = time.Second
	confirmAgain = 5 * time.Second
	confirmTries = 3
)

// confirm asks for the holders of devices that were given out, until ctx ends. Otherwise
// the holder of a short-lived pod might never be named, and its device would count as held
// for the grace time after the pod has ended.
func (s holderSource) confirm(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.given.Added():
		}
		wait := confirmAfter
		for range confirmTries {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			if _, err := s.ask(ctx); err == nil {
				break
			}
			wait = confirmAgain
		}
	}
}

// complete returns the holdings of a kubelet's answer, with the allocations and the nodes
// that the answer lacks. asked is when the kubelet was asked.
func (s holderSource) complete(ctx context.Context, asked time.Time, known held) (map[string][]inventory.Holding, error) {
	all := known.ours(s.owns)
	told := map[podresources.Key]bool{}
	for _, a := range s.given.Compare(asked, known.names) {
		told[podresources.Key{Resource: a.Resource, ID: a.ID}] = true
		i := slices.IndexFunc(all[a.ID], func(h inventory.Holding) bool { return h.As == a.Resource })
		if i < 0 {
			all[a.ID] = append(all[a.ID], inventory.Holding{As: a.Resource, Nodes: a.Nodes})
		} else {
			all[a.ID][i].Nodes = a.Nodes
		}
	}
	return all, s.addRecorded(ctx, all, told)
}

// addRecorded adds the nodes of devices that other daemons, or earlier ones, gave out: it
// reads them from the kubelet's checkpoint. told are the devices whose nodes are known. The
// only errors are those of [sysfs.OwnTrouble]: then the answer before is better.
func (s holderSource) addRecorded(ctx context.Context, all map[string][]inventory.Holding, told map[podresources.Key]bool) error {
	missing := false
	for id, holdings := range all {
		for _, h := range holdings {
			missing = missing || !told[podresources.Key{Resource: h.As, ID: id}]
		}
	}
	if !missing {
		return nil
	}
	add := func() (complete bool, err error) {
		record, err := checkpoint.Read(s.kubeletDir)
		if sysfs.OwnTrouble(err) {
			return false, err
		}
		complete = true
		for id, holdings := range all {
			for i, h := range holdings {
				if key := (podresources.Key{Resource: h.As, ID: id}); !told[key] {
					given, found := record[key]
					holdings[i].Nodes, holdings[i].NodesErr = given.Nodes, nodesErr(given, found, err)
					complete = complete && holdings[i].NodesErr == nil
				}
			}
		}
		return complete, nil
	}
	complete, err := add()
	if complete || err != nil {
		return err
	}
	select { // another daemon may have given the device out just now
	case <-ctx.Done():
	case <-time.After(rereadCheckpoint):
		_, err = add()
	}
	return err
}

var (
	errNotRecorded = errors.New("the kubelet's checkpoint has no entry of the device")
	errNotTold     = errors.New("the kubelet's checkpoint does not name the device's nodes")
)

// nodesErr returns the reason why the nodes that were given with a device are not known,
// or nil if they are known.
func nodesErr(given checkpoint.Given, found bool, err error) error {
	switch {
	case err != nil:
		return err
	case !found:
		return errNotRecorded
	case !given.Known:
		return errNotTold
	}
	return nil
}

// record returns the holdings that the kubelet's checkpoint has at the start. An error is
// ignored here: the first answer reports it, if any device is held.
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

// owner remembers every policy that the daemon has had: what was given out under
// an earlier one is ours still.
type owner struct {
	mu       sync.Mutex
	policies []offer.Policy
}

func (o *owner) follow(p offer.Policy) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.policies = append(slices.DeleteFunc(o.policies, func(old offer.Policy) bool { return reflect.DeepEqual(old, p) }), p)
}

func (o *owner) owns(resource, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.policies, func(p offer.Policy) bool { return p.Owns(resource, id) })
}
