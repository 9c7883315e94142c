package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/server/standin"
	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// feed is a stand-in for the kubelet, and every list that it was sent.
type feed struct {
	kubelet *standin.Kubelet
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu    sync.Mutex
	lists []standin.List
}

// startKubelet starts one that daemons of any user reach.
func startKubelet(ctx context.Context) (*feed, error) {
	kubelet, err := standin.Start(ctx, kubeletDir, standin.Behaviour{})
	if err != nil {
		return nil, err
	}
	f := &feed{kubelet: kubelet}
	ctx, f.stop = context.WithCancel(ctx)
	f.done.Go(func() { f.follow(ctx) })
	return f, openToAll(kubeletDir, filepath.Join(kubeletDir, standin.Socket))
}

func openToAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Chmod(path, 0o777); err != nil {
			return err
		}
	}
	return nil
}

// follow records lists. Of those that come faster than we look it sees the last, so
// that no time is taken for shorter than it was.
func (f *feed) follow(ctx context.Context) {
	last := 0
	for {
		list, err := f.kubelet.AwaitList(ctx, resource, func(l standin.List) bool { return l.Number != last })
		if err != nil {
			return
		}
		last = list.Number
		f.mu.Lock()
		f.lists = append(f.lists, list)
		f.mu.Unlock()
	}
}

func (f *feed) end() {
	f.stop()
	f.kubelet.Stop()
	f.done.Wait()
}

// since are the lists that were received after a moment, after the last before it.
func (f *feed) since(t time.Time) []standin.List {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.lists, func(l standin.List) bool { return l.Received.After(t) })
	if at < 0 {
		at = len(f.lists)
	}
	return slices.Clone(f.lists[max(at-1, 0):])
}

// newest is the newest list; without one, an empty one.
func (f *feed) newest() standin.List { return f.kubelet.Newest(resource) }

// met says whether the list tells what is expected.
func met(e story.Expectation, l standin.List) bool {
	d, listed := l.Device(e.Device)
	return listed == (e.Health != "gone") && d.Healthy == e.Offered()
}

func show(l standin.List) string {
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
