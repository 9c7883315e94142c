package server

import (
	"fmt"
	"maps"
	"slices"
)

// Resource is how the kubelet is served one resource at this moment.
type Resource struct {
	Name    string
	Streams int   // that the kubelet has open
	Ready   error // nil: registered with a stream open, or without devices; else why not
}

// Resources lists the resources that are served, by name. Anyone may call it at any
// time.
func (s *Server) Resources() []Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Resource
	for _, name := range slices.Sorted(maps.Keys(s.endpoints)) {
		e := s.endpoints[name]
		r := Resource{Name: name, Ready: e.ready()}
		if session := e.current.Load(); session != nil {
			count, _ := session.streams.latest()
			r.Streams = count.open
		}
		all = append(all, r)
	}
	return all
}

// Alive returns nil, or that the conductor is stuck with a snapshot. Anyone may call
// it at any time.
func (s *Server) Alive() error {
	if err := s.pulse.Alive(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}
