package throttle

const (
	Burst       = burst
	Period      = period
	MaxSubjects = maxSubjects
)

// Subjects returns the number of counts.
func (c *Core) Subjects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts)
}
