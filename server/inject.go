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
// the container runtime reads. The conductor says what it is to say; a goroutine of
// its own keeps the file so, because a disk may be slow and no list waits for it;
// and Allocate makes sure of it before it gives a name away.
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

// want makes the devices of these resources what the file is to say. It is the
// conductor's.
func (i *injection) want(resources []offer.Resource) {
	if i == nil {
		return
	}
	devices := []cdi.Device{}
	for _, r := range resources {
		for _, u := range r.Units {
			d := cdi.Device{ID: u.ID, Nodes: u.Nodes}
			if slices.ContainsFunc(u.Reasons, func(r string) bool { return inventory.ReasonOf(r).WithholdsNodes }) {
				d.Nodes = nil // a container that restarts would share the device, or get another device
			}
			devices = append(devices, d)
		}
	}
	if now, _ := i.wanted.latest(); !reflect.DeepEqual(now, devices) {
		i.wanted.publish(devices)
	}
}

// run keeps the file as it is wanted until ctx ends, also against others: it is
// looked at once in a while.
func (i *injection) run(ctx context.Context, every time.Duration) {
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		_, stale := i.wanted.latest()
		_ = i.settle() // an error has been said
		select {
		case <-ctx.Done():
			return
		case <-stale:
		case <-look.C:
		}
	}
}

// settle makes the file say what is wanted now. Whoever has written what is not
// wanted any more writes again: the newer may have been written first, by the other
// goroutine.
func (i *injection) settle() error {
	for {
		devices, stale := i.wanted.latest()
		if devices == nil {
			return nil // nothing is known yet: the file may be a twin's
		}
		err := i.spec.Write(devices)
		i.note(err)
		if err != nil {
			return err
		}
		select {
		case <-stale:
		default:
			return nil
		}
	}
}

// note logs that the file cannot be written, and when it can again, each once.
func (i *injection) note(err error) {
	i.metrics.CDI(err)
	if err == nil {
		if i.problem.Swap(nil) != nil {
			i.log.Info("spec could be written again", event.CDIRecovered)
		}
		return
	}
	if was := i.problem.Swap(&err); was == nil || (*was).Error() != err.Error() {
		i.log.Error("spec could not be written", event.CDIFailed, event.Err(err))
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

// names are those by which the runtime finds these units, the file being as it is
// wanted. A unit without nodes has none.
func (i *injection) names(units []offer.Unit) ([]string, error) {
	if err := i.settle(); err != nil {
		return nil, err
	}
	var names []string
	for _, u := range units {
		if len(u.Nodes) == 0 {
			continue
		}
		name, ok := i.spec.Name(u.ID)
		if !ok {
			return nil, fmt.Errorf("device %q: %w", u.ID, errNotInSpec)
		}
		names = append(names, name)
	}
	return names, nil
}
