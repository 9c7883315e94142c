// Package pulse finds goroutines that hang. A goroutine marks when it begins to work and when it waits again.
// [Pulse.Alive] reports whether it has worked for too long. A goroutine that waits is healthy, however long it waits.
// The package owns no state except the state of a [Pulse].
package pulse
