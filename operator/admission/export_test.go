package admission

// Namespaces returns the number of namespaces whose reads from the API server are remembered.
func (h *Handler) Namespaces() int {
	h.turns.live.mu.Lock()
	defer h.turns.live.mu.Unlock()
	return len(h.turns.live.of)
}
