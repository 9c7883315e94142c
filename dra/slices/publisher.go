package slices

import (
	"context"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

// minInterval is the minimum time between publications. A single change isn't delayed; any further changes within
// minInterval are published together.
const minInterval = 50 * time.Millisecond

// Config configures a [Publisher].
type Config struct {
	Options
	// Devices is the source of snapshots, usually an [inventory.Inventory].
	Devices interface {
		Latest() (inventory.Snapshot, <-chan struct{})
	}
	// Stored is optional. It returns the node's bitstreams, and a channel that is closed when they change.
	Stored func() ([]programming.Stored, <-chan struct{})
	// StoresTaints is optional. It reports whether the API server stores taints. It is called once, before the first
	// publication with a taint, because if the server dropped the taint, the device could be allocated. It may block.
	StoresTaints func(context.Context) bool
	// Publish starts writing the slices, and may return before it's done. It must not modify them. If it fails, Run
	// returns its error.
	Publish func(context.Context, resourceslice.DriverResources) error
	Log     *zap.Logger
	Metrics *metrics.Metrics
}

// Publisher publishes the latest snapshot's devices. Create it with [NewPublisher], and call Run once.
type Publisher struct {
	cfg  Config
	asks *latest.Value[asked]
}

// asked holds what other goroutines have requested.
type asked struct {
	republishes int // number of calls to Republish
	noTaints    bool
}

// NewPublisher returns a Publisher. It doesn't publish anything until Run is called.
func NewPublisher(cfg Config) *Publisher {
	return &Publisher{cfg: cfg, asks: latest.New(asked{noTaints: cfg.NoTaints})}
}

// Republish publishes the latest slices again, even if they are unchanged. Call it when the API server may have lost
// them.
func (p *Publisher) Republish() {
	p.asks.Update(func(a asked) asked { a.republishes++; return a })
}

// WithoutTaints makes the Publisher omit unhealthy devices from now on, for API servers that don't store taints.
func (p *Publisher) WithoutTaints() {
	p.asks.Update(func(a asked) asked { a.noTaints = true; return a })
}

// Run publishes slices until ctx is done, and then returns nil. Before the first publication, it waits for a complete
// snapshot, because with an incomplete one, running pods' devices would seem to be gone. It also waits until it is
// known which devices are held through the device plugin API. After that, Run publishes each change to the slices
// immediately, but not more than once per minInterval.
func (p *Publisher) Run(ctx context.Context) error {
	var last *publication
	known := p.cfg.StoresTaints == nil // whether StoresTaints has been called or isn't needed
	for {
		asks, more := p.asks.Load()
		snapshot, stale := p.cfg.Devices.Latest()
		var stored []programming.Stored
		var restored <-chan struct{}
		if p.cfg.Stored != nil {
			stored, restored = p.cfg.Stored()
		}
		if next := p.next(snapshot, stored, asks); (last != nil || snapshot.Complete && !snapshot.Awaiting) && !next.equal(last) {
			if !known && next.tainted() {
				known = true
				if !p.cfg.StoresTaints(ctx) {
					p.WithoutTaints()
				}
				continue // the snapshot may have changed meanwhile
			}
			if err := p.cfg.Publish(ctx, next.resources); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			p.report(last, next)
			last = next
			stale, more, restored = nil, nil, nil // don't publish again until minInterval has passed
		}
		var hold <-chan time.Time
		if stale == nil {
			hold = time.After(minInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-hold:
		case <-stale:
		case <-more:
		case <-restored:
		}
	}
}

// publication holds a version of the slices and the data that they were made from.
type publication struct {
	asked
	snapshot  inventory.Snapshot
	resources resourceslice.DriverResources
}

func (p *Publisher) next(s inventory.Snapshot, stored []programming.Stored, a asked) *publication {
	o := p.cfg.Options
	o.NoTaints, o.Bitstreams = a.noTaints, stored
	return &publication{asked: a, snapshot: s, resources: Of(s.Devices, o)}
}

// equal reports whether p doesn't need to be published because it is the same as last, which may be nil.
func (p *publication) equal(last *publication) bool {
	return last != nil && p.republishes == last.republishes && reflect.DeepEqual(p.resources, last.resources)
}

// tainted reports whether any device has a taint.
func (p *publication) tainted() bool {
	devices, _ := p.devices()
	for _, d := range devices {
		if len(d.Taints) > 0 {
			return true
		}
	}
	return false
}

// devices returns the devices in the slices, and the number of slices. The map is indexed by device ID, or by name for
// bitstreams.
func (p *publication) devices() (byID map[string]resourceapi.Device, slices int) {
	byID = map[string]resourceapi.Device{}
	for _, pool := range p.resources.Pools {
		for _, slice := range pool.Slices {
			slices++
			for _, d := range slice.Devices {
				id, ok := draname.ID(d.Name)
				if !ok {
					id = d.Name
				}
				byID[id] = d
			}
		}
	}
	return byID, slices
}

// report logs a publication, including the devices that differ from the previous one. It doesn't list these for the
// first publication and after [Publisher.Republish].
func (p *Publisher) report(last, next *publication) {
	devices, count := next.devices()
	var before map[string]resourceapi.Device
	compared := last != nil && last.republishes == next.republishes
	if compared {
		before, _ = last.devices()
	}
	var changed, unhealthy, gone []string
	tainted := 0
	for id, d := range devices {
		old, known := before[id]
		differs := !known || !reflect.DeepEqual(old, d)
		if compared && differs {
			changed = append(changed, id)
		}
		if len(d.Taints) > 0 {
			tainted++
			if differs {
				unhealthy = append(unhealthy, id)
			}
		}
	}
	for id := range before {
		if _, listed := devices[id]; !listed {
			gone = append(gone, id)
		}
	}
	changed = append(changed, gone...)
	for _, ids := range [][]string{changed, unhealthy, gone} {
		slices.Sort(ids)
	}
	hinted := compared && !next.snapshot.Hinted.IsZero()
	since, latency := time.Since(next.snapshot.Hinted), zap.Skip()
	if hinted {
		latency = logevent.Latency(since)
	}
	p.cfg.Metrics.ListSent(draname.Driver, since, hinted)
	p.cfg.Log.Info("slices published", logevent.SlicesPublished, logevent.Resource(draname.Driver), logevent.Rev(next.snapshot.Version),
		logevent.Count(len(devices)), logevent.Slices(count), logevent.Tainted(tainted), logevent.Devices(logevent.Shorten(changed)),
		logevent.Unhealthy(logevent.Shorten(unhealthy)), logevent.Gone(logevent.Shorten(gone)), latency)
}
