// Package pulse detects goroutines that hang. A goroutine marks when it starts working and when it goes back to
// waiting. [Pulse.Alive] returns an error if the goroutine has been working for too long; it can wait for as long as it
// likes. The package has no state except in a [Pulse].
package pulse
