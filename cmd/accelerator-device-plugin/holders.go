package main

import (
	"context"
	"errors"
	"os"
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

// How long the kubelet may take to answer the question for holders: in a command that needs
// the answer, and in one that also works without it.
const (
	holdersPatient = 2 * time.Second
	holdersSoon    = 500 * time.Millisecond
)

// held has the holders of devices. It is nil if they are not known.
type held map[podresources.Key][]podresources.Holder

// askHolders asks the kubelet for the holders of devices.
func askHolders(ctx context.Context, socket string, within time.Duration) (held, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, err // grpc would not say that it does not exist
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return podresources.List(ctx, socket)
}

// kubeletSettles is the time after its start in which a kubelet may not name all holders: it gets
// its pods from the API server.
const kubeletSettles = 10 * time.Second

// justStarted reports whether the kubelet has made its socket in the last [kubeletSettles].
func justStarted(socket string) bool {
	info, err := os.Stat(socket)
	if err != nil {
		return false
	}
	age := time.Since(info.ModTime()) // negative: the clock was set
	return 0 <= age && age < kubeletSettles
}

// lookup returns a function that lists the holders of one device, or nil if they are not known.
func (h held) lookup() func(resource, id string) []string {
	if h == nil {
		return nil
	}
	return h.of
}

// names reports whether the answer has a holder of the device.
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

// ours returns the holdings under names of our resources, by device, in the order of the names.
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

// ask returns the holdings of devices, by id: those for which the kubelet names a holder, and
// those that were given out so recently that the kubelet may not name a holder yet.
func (s holderSource) ask(ctx context.Context) (map[string][]inventory.Holding, error) {
	asked := time.Now()
	known, err := askHolders(ctx, s.socket, holdersPatient)
	if err != nil {
		return nil, err
	}
	return s.complete(ctx, asked, known)
}

// complete returns the holdings of a kubelet's answer, with the allocations and the nodes
// that the answer lacks. asked is when the kubelet was asked.
//
// The nodes of devices that other or earlier daemons have given out are read from the
// kubelet's checkpoint. The only errors are those of [sysfs.IsShortage]: the caller then keeps
// the previous answer.
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
			if key := (podresources.Key{Resource: h.As, ID: id}); !given[key] {
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
			r, found := record[key]
			h.Nodes, h.NodesErr = r.Nodes, nodesErr(r, found, err)
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

var (
	errNotRecorded = errors.New("the kubelet's checkpoint has no entry of the device")
	errNoNodes     = errors.New("the kubelet's checkpoint does not name the device's nodes")
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
		return errNoNodes
	}
	return nil
}

// record returns the holdings that the kubelet's checkpoint has at the start. It ignores an
// error, because the first answer reports it if any device is held.
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

// ownership has the names of our resources: those that the policy gives in any mode, and those
// of all rules since the start, because containers may still hold devices under them. It is
// safe for concurrent use.
type ownership struct {
	policy offer.Policy // of the start
	named  sync.Map     // names of the resources of later rules
}

// add adds the names of these rules. They stay until the daemon ends.
func (o *ownership) add(rules []offer.Rule) {
	for _, r := range rules {
		o.named.Store(r.Resource, true)
	}
}

func (o *ownership) owns(resource, id string) bool {
	_, named := o.named.Load(resource)
	return named || o.policy.Owns(resource, id)
}
