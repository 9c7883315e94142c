package throttle

const (
	Burst   = burst
	Period  = period
	MaxKeys = maxKeys
)

// Keys returns the number of counts.
func (c *Core) Keys() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.dropped)
}
