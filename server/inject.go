package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/cdi"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// injection is how containers get their nodes where CDI is on: by a spec file that
// the container runtime reads. The conductor sets the wanted content. A goroutine keeps
// the file so: a disk may be slow, and no list waits for it. Allocate does the same
// before it gives a name away.
type injection struct {
	spec    *cdi.Spec
	log     *zap.Logger
	metrics *metrics.Metrics
	wanted  *feed[[]cdi.Device]
	problem atomic.Pointer[error] // why the file is not as wanted; nil: it is
}

// newInjection returns nil where CDI is off.
func newInjection(spec *cdi.Spec, m *metrics.Metrics, log *zap.Logger) *injection {
	if spec == nil {
		return nil
	}
	return &injection{spec: spec, log: log, metrics: m, wanted: newFeed[[]cdi.Device](nil)}
}

// want makes the devices of these resources the wanted content. Only the conductor
// calls it.
func (i *injection) want(resources []offer.Resource) {
	if i == nil {
		return
	}
	devices := []cdi.Device{}
	for _, r := range resources {
		for _, d := range r.Devices {
			nodes := d.Nodes
			if slices.ContainsFunc(d.Reasons, func(r string) bool { return inventory.ReasonOf(r).WithholdsNodes }) {
				nodes = nil // a container that restarts would share the device, or get another device
			}
			devices = append(devices, cdi.Device{ID: d.ID, Nodes: nodes})
		}
	}
	if now, _ := i.wanted.latest(); !reflect.DeepEqual(now, devices) {
		i.wanted.publish(devices)
	}
}

// run keeps the file as it is wanted until ctx ends. Once in a while it checks that no
// other process has changed the file.
func (i *injection) run(ctx context.Context, every time.Duration) {
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		_, stale := i.wanted.latest()
		_ = i.settle() // an error has been logged
		select {
		case <-ctx.Done():
			return
		case <-stale:
		case <-look.C:
		}
	}
}

// settle writes the wanted content. If that has changed meanwhile, settle writes again:
// the other goroutine may have written the newer content first. An error is logged once,
// and so is its end.
func (i *injection) settle() error {
	for {
		devices, stale := i.wanted.latest()
		if devices == nil {
			return nil // nothing is known yet: the file may be that of a peer
		}
		err := i.spec.Write(devices)
		i.metrics.CDI(err)
		if err != nil {
			if was := i.problem.Swap(&err); was == nil || (*was).Error() != err.Error() {
				i.log.Error("spec could not be written", event.CDIFailed, event.Err(err))
			}
			return err
		}
		if i.problem.Swap(nil) != nil {
			i.log.Info("spec could be written again", event.CDIRecovered)
		}
		select {
		case <-stale:
		default:
			return nil
		}
	}
}

// ready returns nil when the file is as it is wanted.
func (i *injection) ready() error {
	if i == nil {
		return nil
	}
	if err := i.problem.Load(); err != nil {
		return *err
	}
	return nil
}

var errNotInSpec = errors.New("the CDI spec does not have it yet")

// names writes the file if it is not as wanted and returns the names by which the runtime
// finds these devices. A device without nodes has none.
func (i *injection) names(devices []*inventory.Device) ([]string, error) {
	if err := i.settle(); err != nil {
		return nil, err
	}
	var names []string
	for _, d := range devices {
		if len(d.Nodes) == 0 {
			continue
		}
		name, ok := i.spec.Name(d.ID)
		if !ok {
			return nil, fmt.Errorf("device %q: %w", d.ID, errNotInSpec)
		}
		names = append(names, name)
	}
	return names, nil
}
