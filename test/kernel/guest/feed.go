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

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// feed is a stand-in for the kubelet, and all that it was told.
type feed struct {
	kubelet *simkubelet.Kubelet

	mu   sync.Mutex
	told []lists
}

// lists are the newest lists of all resources whose stream is open, by their names.
type lists map[string]simkubelet.List

// startKubelet starts one that daemons of any user reach.
func startKubelet(ctx context.Context) (*feed, error) {
	kubelet, err := simkubelet.Start(ctx, kubeletDir, simkubelet.Behaviour{})
	if err != nil {
		return nil, err
	}
	f := &feed{kubelet: kubelet}
	kubelet.Follow(f.hear)
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

// hear records what the kubelet was told now.
func (f *feed) hear(open map[string]simkubelet.List) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, maps.Clone(open))
}

func (f *feed) end() { f.kubelet.Stop() }

// since are the lists, as [lists.of] joins them, that were received after a moment,
// after the last before it.
func (f *feed) since(t time.Time, resource string) []simkubelet.List {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []simkubelet.List
	for _, told := range f.told {
		l := told.of(resource)
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

// newest is what the kubelet has now.
func (f *feed) newest() lists {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.told) == 0 {
		return nil
	}
	return f.told[len(f.told)-1]
}

// of joins the lists of the resources whose names begin so. Its number is how many
// there were, and 0 when there was none.
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

// listing is the resource that a device is listed as.
func (ls lists) listing(device string) (resource string, err error) {
	for name, l := range ls {
		if _, listed := l.Device(device); listed {
			return name, nil
		}
	}
	return "", fmt.Errorf("the kubelet has no %s: %s", device, ls)
}

func (ls lists) String() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(ls)) {
		words = append(words, name+" "+show(ls[name]))
	}
	return strings.Join(words, ", ")
}

// met says whether the list tells what is expected.
func met(e story.Expectation, l simkubelet.List) bool {
	d, listed := l.Device(e.Device)
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
