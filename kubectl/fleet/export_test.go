package fleet

import "time"

// SetPause sets the time before a pod is asked again.
func (f *Fleet) SetPause(d time.Duration) { f.pause = d }

// SetRelist sets the time between two lists of pods.
func (f *Fleet) SetRelist(d time.Duration) { f.relist = d }

var ParsePull = parsePull
