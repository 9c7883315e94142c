// Package pulse detects goroutines that hang. A goroutine marks when it starts working and when it goes back to
// waiting. [Pulse.Alive] returns an error if the goroutine has been working for too long. A goroutine may wait for any
// length of time. The package's only state is in a [Pulse].
package pulse
