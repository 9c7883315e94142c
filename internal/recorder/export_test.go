package recorder

// Records is how many Events are remembered.
func (r *Recorder) Records() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.table)
}
