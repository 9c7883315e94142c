package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// feed is a stand-in for the kubelet, with all the lists that it has received.
type feed struct {
	kubelet *simkubelet.Kubelet

	mu       sync.Mutex
	received []lists
}

// lists maps each resource that has an open stream to its latest list.
type lists map[string]simkubelet.List

// startKubelet starts a stand-in for the kubelet that any user's daemons can connect to.
func startKubelet(ctx context.Context) (*feed, error) {
	kubelet, err := simkubelet.Start(ctx, kubeletDir, simkubelet.Behaviour{})
	if err != nil {
		return nil, err
	}
	f := &feed{kubelet: kubelet}
	kubelet.Follow(f.add)
	return f, openToAll(kubeletDir, filepath.Join(kubeletDir, simkubelet.Socket))
}

func openToAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Chmod(path, 0o777); err != nil {
			return err
		}
	}
	return nil
}

// add records the kubelet's current lists.
func (f *feed) add(open map[string]simkubelet.List) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, maps.Clone(open))
}

func (f *feed) end() { f.kubelet.Stop() }

// since returns the last list received before t, if any, and then all lists received after t. Each returned list
// combines the lists of several resources, as in [lists.of].
func (f *feed) since(t time.Time, resource string) []simkubelet.List {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []simkubelet.List
	for _, received := range f.received {
		l := received.of(resource)
		if n := len(all); l.Number > 0 && (n == 0 || all[n-1].Number != l.Number) {
			all = append(all, l)
		}
	}
	at := slices.IndexFunc(all, func(l simkubelet.List) bool { return l.Received.After(t) })
	if at < 0 {
		at = len(all)
	}
	return all[max(at-1, 0):]
}

// newest returns the kubelet's latest lists.
func (f *feed) newest() lists {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.received) == 0 {
		return nil
	}
	return f.received[len(f.received)-1]
}

// of merges the lists of all resources whose names start with the given one. The merged list's number is the sum of
// these lists' numbers, or 0 if there aren't any lists.
func (ls lists) of(resource string) simkubelet.List {
	var all simkubelet.List
	for _, name := range slices.Sorted(maps.Keys(ls)) {
		if l := ls[name]; strings.HasPrefix(name, resource) {
			all.Number += l.Number
			all.Devices = append(all.Devices, l.Devices...)
			if l.Received.After(all.Received) {
				all.Received = l.Received
			}
		}
	}
	return all
}

// resourceOf returns the resource whose list contains the device.
func (ls lists) resourceOf(device string) (resource string, err error) {
	for name, l := range ls {
		if _, listed := l.Device(device); listed {
			return name, nil
		}
	}
	return "", fmt.Errorf("lists of the kubelet: found %s, want one with %s", ls, device)
}

func (ls lists) String() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(ls)) {
		words = append(words, name+" "+show(ls[name]))
	}
	return strings.Join(words, ", ")
}

// met reports whether the list meets the expectation.
func met(e story.Expectation, l simkubelet.List) bool {
	d, listed := l.Device(e.Device)
	if e.Unoffered {
		return !listed
	}
	return listed == (e.Health != "gone") && d.Healthy == e.Offered()
}

func show(l simkubelet.List) string {
	var words []string
	for _, d := range l.Devices {
		health := "unhealthy"
		if d.Healthy {
			health = "healthy"
		}
		words = append(words, d.ID+" "+health)
	}
	return fmt.Sprintf("list %d %v", l.Number, words)
}
