package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
)

// Devices is the source of the devices to offer.
type Devices interface {
	// Latest returns the newest snapshot and a channel that is closed when there is a newer one.
	Latest() (inventory.Snapshot, <-chan struct{})
}

// Server offers the node's devices to the kubelet.
type Server struct {
	cfg        Config
	devices    Devices
	log        *zap.Logger
	directory  *directory
	reregister latest.Signal
	refresh    latest.Signal
	injection  *injection    // nil if CDI is disabled
	pulse      *pulse.Pulse  // the conductor's pulse
	drain      time.Duration // drainTimeout, except in tests
	move       time.Duration // moveTimeout, except in tests
	generation uint64        // the newest snapshot's generation; used by the conductor
	// retiring contains a channel for each resource whose endpoint has been retired. The channel is closed when a new
	// endpoint for the resource may start. Only the conductor uses this field.
	retiring map[string]chan struct{}
	ends     sync.WaitGroup // of endpoints

	mu        sync.Mutex           // guards the remaining fields, which only the conductor changes
	endpoints map[string]*endpoint // by resource
	handed    bool                 // a snapshot has been handed to the endpoints
}

// New returns a server. It doesn't open any files, because the kubelet's directory may not exist yet. Run starts
// watching the directory before it reads it, so it doesn't miss any changes.
func New(cfg Config, devices Devices, log *zap.Logger) *Server {
	cfg.KubeletDir = filepath.Clean(cfg.KubeletDir)
	log = log.Named("server")
	return &Server{
		cfg:        cfg,
		devices:    devices,
		log:        log,
		directory:  newDirectory(cfg.KubeletDir, cfg.PollInterval, log),
		reregister: latest.NewSignal(),
		refresh:    latest.NewSignal(),
		injection:  newInjection(cfg, log),
		pulse:      pulse.New(pulse.Patience),
		drain:      drainTimeout,
		move:       moveTimeout,
		endpoints:  map[string]*endpoint{},
		retiring:   map[string]chan struct{}{},
	}
}

// Run offers the devices until ctx is done. It then ends all streams and goroutines, removes all sockets and returns
// nil. It must be called only once.
func (s *Server) Run(ctx context.Context) error {
	s.directory.peers.RemoveLeftovers(ctx, s.log)
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { s.directory.run(ctx) })
	if s.injection != nil {
		tasks.Go(func() { s.injection.run(ctx, s.cfg.PollInterval) })
	}
	s.conduct(ctx)
	for _, e := range s.endpoints {
		s.ends.Go(e.end)
	}
	s.ends.Wait()
	return nil
}

// Reregister ends all streams and re-registers every resource on a new socket.
func (s *Server) Reregister() { s.reregister.Raise() }

// Refresh resends the newest list on each stream, and reports whether any stream is open. It makes the kubelet rewrite
// its checkpoint, without the entries of containers that have exited. Refresh doesn't block.
func (s *Server) Refresh() (sent bool) {
	s.refresh.Raise()
	return slices.ContainsFunc(s.Resources(), func(r Resource) bool { return r.Streams > 0 })
}

// Ready returns nil if there has been a snapshot and every resource that has devices is registered and has an open
// stream. Otherwise it returns an error that says which resources aren't ready and why.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.handed {
		return errors.New("the first scan has not ended yet")
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.endpoints)) {
		if err := s.endpoints[name].ready(); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(problems, s.injection.ready())...)
}

// Alive returns an error if the conductor hangs while handing over a snapshot. It is safe for concurrent use.
func (s *Server) Alive() error {
	if err := s.pulse.Alive(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Resource is the current state of one resource.
type Resource struct {
	Name    string
	Streams int   // number of open ListAndWatch streams
	Ready   error // nil if it is registered and has an open stream, or has no devices
}

// Resources returns the resources being served, sorted by name. It is safe for concurrent use.
func (s *Server) Resources() []Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Resource
	for _, name := range slices.Sorted(maps.Keys(s.endpoints)) {
		e := s.endpoints[name]
		r := Resource{Name: name, Ready: e.ready()}
		if session := e.current.Load(); session != nil {
			count, _ := session.streams.Load()
			r.Streams = count.open
		}
		all = append(all, r)
	}
	return all
}

// conduct hands the devices to the endpoints, creating and retiring endpoints as needed, until ctx is done.
func (s *Server) conduct(ctx context.Context) {
	var seen uint64
	for {
		s.pulse.Work()
		snapshot, stale := s.devices.Latest()
		if snapshot.Version != seen { // 0 means that there is no snapshot yet
			seen = snapshot.Version
			s.handOver(ctx, snapshot)
		}
		wait := s.retire(ctx, time.Now())
		s.pulse.Rest()
		select {
		case <-ctx.Done():
			return
		case <-stale:
		case <-time.After(wait):
		}
	}
}

// handOver gives each endpoint its list from the snapshot, and creates endpoints for new resources. A new endpoint gets
// its list before Ready and Resources can return it, because an endpoint without devices counts as ready.
func (s *Server) handOver(ctx context.Context, snapshot inventory.Snapshot) {
	resources := offer.Resources(snapshot.Devices)
	s.injection.want(resources)
	s.withdrawMoving(ctx, snapshot, resources)
	for _, e := range s.endpoints {
		e.former = e.former || snapshot.Generation != s.generation
	}
	s.generation = snapshot.Generation
	offered := map[string]bool{}
	var fresh []*endpoint
	for _, r := range resources {
		offered[r.Name] = true
		e, ok := s.endpoints[r.Name]
		if !ok {
			e = newEndpoint(s, r.Name)
			e.after = s.retiring[r.Name]
			delete(s.retiring, r.Name)
			fresh = append(fresh, e)
			s.cfg.Metrics.ResourceOffered(r.Name)
		}
		e.emptySince = time.Time{}
		e.former = e.former && !slices.ContainsFunc(r.Devices, func(d *inventory.Device) bool { return !unhealthy(d) })
		e.offer(snapshot, r.Devices)
	}
	moved, cancel := context.WithTimeout(ctx, s.move)
	defer cancel()
	for name, e := range s.endpoints {
		if offered[name] {
			continue
		}
		if e.emptySince.IsZero() {
			e.emptySince = time.Now()
		}
		e.offer(snapshot, nil)
		if e.former { // otherwise the kubelet would keep showing its devices for minutes
			e.awaitSent(moved)
		}
	}
	s.mu.Lock()
	for _, e := range fresh {
		s.endpoints[e.resource] = e
	}
	s.handed = true
	s.mu.Unlock()
	for _, e := range fresh {
		e.start(context.WithoutCancel(ctx)) // ended by Run
	}
}

// moveTimeout limits how long to wait until devices that are moving to another resource have been withdrawn from their
// old lists. The wait also delays the snapshot's other changes.
const moveTimeout = 100 * time.Millisecond

// withdrawMoving removes devices that are moving to another resource from their current lists, and waits up to
// moveTimeout for those lists to be sent, because a device must not be on two lists at once. Each of these lists
// contains the resource's devices from the snapshot, but not yet the devices that are moving to the resource.
func (s *Server) withdrawMoving(ctx context.Context, snapshot inventory.Snapshot, resources []offer.Resource) {
	if len(s.endpoints) == 1 && len(resources) == 1 && s.endpoints[resources[0].Name] != nil {
		return // nothing to move
	}
	on := map[string]*endpoint{} // by device id
	for _, e := range s.endpoints {
		l, _ := e.lists.Load()
		for _, d := range l.Devices {
			on[d.ID] = e
		}
	}
	moves := func(d *inventory.Device) bool {
		e := on[d.ID]
		return e != nil && e.resource != d.OfferedAs
	}
	stay := map[*endpoint][]*inventory.Device{} // what is left of each list that devices are leaving
	for _, d := range snapshot.Devices {
		if d.OfferedAs != "" && moves(d) {
			stay[on[d.ID]] = nil
		}
	}
	for _, r := range resources {
		if _, left := stay[s.endpoints[r.Name]]; left {
			stay[s.endpoints[r.Name]] = slices.DeleteFunc(slices.Clone(r.Devices), moves)
		}
	}
	for e, devices := range stay {
		e.offer(snapshot, devices)
	}
	ctx, cancel := context.WithTimeout(ctx, s.move)
	defer cancel()
	for e := range stay {
		e.awaitSent(ctx)
	}
}

// retire ends each endpoint that has had no devices for [Config.RetireAfter]. If an endpoint has had no healthy device
// since the generation changed, it ends as soon as it has no devices. retire returns the time until it must be called
// again.
func (s *Server) retire(ctx context.Context, now time.Time) time.Duration {
	wait := s.cfg.RetireAfter
	for _, e := range s.endpoints {
		if e.emptySince.IsZero() {
			continue
		}
		if left := e.emptySince.Add(s.cfg.RetireAfter).Sub(now); left > 0 && !e.former {
			wait = min(wait, left)
			continue
		}
		s.mu.Lock()
		delete(s.endpoints, e.resource)
		s.mu.Unlock()
		ended := make(chan struct{})
		s.retiring[e.resource] = ended
		s.ends.Go(func() { // may take up to drainTimeout, which must not delay other lists
			defer close(ended)
			e.end()
			s.cfg.Metrics.ResourceRetired(e.resource)
			s.log.Info("resource retired", logevent.ResourceRetired, logevent.Resource(e.resource))
			select {
			case <-time.After(settle):
			case <-ctx.Done():
			}
		})
	}
	return wait
}
