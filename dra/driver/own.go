package driver

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/dra/names"
	"b-com.com/accelerator-device-plugin/internal/event"
)

const (
	// settle is the time between a deletion and the first attempt to write the slices again. In that
	// time the helper learns of the deletion, too, and the other slices are deleted.
	settle = 20 * time.Millisecond
	// maxRetry bounds the time between two attempts, which doubles with each. The helper makes attempts
	// of its own at this interval.
	maxRetry = resourceslice.DefaultSyncDelay
	// calm is the time without deletions after which attempts are as quick as at first. It bounds the
	// requests if a slice is deleted each time that it is written, for example because its node was
	// created anew, with another uid.
	calm = time.Minute
)

// stored has the slices of this driver and node on the API server, by name. It is immutable.
type stored struct {
	slices  map[string]*resourceapi.ResourceSlice
	deleted int // number of slices that were deleted so far
}

// watch follows the slices of this driver and node on the API server until ctx ends. While the server
// does not answer, client-go tries again after 0.8 s to 30 s, at random.
func (d *Driver) watch(ctx context.Context) {
	selector := fields.Set{
		resourceapi.ResourceSliceSelectorDriver: names.Driver, resourceapi.ResourceSliceSelectorNodeName: d.cfg.Node,
	}.String()
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
	informer.RunWithContext(ctx)
}

// note stores one event of the watch.
func (d *Driver) note(object any, deleted bool) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	slice, ok := object.(*resourceapi.ResourceSlice)
	if !ok {
		return
	}
	d.stored.Update(func(s stored) stored {
		s.slices = maps.Clone(s.slices)
		if s.slices == nil {
			s.slices = map[string]*resourceapi.ResourceSlice{}
		}
		if deleted {
			delete(s.slices, slice.Name)
			s.deleted++
		} else {
			s.slices[slice.Name] = slice
		}
		return s
	})
	s, _ := d.stored.Load()
	if deleted && d.lacks(s) {
		d.log.Info("slice deleted by another client", event.SlicesDeleted, event.Resource(names.Driver), event.Object("ResourceSlice/"+slice.Name))
	}
}

// byIndex returns the stored slices by the index with which their names begin, which is that of the
// wanted slice. While two drivers run, there may be two for a moment.
func (s stored) byIndex() map[string]*resourceapi.ResourceSlice {
	all := make(map[string]*resourceapi.ResourceSlice, len(s.slices))
	for name, slice := range s.slices {
		index, _, _ := strings.Cut(name, "-")
		all[index] = slice
	}
	return all
}

// lacks reports whether there are fewer slices than wanted.
func (d *Driver) lacks(s stored) bool {
	wanted := d.wanted.Load()
	return wanted != nil && len(s.byIndex()) < len(*wanted)
}

// holds reports whether the stored slices are those that were published last.
func (d *Driver) holds(s stored) bool {
	wanted, found := d.wanted.Load(), s.byIndex()
	if wanted == nil || len(found) != len(*wanted) {
		return false
	}
	for i, index := range slices.Sorted(maps.Keys(found)) {
		if !resourceslice.DevicesDeepEqual(found[index].Spec.Devices, (*wanted)[i].Devices) {
			return false
		}
	}
	return true
}

// restore has slices written again that another client has deleted, until ctx ends.
func (d *Driver) restore(ctx context.Context) {
	done, last, wait := 0, time.Time{}, settle
	for {
		s, stale := d.stored.Load()
		if s.deleted == done || !d.lacks(s) {
			done = s.deleted
			select {
			case <-ctx.Done():
				return
			case <-stale:
			}
			continue
		}
		if time.Since(last) > calm {
			wait = settle
		}
		last = time.Now()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetry)
		if s, _ := d.stored.Load(); d.lacks(s) {
			d.publisher.Again()
		}
	}
}
