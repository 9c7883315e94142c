package holders

// Leftover reports whether the kubelet should write its checkpoint again.
func (r Rules) Leftover(is Report) bool { return r.leftover(is) }
