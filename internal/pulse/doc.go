// Package pulse detects goroutines that hang. A goroutine marks when it starts working and when it goes back to
// waiting. [Pulse.Alive] returns an error if it has been working for too long, whereas it can wait for any length of
// time. The package has no state except in a [Pulse].
package pulse
