// Package pulse finds goroutines that hang. A goroutine marks when it starts working and when it goes back to waiting.
// [Pulse.Alive] reports whether it has been working for too long. A waiting goroutine is healthy, no matter how long it
// waits. The package owns no state other than a [Pulse]'s.
package pulse
