package throttle

const (
	Burst   = burst
	During  = during
	MaxKeys = maxKeys
)

// Keys is how many windows there are.
func (c *Core) Keys() int {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	return len(c.limiter.windows)
}
