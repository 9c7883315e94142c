package cdi

// Stall keeps the disk from answering until the channel is closed.
func (s *Spec) Stall(until <-chan struct{}) error {
	return s.do(func() error { <-until; return nil })
}
