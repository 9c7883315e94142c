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

// injection writes the CDI spec file, which tells the container runtime which nodes a container gets. The conductor
// sets the desired content, and a goroutine writes it, so that lists don't have to wait for a slow disk. Allocate also
// writes the file before it returns a CDI name.
type injection struct {
	spec    *cdi.Spec
	log     *zap.Logger
	metrics *metrics.Metrics
	hook    *cdi.Hook                                        // for devices that are programmed when a container starts; nil if there is none
	sysRoot string                                           // the sysfs root on the host
	changed func(context.Context, map[string][]string) error // [Config.Injected]
	wanted  *latest.Value[wanted]
	problem atomic.Pointer[error] // from the last write; nil if the file contains the desired content
}

// wanted is the desired content.
type wanted struct {
	devices []cdi.Device
	changed map[string][]string // by device id, nodes that the device's holders weren't given
}

// newInjection returns a new injection, or nil if CDI is disabled.
func newInjection(cfg Config, log *zap.Logger) *injection {
	if cfg.CDI == nil {
		return nil
	}
	return &injection{
		spec: cfg.CDI, hook: cfg.ProgrammingHook, sysRoot: cfg.HostSysRoot, log: log, metrics: cfg.Metrics, changed: cfg.Injected,
		wanted: latest.New(wanted{}),
	}
}

// want makes the devices of these resources the spec file's desired content. Only the conductor calls it.
func (i *injection) want(resources []offer.Resource) {
	if i == nil {
		return
	}
	devices, changed := []cdi.Device{}, map[string][]string{}
	for _, r := range resources {
		for _, d := range r.Devices {
			nodes, mounts := d.Nodes, d.MountsOf(i.sysRoot)
			if slices.ContainsFunc(d.Reasons, func(r string) bool { return inventory.ReasonOf(r).WithholdsNodes }) {
				nodes, mounts = nil, nil // a restarted container might share the device or get a different one
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

// run writes the desired content whenever it changes, until ctx is done. Once per interval, it also rewrites the file
// if another process has changed it.
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

// settle writes the desired content. If the desired content changes in the meantime, settle writes it again, because it
// may have overwritten newer content from a concurrent call. It logs a repeated error only once, and logs when writing
// succeeds again.
func (i *injection) settle(ctx context.Context) error {
	for {
		now, stale := i.wanted.Load()
		if now.devices == nil {
			return nil // no content has been set yet, and the file may be a peer's
		}
		devices := now.devices
		var unrecorded error
		if i.changed != nil && len(now.changed) > 0 {
			// If the nodes can't be recorded, omit their devices from the spec. Don't let ctx interrupt the recording,
			// because nodes that may already have been recorded must not be taken away again.
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

// ready returns nil if the CDI spec file contains the desired content.
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

// names writes the desired content to the spec file and returns the devices' CDI names. A device without nodes and
// mounts has no CDI name.
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
