package recorder

// Records returns the number of Events that are kept.
func (r *Recorder) Records() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.table)
}
