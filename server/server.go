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

	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// Devices is where the server learns what there is.
type Devices interface {
	// Latest returns the newest snapshot and a channel that is closed when it is
	// stale.
	Latest() (inventory.Snapshot, <-chan struct{})
}

// Server offers the node's devices to the kubelet.
type Server struct {
	cfg        Config
	devices    Devices
	log        *zap.Logger
	directory  *directory
	reregister signal
	injection  *injection   // nil: off
	pulse      *pulse.Pulse // the conductor's

	mu        sync.Mutex           // guards what follows, which only the conductor changes
	endpoints map[string]*endpoint // by resource
	handed    bool                 // a snapshot was handed to the endpoints
}

// New checks the settings. It opens nothing: the kubelet and its directory may
// come hours later. Nothing is missed thereby, because Run watches the directory
// before it looks into it.
func New(cfg Config, devices Devices, log *zap.Logger) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.KubeletDir = filepath.Clean(cfg.KubeletDir)
	log = log.Named("server")
	return &Server{
		cfg:        cfg,
		devices:    devices,
		log:        log,
		directory:  newDirectory(cfg.KubeletDir, cfg.PollInterval, log),
		reregister: newSignal(),
		injection:  newInjection(cfg.CDI, cfg.Metrics, log),
		pulse:      pulse.New(pulse.Patience),
		endpoints:  map[string]*endpoint{},
	}, nil
}

// ErrWithdrawn as the cause of the end of [Server.Run]'s context says that what was
// offered is not offered any more. The kubelet is told so, by empty lists: else it
// would show the resources for minutes, in case that somebody goes on serving them.
var ErrWithdrawn = errors.New("withdrawn")

// Run offers the devices until ctx ends; then it returns nil, with every stream
// ended, every socket removed and every goroutine gone. It is called once.
func (s *Server) Run(ctx context.Context) error {
	removeLeftovers(ctx, s.cfg.KubeletDir, s.log)
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { s.directory.run(ctx) })
	if s.injection != nil {
		tasks.Go(func() { s.injection.run(ctx, s.cfg.PollInterval) })
	}
	s.conduct(ctx)
	return nil
}

// Reregister ends all streams and registers every resource again on a new socket.
func (s *Server) Reregister() { s.reregister.raise() }

// Ready returns nil when it is known what devices there are, and every resource
// that has some is registered and has a stream open; with no resource it is nil
// too. Else it says which is not, and why.
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

// conduct hands the devices to the endpoints until ctx ends. It creates and ends
// them, and returns when all have ended.
func (s *Server) conduct(ctx context.Context) {
	defer s.endAll(ctx)
	var seen uint64
	for {
		s.pulse.Work()
		snapshot, stale := s.devices.Latest()
		if snapshot.Version != seen { // 0: nothing is known yet
			seen = snapshot.Version
			s.hand(ctx, snapshot)
		}
		timer := time.NewTimer(s.retire(time.Now()))
		s.pulse.Rest()
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-stale:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// hand gives each endpoint its list of the snapshot, and starts those of new
// resources. These have their list before anybody sees them: an endpoint without
// devices counts as ready.
func (s *Server) hand(ctx context.Context, snapshot inventory.Snapshot) {
	resources := offer.Resources(snapshot.Devices)
	s.injection.want(resources)
	s.takeAway(ctx, snapshot, resources)
	offered := map[string]bool{}
	var fresh []*endpoint
	for _, resource := range resources {
		offered[resource.Name] = true
		e, ok := s.endpoints[resource.Name]
		if !ok {
			e = newEndpoint(resource.Name, s.cfg, s.directory, s.reregister, s.injection, s.log)
			fresh = append(fresh, e)
			s.cfg.Metrics.ResourceOffered(e.resource)
		}
		e.emptySince = time.Time{}
		e.offer(snapshot, resource.Units)
	}
	for name, e := range s.endpoints {
		if offered[name] {
			continue
		}
		if e.emptySince.IsZero() {
			e.emptySince = time.Now()
		}
		e.offer(snapshot, []offer.Unit{})
	}
	s.admit(fresh)
	for _, e := range fresh {
		e.start(context.WithoutCancel(ctx)) // it is ended by the conductor
	}
}

// admit lets these endpoints count.
func (s *Server) admit(fresh []*endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range fresh {
		s.endpoints[e.resource] = e
	}
	s.handed = true
}

// retire ends the endpoints that have been without devices for long enough, and
// says how long it is until the next may be due.
func (s *Server) retire(now time.Time) time.Duration {
	wait := s.cfg.RetireAfter
	var due []*endpoint
	for _, e := range s.endpoints {
		if e.emptySince.IsZero() {
			continue
		}
		if left := e.emptySince.Add(s.cfg.RetireAfter).Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		due = append(due, e)
	}
	endTogether(due)
	for _, e := range due {
		s.mu.Lock()
		delete(s.endpoints, e.resource)
		s.mu.Unlock()
		s.cfg.Metrics.ResourceRetired(e.resource)
		s.log.Info("resource retired", event.ResourceRetired, event.Resource(e.resource))
	}
	return wait
}

// endAll ends all endpoints and waits for them.
func (s *Server) endAll(ctx context.Context) {
	if errors.Is(context.Cause(ctx), ErrWithdrawn) {
		s.withdraw(context.WithoutCancel(ctx))
	}
	endTogether(slices.Collect(maps.Values(s.endpoints)))
	if errors.Is(context.Cause(ctx), ErrWithdrawn) {
		for name := range s.endpoints {
			s.cfg.Metrics.ResourceRetired(name)
		}
	}
}

// endTogether ends these endpoints at once: whoever does not hang up costs each of
// them its time.
func endTogether(endpoints []*endpoint) {
	var ends sync.WaitGroup
	for _, e := range endpoints {
		ends.Go(e.end)
	}
	ends.Wait()
}
