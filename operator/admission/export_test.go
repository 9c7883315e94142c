package admission

// Namespaces returns the number of namespaces whose reads from the API server are remembered.
func (h *Handler) Namespaces() int {
	h.limits.live.mu.Lock()
	defer h.limits.live.mu.Unlock()
	return len(h.limits.live.of)
}
