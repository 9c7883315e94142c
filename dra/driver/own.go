package driver

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	// minWait is the time between the deletion of a slice and the first attempt to restore it. By then, the helper has
	// also seen the deletion, and the other slices have been deleted too. The wait doubles with each attempt.
	minWait = 50 * time.Millisecond
	// maxWait is the maximum time between attempts. The first attempt also waits that long if no slices are missing but
	// their contents differ, because two drivers that are running at the same time may list different devices for a
	// while.
	maxWait = 30 * time.Second
	// After maxAttempts attempts in a row, there is only one attempt per attemptInterval. This protects the API server
	// if a slice is deleted every time it is written, for example because the node object was recreated with a
	// different UID.
	maxAttempts     = 20
	attemptInterval = 10 * time.Second
)

// state holds the desired slices and the slices on the API server. It is immutable.
type state struct {
	wanted []resourceslice.Slice                 // as last published; nil if nothing has been published yet
	stored map[string]*resourceapi.ResourceSlice // this driver's slices for this node, by name
	listed bool                                  // whether stored is complete
}

// byIndex returns the stored slices, keyed by the index that their names start with, which is also their index in
// wanted. While two drivers are running, there may briefly be two slices with the same index, of which byIndex returns
// only one.
func (s state) byIndex() map[string]*resourceapi.ResourceSlice {
	all := make(map[string]*resourceapi.ResourceSlice, len(s.stored))
	for name, slice := range s.stored {
		index, _, _ := strings.Cut(name, "-")
		all[index] = slice
	}
	return all
}

// lacks reports whether the API server has fewer slices than it should.
func (s state) lacks() bool { return len(s.byIndex()) < len(s.wanted) }

// current reports whether the stored slices contain the same devices as the desired ones.
func (s state) current() bool {
	found := s.byIndex()
	if s.wanted == nil || len(found) != len(s.wanted) {
		return false
	}
	for i, index := range slices.Sorted(maps.Keys(found)) {
		if !resourceslice.DevicesDeepEqual(found[index].Spec.Devices, s.wanted[i].Devices) {
			return false
		}
	}
	return true
}

// watch follows this driver's slices for this node on the API server until ctx is done. If the server doesn't respond,
// client-go retries after a random time between 0.8 s and 30 s.
func (d *Driver) watch(ctx context.Context) {
	selector := selectorOf(d.cfg.Node)
	client := d.cfg.Client.ResourceV1().ResourceSlices()
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.FieldSelector = selector
				return client.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.FieldSelector = selector
				return client.Watch(ctx, o)
			},
		}, d.cfg.Client),
		ObjectType: &resourceapi.ResourceSlice{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { d.note(object, false) },
			UpdateFunc: func(_, object any) { d.note(object, false) },
			DeleteFunc: func(object any) { d.note(object, true) },
		},
	})
	var listing sync.WaitGroup
	defer listing.Wait()
	listing.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			d.state.Update(func(s state) state { s.listed = true; return s })
		}
	})
	informer.RunWithContext(ctx)
}

// selectorOf returns the field selector for this driver's slices on a node.
func selectorOf(node string) string {
	return fields.Set{
		resourceapi.ResourceSliceSelectorDriver: draname.Driver, resourceapi.ResourceSliceSelectorNodeName: node,
	}.String()
}

// note updates the state from a watch event.
func (d *Driver) note(object any, deleted bool) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	slice, ok := object.(*resourceapi.ResourceSlice)
	if !ok {
		return
	}
	d.state.Update(func(s state) state {
		stored := map[string]*resourceapi.ResourceSlice{}
		maps.Copy(stored, s.stored)
		if deleted {
			delete(stored, slice.Name)
		} else {
			stored[slice.Name] = slice
		}
		s.stored = stored
		return s
	})
	if s, _ := d.state.Load(); deleted && s.lacks() {
		d.log.Info("slice deleted by another client", logevent.SlicesDeleted, logevent.Resource(draname.Driver), logevent.Object("ResourceSlice/"+slice.Name))
	}
}

// restore calls handAgain at intervals while the API server doesn't have the desired slices. It returns when ctx is
// done. Without restore, the helper wouldn't rewrite deleted slices for 30 s, or for up to 1000 s if it hadn't been
// able to reach the API server for a long time.
func (d *Driver) restore(ctx context.Context, handAgain func(context.Context)) {
	attempts := rate.NewLimiter(rate.Every(attemptInterval), maxAttempts)
	for wait := minWait; ; {
		s, stale := d.state.Load()
		var attempt <-chan time.Time
		switch {
		case s.wanted == nil || s.current():
			wait = minWait
		case s.lacks():
			attempt = time.After(wait)
		default:
			attempt = time.After(maxWait)
		}
		select {
		case <-ctx.Done():
			return
		case <-stale:
		case <-attempt:
			if attempts.Wait(ctx) != nil {
				return
			}
			handAgain(ctx)
			wait = min(2*wait, maxWait)
		}
	}
}
