package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
)

// injection writes the CDI spec file, from which the container runtime reads the nodes of a
// container. The conductor sets the wanted content. A goroutine writes it, so that no list waits
// for a slow disk. Allocate does the same before it returns a CDI name.
type injection struct {
	spec    *cdi.Spec
	log     *zap.Logger
	metrics *metrics.Metrics
	hook    *cdi.Hook                                        // of devices that are programmed at the start of a container; nil: none
	sysRoot string                                           // of sysfs on the host
	changed func(context.Context, map[string][]string) error // [Config.Injected]
	wanted  *latest.Value[wanted]
	problem atomic.Pointer[error] // of the last write; nil: the file contains the wanted content
}

// wanted is the wanted content.
type wanted struct {
	devices []cdi.Device
	changed map[string][]string // nodes that their holders were not given, by device
}

// newInjection returns nil if CDI is off.
func newInjection(cfg Config, log *zap.Logger) *injection {
	if cfg.CDI == nil {
		return nil
	}
	return &injection{
		spec: cfg.CDI, hook: cfg.ProgrammingHook, sysRoot: cfg.HostSysRoot, log: log, metrics: cfg.Metrics, changed: cfg.Injected,
		wanted: latest.New(wanted{}),
	}
}

// want makes the devices of these resources the wanted content. Only the conductor
// calls it.
func (i *injection) want(resources []offer.Resource) {
	if i == nil {
		return
	}
	devices, changed := []cdi.Device{}, map[string][]string{}
	for _, r := range resources {
		for _, d := range r.Devices {
			nodes, mounts := d.Nodes, d.MountsOf(i.sysRoot)
			if slices.ContainsFunc(d.Reasons, func(r string) bool { return inventory.ReasonOf(r).WithholdsNodes }) {
				nodes, mounts = nil, nil // a container that restarts would share the device with another, or get another device
			}
			if len(nodes) > 0 && slices.Contains(d.Reasons, inventory.ReasonNodeChanged) {
				changed[d.ID] = slices.Concat(d.Nodes, d.NodeNumbers)
			}
			device := cdi.Device{ID: d.ID, Nodes: nodes, SharedNodes: d.SharedNodes, Mounts: mounts}
			if i.hook != nil && d.ProgramAtStart {
				args := []string{"accelerator-fpga", "hook", "--device", d.ID}
				device.Hook = &cdi.Hook{Path: i.hook.Path, Args: slices.Concat(args, i.hook.Args)}
			}
			devices = append(devices, device)
		}
	}
	if now, _ := i.wanted.Load(); !reflect.DeepEqual(now, wanted{devices, changed}) {
		i.wanted.Store(wanted{devices, changed})
	}
}

// run writes the wanted content whenever it changes, until ctx ends. At each interval it
// writes again if another process has changed the file.
func (i *injection) run(ctx context.Context, every time.Duration) {
	check := time.NewTicker(every)
	defer check.Stop()
	for {
		_, stale := i.wanted.Load()
		_ = i.settle(ctx) // logs its error
		select {
		case <-ctx.Done():
			return
		case <-stale:
		case <-check.C:
		}
	}
}

// settle writes the wanted content. If the content has changed meanwhile, settle writes again,
// because the other goroutine may have written the newer content first. It logs an error
// once, and the recovery.
func (i *injection) settle(ctx context.Context) error {
	for {
		now, stale := i.wanted.Load()
		if now.devices == nil {
			return nil // no content yet: the file may be a peer's
		}
		devices := now.devices
		var unrecorded error
		if i.changed != nil && len(now.changed) > 0 {
			// Devices whose nodes could not be recorded are left out of the spec. The end of ctx does not interrupt the
			// recording, because the nodes may be recorded already, and must not be taken away then.
			if unrecorded = i.changed(context.WithoutCancel(ctx), now.changed); unrecorded != nil {
				devices = slices.DeleteFunc(slices.Clone(devices), func(d cdi.Device) bool { return now.changed[d.ID] != nil })
			}
		}
		err := i.spec.Write(devices)
		problem := cmp.Or(err, unrecorded)
		i.metrics.CDI(problem)
		if problem != nil {
			if was := i.problem.Swap(&problem); was == nil || (*was).Error() != problem.Error() {
				i.log.Error("CDI spec could not be written", logevent.CDIFailed, logevent.Err(problem))
			}
			return err
		}
		if i.problem.Swap(nil) != nil {
			i.log.Info("CDI spec could be written again", logevent.CDIRecovered)
		}
		select {
		case <-stale:
		default:
			return nil
		}
	}
}

// ready returns nil if the file contains the wanted content.
func (i *injection) ready() error {
	if i == nil {
		return nil
	}
	if err := i.problem.Load(); err != nil {
		return *err
	}
	return nil
}

var errNotInSpec = errors.New("not in the CDI spec yet")

// names writes the wanted content and returns the CDI names of these devices. A device without
// nodes and mounts has none.
func (i *injection) names(ctx context.Context, devices []*inventory.Device) ([]string, error) {
	if err := i.settle(ctx); err != nil {
		return nil, err
	}
	var names []string
	for _, d := range devices {
		if len(d.Nodes) == 0 && len(d.Mounts) == 0 {
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
