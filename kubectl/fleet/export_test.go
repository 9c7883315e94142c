package fleet

import "time"

// SetPause sets the time before a pod is asked again.
func (f *Fleet) SetPause(d time.Duration) { f.pause = d }

// SetRelist sets the time between two lists of pods.
func (f *Fleet) SetRelist(d time.Duration) { f.relist = d }

// SetLasting sets the time for which a command follows a pod.
func (f *Fleet) SetLasting(d time.Duration) { f.lasting = d }

// Attempts is what a follower knows of its earlier commands.
type Attempts = attempts

// Failed counts a command that has failed.
func (a *attempts) Failed(err error, answered bool, lived time.Duration) (time.Duration, bool) {
	return a.failed(err, answered, lived, time.Second)
}

var ParsePull = parsePull
