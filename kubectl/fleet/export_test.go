package fleet

import "time"

// SetPause sets the time before a pod is asked again.
func (f *Fleet) SetPause(d time.Duration) { f.pause = d }
