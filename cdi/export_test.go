package cdi

// Stall simulates a disk that hangs until the channel is closed.
func (s *Spec) Stall(until <-chan struct{}) error {
	return s.do(func() error { <-until; return nil })
}

// Stale reports whether the file would give a device different nodes, variables or hooks than devices does.
func (s *Spec) Stale(devices []Device) bool {
	wanted, err := render(s.kind, s.hostDevRoot, devices)
	return err != nil || s.files.stale(wanted)
}
